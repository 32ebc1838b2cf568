"""Products of large matrices, a few rows at a time on several threads; results do not depend on their number."""

from __future__ import annotations

import torch
from torch import Tensor

from kdcode.codec_torch.parallel import parallel_chunks

_PARALLEL_FLOATS = 1 << 24
"""Multiplications from which a product is shared among threads."""
_ROWS = 1 << 12
_SPANS = 4
"""Sums over rows that are added up side by side."""


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """(n, e): the product of (n, d) and (d, e)."""
    if left.numel() * right.shape[1] < _PARALLEL_FLOATS:
        return left @ right
    product = left.new_empty(len(left), right.shape[1])
    rows = min(_ROWS, -(-len(left) // _SPANS))

    def fill(start: int) -> None:
        part = slice(start, start + rows)
        torch.mm(left[part], right, out=product[part])

    parallel_chunks(fill, range(0, len(left), rows), left.device)
    return product


def scatter(vectors: Tensor, weights: Tensor | None = None) -> Tensor:
    """(d, d): the sum over (n, d) rows v, by (n,) weight, of v vᵀ."""
    spans = _SPANS if vectors.numel() * vectors.shape[1] >= _PARALLEL_FLOATS else 1
    sums = vectors.new_zeros(spans, vectors.shape[1], vectors.shape[1])

    def add_up(span: int) -> None:
        for start in range(span * _ROWS, len(vectors), spans * _ROWS):
            part = vectors[start : start + _ROWS]
            weighted = part if weights is None else part * weights[start : start + _ROWS, None]
            sums[span].addmm_(weighted.t(), part)

    parallel_chunks(add_up, range(spans), vectors.device)
    return sums.sum(dim=0)
