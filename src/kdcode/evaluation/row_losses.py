"""What each row loses, and squared errors added up over a table: the sums that errors and means are made of."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray
from kdcode.errors import TableError
from kdcode.evaluation.matching import RowPairs
from kdcode.evaluation.parts import TablePart

RANK = "rank"
"""Weights by the order of rows: row r, counted from 1, weighs 1/r, as words do by frequency (Zipf's law)."""

_NO_VARIANCE = 1e-20
"""Share of a table's energy below which its variance is nothing but rounding."""


@dataclass(frozen=True, eq=False)
class RowLosses:
    """What n rows lose, row by row.

    Args:
        cosines: (n,) between a row and its copy; where one is zero 0, and 1 where both are.
        distances: (n,) ‖v − v'‖.
        lengths: (n,) ‖v‖.
        copy_lengths: (n,) ‖v'‖.
    """

    cosines: DoubleArray
    distances: DoubleArray
    lengths: DoubleArray
    copy_lengths: DoubleArray

    @classmethod
    def room(cls, rows: int) -> RowLosses:
        """Losses of `rows` rows, to be filled in."""
        return cls(*(np.zeros(rows) for _ in fields(cls)))

    @classmethod
    def of(cls, true: DoubleArray, near: DoubleArray) -> RowLosses:
        """The losses of (n, d) rows with (n, d) copies."""
        lengths, near_lengths = _lengths(true), _lengths(near)
        both = lengths * near_lengths
        dots = np.einsum("ij,ij->i", true, near)
        cosines = np.divide(dots, both, out=(lengths == near_lengths).astype(np.float64), where=both > 0)
        return cls(cosines, _lengths(true - near), lengths, near_lengths)

    def put(self, rows: slice, some: RowLosses) -> None:
        """Fill in the losses of some rows."""
        for item in fields(self):
            getattr(self, item.name)[rows] = getattr(some, item.name)

    @property
    def norm_errors(self) -> DoubleArray:
        """(m,) |‖v'‖ − ‖v‖| / ‖v‖ of the rows that are not zero."""
        kept = self.lengths > 0
        return np.abs(self.copy_lengths - self.lengths)[kept] / self.lengths[kept]

    @property
    def relative_errors(self) -> DoubleArray:
        """(n,) ‖v − v'‖² / ‖v‖²; of a row of length zero 0 where its copy is zero too, and infinite where it is not."""
        nothing = np.where(self.distances > 0, np.inf, 0.0)
        return np.divide(self.distances, self.lengths, out=nothing, where=self.lengths > 0) ** 2


class ErrorSums:
    """Squared error, variance and energy of a table, added up over chunks of rows.

    Args:
        mean: (d,) what the variance is around.
    """

    def __init__(self, mean: DoubleArray) -> None:
        self.mean = mean
        self.squared = self.variance = self.energy = 0.0

    def add(self, true: DoubleArray, losses: RowLosses, weights: DoubleArray | None) -> None:
        """Take the next (n, d) rows and what they lose, counted by (n,) weights or all alike."""
        counts = np.ones(len(true)) if weights is None else weights
        centred = true - self.mean
        self.squared += float(np.square(losses.distances) @ counts)
        self.variance += float(np.einsum("ij,ij->i", centred, centred) @ counts)
        self.energy += float(np.square(losses.lengths) @ counts)

    def relative_error(self, part: TablePart) -> float:
        """The error of all parts."""
        squared, variance, energy = part.add_up(np.array([self.squared, self.variance, self.energy])).tolist()
        return error_ratio(squared, variance, energy)


def error_ratio(squared: float, variance: float, energy: float) -> float:
    """Squared error relative to the variance, or to the energy Σ‖v‖² where there is no variance to speak of."""
    reference = variance if variance > _NO_VARIANCE * energy else energy
    if reference > 0:
        return squared / reference
    return 0.0 if squared == 0 else float("inf")


def mean_vector(pairs: RowPairs, weights: DoubleArray | None, part: TablePart) -> DoubleArray:
    """(d,) mean of the original's rows, by weight or all alike."""
    total = np.zeros(pairs.embedding_dim, dtype=np.float64)
    for rows in pairs.slices():
        counts = np.ones(rows.stop - rows.start) if weights is None else weights[rows]
        total += counts @ pairs.vectors(0, rows)
    counted = part.total if weights is None else part.add_up(np.array(weights.sum()))
    return np.asarray(part.add_up(total) / counted)


def weights_of_pairs(weights: npt.ArrayLike, pairs: RowPairs, part: TablePart) -> DoubleArray:
    """The weights of the rows that are compared, one for each pair.

    Args:
        weights: (N,) of the original's rows, or `RANK`.
        pairs: the rows that are compared.
        part: which rows of the tables these are.
    """
    rows = len(pairs.tables[0])
    if isinstance(weights, str):
        if weights != RANK:
            raise TableError(f"weights: expected a number for each row, or {RANK!r}, got {weights!r}")
        array = 1.0 / np.arange(part.first + 1, part.first + rows + 1)
    else:
        array = np.asarray(weights, dtype=np.float64)
    if array.shape != (rows,):
        raise TableError(f"weights: expected one number for each of the original's {rows:,} rows, got {array.shape}")
    kept = array if pairs.original_rows is None else array[pairs.original_rows]
    if not np.isfinite(array).all() or (array < 0).any() or not part.add_up(np.array(kept.sum())):
        raise TableError("weights: expected finite numbers of zero or more, not all of the compared rows zero")
    return kept


def widened(rows: FloatArray) -> DoubleArray:
    """Rows in float64: the squares of very long and very short float32 vectors leave the range of float32."""
    return rows.astype(np.float64)


def _lengths(rows: DoubleArray) -> DoubleArray:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))
