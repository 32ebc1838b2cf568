"""Principal directions of rows, at a cost that is cubic in the smaller of rows and dimensions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kdcode.learning.linalg.products import scatter
from kdcode.learning.ranks import ALONE, Ranks

_NO_VARIANCE = 1e-12
"""Share of the largest variance below which a direction of few rows is nothing but rounding."""


class Principal(NamedTuple):
    """Directions by falling variance: (r,) variances, weighted sums of squares, and (d, r) orthonormal columns."""

    variances: Tensor
    directions: Tensor


def principal_directions(
    vectors: Tensor, weights: Tensor | None = None, mean: Tensor | None = None, ranks: Ranks = ALONE
) -> Principal:
    """The principal directions of (n, d) rows around a mean, all d of them, or those that n < d rows span.

    Args:
        vectors: (n, d).
        weights: (n,) of the rows; all 1 where left out.
        mean: (d,) what to subtract; nothing where left out, as it must be where there are several ranks.
        ranks: whose rows these are; each gives its own.
    """
    if ranks.total(len(vectors)) < vectors.shape[1]:
        everywhere = None if weights is None else ranks.gather_rows(weights)
        return _of_few_rows(ranks.gather_rows(vectors), everywhere, mean)
    products = ranks.all_sum(scatter(vectors, weights))
    if mean is not None:  # without a centred copy of the rows
        total = vectors.sum(dim=0) if weights is None else weights @ vectors
        count = len(vectors) if weights is None else weights.sum()
        products += count * torch.outer(mean, mean) - torch.outer(total, mean) - torch.outer(mean, total)
    found = torch.linalg.eigh(((products + products.t()) / 2).double())
    return Principal(found.eigenvalues.flip(0).clamp_min(0).to(vectors), found.eigenvectors.flip(1).to(vectors))


def _of_few_rows(vectors: Tensor, weights: Tensor | None, mean: Tensor | None) -> Principal:
    """By the (n, n) matrix of dot products, which has the same spectrum."""
    rows = (vectors if mean is None else vectors - mean).double()
    if weights is not None:
        rows = rows * weights.double().sqrt()[:, None]
    found = torch.linalg.eigh(rows @ rows.t())
    kept = found.eigenvalues > _NO_VARIANCE * found.eigenvalues[-1].clamp_min(1e-300)
    kept[-1] = True
    variances, combinations = found.eigenvalues[kept].flip(0).clamp_min(0), found.eigenvectors[:, kept].flip(1)
    directions = torch.linalg.qr(rows.t() @ combinations).Q  # orthogonal already; the lengths become 1
    return Principal(variances.to(vectors), directions.to(vectors))


def complete_basis(directions: Tensor, count: int) -> Tensor:
    """(d, count) orthonormal columns: the first of (d, r) given ones, and more where these are too few."""
    dim, rank = directions.shape
    if rank >= count:
        return directions[:, :count]
    generator = torch.Generator().manual_seed(0)
    more = torch.randn(dim, count - rank, generator=generator, dtype=torch.float64).to(directions.device)
    completed: Tensor = torch.linalg.qr(torch.cat([directions.double(), more], dim=1)).Q
    completed[:, :rank] = directions
    return completed.to(directions)
