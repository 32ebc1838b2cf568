"""Product quantization as it is commonly done: coordinates in blocks as they stand, and k-means in each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kdcode.arrays import FloatArray, IntArray
from kdcode.codec import CodewordSpec, make_codec
from kdcode.coded import CodedTable
from kdcode.learning.linalg.kmeans import kmeans, nearest
from kdcode.table import VectorTable

_CODEBOOK_SIZES = (16, 64, 256)
"""Codes of 4, 6 and 8 bits a position: what libraries offer, and a size between for tables of few rows."""
_ITERATIONS = 25
"""Of k-means: as many as faiss makes."""
_SAMPLE, _JUDGED = 1 << 14, 1 << 12
"""Rows of a large table that the size of codebooks is chosen with: to learn from, and to judge by."""


def fitting_specs(rows: int, dim: int, most: int) -> Iterator[CodewordSpec]:
    """For each size of codebook the longest code of a table of N x d that fits into so many bytes."""
    for size in _CODEBOOK_SIZES:
        if size > max(2, rows // 2):
            return
        specs = (CodewordSpec.named("product", dim, size, length) for length in range(dim, 0, -1))
        fitting = next((spec for spec in specs if spec.sizes(rows).embedding <= most), None)
        if fitting is not None:
            yield fitting


def product_codes(table: VectorTable, most: int, seed: int = 0) -> CodedTable | None:
    """Learn the product codes of a table that lose least within so many bytes; None where none fit.

    Of a large table, the size of codebooks is chosen on a sample: by the error of rows that were not learned from.
    """
    specs = list(fitting_specs(len(table), table.embedding_dim, most))
    vectors = np.array(table.matrix, dtype=np.float32)
    unit = float(np.abs(vectors).max()) or 1.0  # squares of very long and very short vectors leave float32
    vectors /= unit
    if len(vectors) > _SAMPLE + _JUDGED and len(specs) > 1:
        order = np.random.default_rng(seed).permutation(len(vectors))
        some, others = vectors[order[:_SAMPLE]], vectors[order[_SAMPLE : _SAMPLE + _JUDGED]]
        specs = [min(specs, key=lambda spec: _Learned.of(some, spec, seed).coded(others)[1])]
    learned = [_Learned.of(vectors, spec, seed) for spec in specs]
    if not learned:
        return None
    best, (codes, _) = min(((one, one.coded(vectors)) for one in learned), key=lambda pair: pair[1][1])
    codec = make_codec(best.spec, {"codebook": best.words.astype(np.float64) * unit})
    return CodedTable(table.packed_symbols, codec.pack(codes), codec)


class _Learned(NamedTuple):
    """The (D, K, e) codewords of product codes."""

    spec: CodewordSpec
    words: FloatArray

    @classmethod
    def of(cls, vectors: FloatArray, spec: CodewordSpec, seed: int) -> _Learned:
        """Learn from (N, d) vectors: k-means from drawn seeds in each block."""
        words = np.zeros(spec.weight_shapes()["codebook"], dtype=np.float32)
        for number, block in enumerate(spec.blocks):
            part, drawn = np.ascontiguousarray(vectors[:, block.columns]), np.random.default_rng([seed, number])
            found = kmeans(part, spec.codebook_size, drawn, _ITERATIONS, greedy=False)
            words[number, :, : block.width] = found
        return cls(spec, words)

    def coded(self, vectors: FloatArray) -> tuple[IntArray, float]:
        """(n, D) codes of (n, d) vectors, and their squared error."""
        codes, error = np.empty((len(vectors), self.spec.code_length), dtype=np.int64), 0.0
        for number, block in enumerate(self.spec.blocks):
            labels, distances = nearest(
                np.ascontiguousarray(vectors[:, block.columns]), self.words[number, :, : block.width]
            )
            codes[:, number] = labels
            error += float(distances.sum(dtype=np.float64))
        return codes, error
