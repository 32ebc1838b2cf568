"""BlockSum: blocks of coordinates, each the sum of its positions' codewords, times an optional basis.

One block is the paper's linear composition and additive quantization; one block per position is product quantization
(PQ); a rotation as basis makes it optimised product quantization (OPQ, Ge et al., 2013).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.beam_search import encode_sums, squared_norms
from kdcode.codec.codec import CodeArray, Codec
from kdcode.codec.spec import BLOCK_SUM

_CHUNK_FLOATS = 1 << 19
"""Floats that the largest intermediate array of a chunk may hold, so that it stays in the cache."""


class BlockSum(Codec):
    """v = (s_1, …, s_G) B: block g has the coordinates s_g = Σ W^j_{c_j} over its positions j.

    Codewords have the size of the widest block; what stands beyond a narrower one is not read.
    """

    kind: ClassVar[str] = BLOCK_SUM
    scaled_weight: ClassVar[str] = "codebook"

    def compose(self, codes: IntArray) -> FloatArray:
        """(n, D) or (n, columns) codes to (n, d) vectors, before row scales."""
        sums = np.empty((len(codes), self.spec.inner_dim), dtype=np.float32)
        for block in self.spec.blocks:
            first, *others = range(block.positions.start, block.positions.stop)
            total = self.codebook[first, :, : block.width].take(codes[:, first], axis=0)
            for position in others:
                total += self.codebook[position, :, : block.width].take(codes[:, position], axis=0)
            sums[:, block.columns] = total
        return sums if self.basis is None else np.asarray(sums @ self.basis, dtype=np.float32)

    def score_tables(self, queries: DoubleArray) -> DoubleArray:
        """(D, K, q) dot products of each codeword with its own part of (d, q) queries, which the basis is moved to."""
        seen = queries if self.basis is None else self.basis @ queries
        tables = np.empty((*self.codebook.shape[:2], queries.shape[1]))
        for block in self.spec.blocks:
            tables[block.positions] = self.codebook[block.positions, :, : block.width] @ seen[block.columns]
        return tables

    def _search(self, vectors: FloatArray, beam: int, sweeps: int) -> CodeArray:
        words = self.codebook
        if self.basis is not None:
            if self.spec.is_rotated:
                vectors = np.asarray(vectors @ self.basis.T, dtype=np.float32)
            else:  # a projection keeps no distances: codewords of full length do
                return encode_sums(vectors, np.asarray(words @ self.basis, dtype=np.float32), beam, sweeps)
        codes = np.empty((len(vectors), self.spec.code_length), dtype=np.int64)
        for block in self.spec.blocks:
            part, chosen = vectors[:, block.columns], words[block.positions, :, : block.width]
            if block.length == 1:  # one position alone is found exactly
                codes[:, block.positions] = (squared_norms(chosen[0]) - 2 * part @ chosen[0].T).argmin(axis=1)[:, None]
            else:
                codes[:, block.positions] = encode_sums(part, chosen, beam, sweeps)
        return codes

    def _rows_at_once(self, beam: int) -> int:
        return max(1, _CHUNK_FLOATS // (beam * max(self.spec.codebook_size, self.spec.embedding_dim)))
