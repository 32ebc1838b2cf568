"""Spearman's rank correlation, and that of the similarities of pairs of rows before and after."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, IntArray, rows_at_once
from kdcode.evaluation.matching import RowPairs
from kdcode.evaluation.neighbors import unit_rows

_DIGITS = 10
"""Digits that cosines are rounded to before they are ranked, so that equal rows tie."""


def spearman(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """Spearman's correlation of two lists of n numbers: that of their ranks, which equal numbers share.

    A list of equal numbers has no order to agree with: 1 where both are such lists, 0 where one is.
    """
    ranks = [_ranks(np.asarray(numbers, dtype=np.float64)) for numbers in (one, other)]
    first, second = (rank - rank.mean() for rank in ranks)
    spread = np.sqrt((first @ first) * (second @ second))
    if spread > 0:
        return float(np.clip(first @ second / spread, -1, 1))
    return 1.0 if not first.any() and not second.any() else 0.0


def _ranks(numbers: DoubleArray) -> DoubleArray:
    """(n,) ranks from 0; equal numbers have the mean of theirs."""
    _, place, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2)[place.reshape(-1)], dtype=np.float64)


def pair_cosines(pairs: RowPairs, side: int, first: IntArray, second: IntArray) -> DoubleArray:
    """(n,) cosines of n pairs of rows, of the original (side 0) or of the copy (side 1); 0 with a row that is zero."""
    found, at_once = np.empty(len(first)), 16 * rows_at_once(2 * pairs.embedding_dim)
    for start in range(0, len(first), at_once):
        some = slice(start, start + at_once)
        units = (unit_rows(pairs.vectors(side, rows[some])) for rows in (first, second))
        found[some] = np.einsum("ij,ij->i", *units)
    return found.round(_DIGITS)


def sampled_pairs(
    rows: int, count: int, random: np.random.Generator, weights: DoubleArray | None = None
) -> tuple[IntArray, IntArray]:
    """Pairs of different rows, drawn with their chances in proportion to weights or all alike; all where there are few.

    Args:
        rows: how many rows there are.
        count: how many pairs to draw; those that come out as a row with itself are left out.
        random: what draws.
        weights: (rows,) of the rows.
    """
    if weights is None and rows * (rows - 1) // 2 <= count:
        return np.triu_indices(rows, 1)
    drawn = drawn_rows(rows, 2 * count, random, weights)
    first, second = drawn[:count], drawn[count:]
    apart = first != second
    return first[apart], second[apart]


def drawn_rows(rows: int, count: int, random: np.random.Generator, weights: DoubleArray | None = None) -> IntArray:
    """(count,) rows, with repetitions, drawn with their chances in proportion to weights or all alike."""
    if weights is None:
        return random.integers(rows, size=count)
    sums = np.cumsum(weights)
    drawn = np.searchsorted(sums, random.random(count) * sums[-1], side="right")
    return np.asarray(np.minimum(drawn, rows - 1))


def similarity_correlation(pairs: RowPairs, first: IntArray, second: IntArray) -> float:
    """Spearman's correlation between the cosines of pairs of rows in the original and in the copy.

    It is 1 where there are no two rows whose order could be lost.
    """
    if len(first) < 2:
        return 1.0
    return spearman(*(pair_cosines(pairs, side, first, second) for side in (0, 1)))
