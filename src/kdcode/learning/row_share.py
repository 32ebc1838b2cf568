"""RowShare: which rows of a table are here, and statistics of all rows, wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import CHUNK_ROWS, DoubleArray, IntArray
from kdcode.learning.ranks import ALONE, Ranks, checked_size

BLOCK_ROWS = 64
"""Shares begin at multiples of this many rows, and no share is smaller."""
_LARGEST_STEP = 4096
_STEPS_PER_SHARE = 16
_DRAWN_ROWS = 16 * CHUNK_ROWS


@dataclass(frozen=True, eq=False)
class RowShare:
    """The rows of a table that one rank has: those from `first`, `rows` of them, of `total`.

    Args:
        ranks: who has the others.
        first: the number of the first row here.
        rows: how many are here.
        total: how many there are on all ranks.
    """

    ranks: Ranks
    first: int
    rows: int
    total: int

    @classmethod
    def whole(cls, rows: int) -> RowShare:
        """All rows of a table, on a rank alone."""
        return cls(ALONE, 0, rows, rows)

    @classmethod
    def of(cls, total: int, ranks: Ranks) -> RowShare:
        """The share of a rank: one stretch of rows, about as long as those of others.

        Large shares begin where chunks of rows begin that are searched together, so that these are the same chunks,
        and draw the same random numbers, for any number of ranks.

        Raises:
            OptionError: there are too few rows for so many ranks.
        """
        checked_size(total, ranks, BLOCK_ROWS)
        step = BLOCK_ROWS
        while step < _LARGEST_STEP and total // ranks.size >= 2 * step * _STEPS_PER_SHARE:
            step *= 2
        first, end = (total * rank // ranks.size // step * step for rank in (ranks.rank, ranks.rank + 1))
        end = total if ranks.rank == ranks.size - 1 else end
        return cls(ranks, first, end - first, total)

    @property
    def end(self) -> int:
        """The number of the row after the last one here."""
        return self.first + self.rows

    def every(self, step: int) -> slice:
        """Which rows here have a number that is a multiple of `step`."""
        return slice(-self.first % step, None, step)

    def own(self, rows: IntArray) -> IntArray:
        """(m,) places, here, of those of (n,) rows of the whole table that are here, in their order."""
        return rows if self.ranks.is_alone else rows[self.has(rows)] - self.first

    def has(self, rows: IntArray) -> npt.NDArray[np.bool_]:
        """(n,) which of (n,) rows of the whole table are here."""
        return (rows >= self.first) & (rows < self.end)

    def fetch(self, values: npt.NDArray[Any], rows: IntArray) -> npt.NDArray[Any]:
        """(n, …): what (n,) rows of the whole table have among the (rows, …) values of all ranks, on each of them."""
        if self.ranks.is_alone:
            return values[rows]
        found = np.zeros((len(rows), *values.shape[1:]), dtype=values.dtype)
        here = self.has(rows)
        found[here] = values[rows[here] - self.first]
        return self.ranks.all_sum(found)

    def drawn(self, draw: Callable[[int], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """(rows, …): what a generator draws for the rows here, when it draws for all rows of the table in order.

        Args:
            draw: draws (n, …) values for the next n rows. Draws for the rows of others are thrown away.
        """
        if self.ranks.is_alone:
            return draw(self.rows)
        kept = []
        for start in range(0, self.total, _DRAWN_ROWS):
            values = draw(min(_DRAWN_ROWS, self.total - start))
            low, high = max(self.first - start, 0), min(self.end - start, len(values))
            if low < high:
                kept.append(values[low:high].copy())
        return np.concatenate(kept)

    def add_up(self, values: DoubleArray) -> DoubleArray:
        """The sum of arrays over all ranks."""
        if self.ranks.is_alone:
            return values
        return self.ranks.all_sum(np.array(values, dtype=np.float64))

    def joined(self, rows: DoubleArray) -> DoubleArray:
        """(Σ n, …): the (n, …) rows of all ranks, in their order, on each of them; for few rows."""
        return rows if self.ranks.is_alone else self.ranks.gather_rows(rows)

    def joined_numbers(self, rows: IntArray) -> IntArray:
        """The same for integers."""
        return rows if self.ranks.is_alone else self.ranks.gather_rows(rows)
