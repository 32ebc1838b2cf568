"""Principal directions of rows, at a cost that is cubic in the smaller of rows and dimensions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray
from kdcode.learning.ranks import ALONE, Ranks
from kdcode.threads import parallel_chunks

_NO_VARIANCE = 1e-12
"""Share of the largest variance below which a direction of few rows is nothing but rounding."""
_PARALLEL_NUMBERS = 1 << 24
"""Multiplications from which a product is shared among threads."""
_ROWS = 1 << 12
_SPANS = 4
"""Sums over rows that are added up side by side."""


class Principal(NamedTuple):
    """Directions by falling variance: (r,) variances, weighted sums of squares, and (d, r) orthonormal columns."""

    variances: FloatArray
    directions: FloatArray


def principal_directions(
    vectors: FloatArray, weights: FloatArray | None = None, mean: FloatArray | None = None, ranks: Ranks = ALONE
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
    products = ranks.all_sum(scatter(vectors, weights)).astype(np.float64)
    if mean is not None:  # without a centred copy of the rows
        total = vectors.sum(axis=0) if weights is None else weights @ vectors
        count = len(vectors) if weights is None else weights.sum()
        products += count * np.outer(mean, mean) - np.outer(total, mean) - np.outer(mean, total)
    variances, directions = np.linalg.eigh((products + products.T) / 2)
    return Principal(_floats(variances[::-1].clip(min=0)), _floats(directions[:, ::-1]))


def _of_few_rows(vectors: FloatArray, weights: FloatArray | None, mean: FloatArray | None) -> Principal:
    """By the (n, n) matrix of dot products, which has the same spectrum."""
    rows = (vectors if mean is None else vectors - mean).astype(np.float64)
    if weights is not None:
        rows *= np.sqrt(weights.astype(np.float64))[:, None]
    variances, combinations = np.linalg.eigh(rows @ rows.T)
    kept = variances > _NO_VARIANCE * max(variances[-1], 1e-300)
    kept[-1] = True
    directions = np.linalg.qr(rows.T @ combinations[:, kept][:, ::-1]).Q  # orthogonal already; the lengths become 1
    return Principal(_floats(variances[kept][::-1].clip(min=0)), _floats(directions))


def complete_basis(directions: FloatArray, count: int) -> FloatArray:
    """(d, count) orthonormal columns: the first of (d, r) given ones, and more where these are too few."""
    dim, rank = directions.shape
    if rank >= count:
        return directions[:, :count]
    more = np.random.default_rng(0).standard_normal((dim, count - rank))
    completed = np.linalg.qr(np.concatenate([directions.astype(np.float64), more], axis=1)).Q
    completed[:, :rank] = directions
    return _floats(completed)


def multiply(left: FloatArray, right: FloatArray) -> FloatArray:
    """(n, e): the product of (n, d) and (d, e), of many rows on several threads."""
    if left.size * right.shape[1] < _PARALLEL_NUMBERS:
        return left @ right
    product = np.empty((len(left), right.shape[1]), dtype=left.dtype)
    rows = min(_ROWS, -(-len(left) // _SPANS))

    def fill(start: int) -> None:
        part = slice(start, start + rows)
        np.matmul(left[part], right, out=product[part])

    parallel_chunks(fill, range(0, len(left), rows))
    return product


def scatter(vectors: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """(d, d): the sum over (n, d) rows v, by (n,) weight, of v vᵀ; the same for any number of threads."""
    spans = _SPANS if vectors.size * vectors.shape[1] >= _PARALLEL_NUMBERS else 1
    sums = np.zeros((spans, vectors.shape[1], vectors.shape[1]), dtype=vectors.dtype)

    def add_up(span: int) -> None:
        for start in range(span * _ROWS, len(vectors), spans * _ROWS):
            part = vectors[start : start + _ROWS]
            weighted = part if weights is None else part * weights[start : start + _ROWS, None]
            sums[span] += weighted.T @ part

    parallel_chunks(add_up, range(spans))
    return np.asarray(sums.sum(axis=0))


def _floats(numbers: DoubleArray) -> FloatArray:
    return np.ascontiguousarray(numbers, dtype=np.float32)
