"""Residual k-means: each codebook is k-means of what the ones before left over, as in residual quantization (RQ)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kdcode.codec_torch.lookup import code_dtype
from kdcode.codec_torch.parallel import parallel_chunks
from kdcode.learning.linalg.kmeans import ROWS_PER_CENTROID, best_kmeans, nearest_labels, sample_rows

_CODED_ROWS = 1 << 11


def residual_kmeans(
    vectors: Tensor,
    code_length: int,
    codebook_size: int,
    generator: torch.Generator,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One k-means after another, each on what the ones before left over of a sample of the rows.

    Args:
        vectors: (N, d).
        code_length: D.
        codebook_size: K.
        generator: draws the sample and the seeds, on the CPU.
        weights: (N,) of the rows; all 1 where left out.

    Returns:
        (N, D) codes, of `code_dtype`, and (D, K, d) codewords whose sums approximate `vectors`.
    """
    sample, counted = sample_rows(vectors, weights, codebook_size * ROWS_PER_CENTROID, generator)
    residual = sample.clone() if sample is vectors else sample
    books = []
    for position in range(code_length):
        books.append(best_kmeans(residual, codebook_size, generator, counted, residual=position > 0))
        residual -= books[-1][nearest_labels(residual, books[-1])]
    del sample, residual
    return _residual_codes(vectors, books), torch.stack(books)


def _residual_codes(vectors: Tensor, books: Sequence[Tensor]) -> Tensor:
    """(N, D): the nearest centroid of each row in the first book, of its residual in the second, and so on."""
    codes = torch.empty(len(vectors), len(books), dtype=code_dtype(len(books[0])), device=vectors.device)

    def choose(start: int) -> None:
        part = slice(start, start + _CODED_ROWS)
        residual = vectors[part].clone()
        for position, centroids in enumerate(books):
            labels = nearest_labels(residual, centroids)
            residual -= centroids[labels]
            codes[part, position] = labels.to(codes.dtype)

    parallel_chunks(choose, range(0, len(vectors), _CODED_ROWS), vectors.device)
    return codes
