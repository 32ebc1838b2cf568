"""Residual k-means: each codebook is k-means of what the ones before left over, as in residual quantization (RQ)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kdcode.codec_torch.lookup import code_dtype
from kdcode.codec_torch.nearest import nearest_labels
from kdcode.codec_torch.parallel import parallel_chunks
from kdcode.learning.linalg.kmeans import ROWS_PER_CENTROID, best_kmeans
from kdcode.learning.row_share import RowShare

_CODED_ROWS = 1 << 11


def residual_kmeans(
    vectors: Tensor,
    code_length: int,
    codebook_size: int,
    generator: torch.Generator,
    weights: Tensor | None = None,
    share: RowShare | None = None,
) -> tuple[Tensor, Tensor]:
    """One k-means after another, each on what the ones before left over of a sample of the rows.

    Args:
        vectors: (N, d).
        code_length: D.
        codebook_size: K.
        generator: draws the sample and the seeds, on the CPU.
        weights: (N,) of the rows; all 1 where left out.
        share: which rows of a table these are, where other ranks have the others; all ranks get the same codewords.

    Returns:
        (N, D) codes, of `code_dtype`, and (D, K, d) codewords whose sums approximate `vectors`.
    """
    share = share or RowShare.whole(len(vectors))
    sample = BlockSample.of(vectors, weights, codebook_size, share, generator)
    words = residual_codewords(sample, code_length, codebook_size)
    share.ranks.agree([words])
    return residual_codes(vectors, words), words


class BlockSample(NamedTuple):
    """Rows to learn codewords from, which are written on, their weights, and the generator that drew them."""

    rows: Tensor
    weights: Tensor | None
    generator: torch.Generator

    @classmethod
    def of(
        cls, vectors: Tensor, weights: Tensor | None, codebook_size: int, share: RowShare, generator: torch.Generator
    ) -> BlockSample:
        """Enough rows of all ranks for K codewords, as a copy; each rank gives its own, and all get the sample."""
        most = codebook_size * ROWS_PER_CENTROID
        if share.total <= most:
            drawn = torch.arange(share.total, device=vectors.device)
        else:
            drawn = torch.randperm(share.total, generator=generator)[:most].to(vectors.device)
        counted = None if weights is None else share.fetch(weights, drawn)
        return cls(share.fetch(vectors, drawn), counted, generator)


def residual_codewords(sample: BlockSample, code_length: int, codebook_size: int) -> Tensor:
    """(D, K, d) codewords, one k-means after another on what is left of a sample."""
    residual, weights, generator = sample
    books: list[Tensor] = []
    for position in range(code_length):
        random = np.random.default_rng(int(torch.randint(1 << 62, (1,), generator=generator)))
        counted = None if weights is None else weights.numpy()
        books.append(
            torch.from_numpy(best_kmeans(residual.numpy(), codebook_size, random, counted, residual=position > 0))
        )
        residual -= books[-1][nearest_labels(residual, books[-1])]
    return torch.stack(books)


def residual_codes(vectors: Tensor, books: Tensor) -> Tensor:
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
