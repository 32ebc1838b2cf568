"""How much of a table is lost when another stands in for it: errors, cosines, and nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray
from kdcode.coded import CodedTable
from kdcode.errors import TableError
from kdcode.evaluation.matching import RowMatch, RowPairs, match_rows
from kdcode.evaluation.neighbors import NeighborOverlap
from kdcode.evaluation.parts import TablePart, WholeTable
from kdcode.inputs import TableSource, as_rows
from kdcode.table import VectorTable

_NO_VARIANCE = 1e-20
"""Share of a table's energy below which its variance is nothing but rounding."""

Wide = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TableComparison:
    """What is left of a table in its copy.

    Args:
        relative_error: Σ‖v − v'‖² / Σ‖v − mean‖², 0 for a perfect copy, 1 for the mean alone. A table whose rows are
            all equal has no variance: its error is relative to Σ‖v‖².
        mean_cosine: mean cosine between a row and its copy; rows of length zero count as 1 when both are zero.
        norm_error: mean of |‖v'‖ − ‖v‖| / ‖v‖ over rows that are not zero.
        recall_at_10: the share of the 10 nearest rows, by cosine, that are among the 10 nearest in the copy too:
            1 where all neighbours are the same. The mean over a sample of rows; see `NeighborOverlap`.
        match: which rows were compared.
        weighted_error: the relative error with rows counted by weight; None where no weights are given.
    """

    relative_error: float
    mean_cosine: float
    norm_error: float
    recall_at_10: float
    match: RowMatch
    weighted_error: float | None = None

    def as_dict(self) -> dict[str, float]:
        """The numbers by name, without those that are not there."""
        numbers = ("relative_error", "mean_cosine", "norm_error", "recall_at_10", "weighted_error")
        return {name: getattr(self, name) for name in numbers if getattr(self, name) is not None}


def evaluate(original: TableSource, copy: TableSource, weights: npt.ArrayLike | None = None) -> TableComparison:
    """Compare a table with its copy, chunk by chunk: errors, cosines, and whether nearest neighbours are the same.

        lost = kdcode.evaluate(table, coded)
        lost.relative_error, lost.recall_at_10

    Rows with the same symbol are compared, in whatever order the two tables have them. Symbols that only one of them
    has are left out, and counted in `match`. Tables without symbols are compared row by row.

    Args:
        original: a VectorTable, a CodedTable, or anything else that `kdcode.as_table` takes: an array, a tensor, an
            `nn.Embedding`, a DataFrame, a dict, the path of a file.
        copy: the same.
        weights: (N,) how much each row of the original counts in `weighted_error`, such as how often it is used.

    Raises:
        TableError: vectors of different dimensions, no symbol that both have, or, without symbols, different lengths.
    """
    pairs = match_rows(as_rows(original), as_rows(copy))
    return _compared(pairs, weights, WholeTable(len(pairs)))


def evaluate_part(
    original: VectorTable, copy: CodedTable, weights: npt.ArrayLike | None, part: TablePart
) -> TableComparison:
    """What `evaluate` finds for a whole table whose parts are in several processes, each of which calls this.

    Args:
        original: the rows here.
        copy: their codes, row by row.
        weights: (n,) of the rows here.
        part: which rows these are; adds up over all parts.
    """
    return _compared(RowPairs(original, copy, RowMatch(len(original), by_symbol=False)), weights, part)


def _compared(pairs: RowPairs, weights: npt.ArrayLike | None, part: TablePart) -> TableComparison:
    measured = _Reconstruction(pairs, weights, part)
    neighbors = NeighborOverlap(pairs, part)
    for rows in pairs.slices():
        true, near = pairs.vectors(0, rows), pairs.vectors(1, rows)
        measured.add(rows, true, near)
        neighbors.add(rows.start, true, near)
    cosines, norm_errors, nonzero = part.add_up(np.array(measured.totals))
    return TableComparison(
        relative_error=measured.plain.relative_error(part),
        mean_cosine=float(cosines / part.total),
        norm_error=float(norm_errors / max(nonzero, 1)),
        recall_at_10=neighbors.recall,
        match=pairs.match,
        weighted_error=None if measured.weighted is None else measured.weighted.relative_error(part),
    )


def relative_error(original: TableSource, copy: TableSource) -> float:
    """Squared error over variance around the mean, alone: quicker than `evaluate`, which see."""
    pairs = match_rows(as_rows(original), as_rows(copy))
    whole = WholeTable(len(pairs))
    sums = _Sums(_mean(pairs, None, whole))
    for part in pairs.slices():
        sums.add(pairs.vectors(0, part).astype(np.float64), pairs.vectors(1, part).astype(np.float64), None)
    return sums.relative_error(whole)


def error_ratio(squared: float, variance: float, energy: float) -> float:
    """Squared error relative to the variance, or to the energy Σ‖v‖² where there is no variance to speak of."""
    reference = variance if variance > _NO_VARIANCE * energy else energy
    if reference > 0:
        return squared / reference
    return 0.0 if squared == 0 else float("inf")


class _Reconstruction:
    """Errors of vectors, added up over chunks of rows."""

    def __init__(self, pairs: RowPairs, weights: npt.ArrayLike | None, part: TablePart) -> None:
        self._weights = None if weights is None else _weights_of_pairs(weights, pairs, part)
        self.plain = _Sums(_mean(pairs, None, part))
        self.weighted = None if self._weights is None else _Sums(_mean(pairs, self._weights, part))
        self.cosines = self.norm_errors = 0.0
        self.nonzero = 0

    @property
    def totals(self) -> tuple[float, float, float]:
        """The sums of cosines and of relative errors of lengths, and how many rows are not zero."""
        return self.cosines, self.norm_errors, float(self.nonzero)

    def add(self, part: slice, true_rows: FloatArray, near_rows: FloatArray) -> None:
        # In float64, because the squares of very long and very short float32 vectors leave the range of float32.
        true, near = true_rows.astype(np.float64), near_rows.astype(np.float64)
        self.plain.add(true, near, None)
        if self.weighted is not None and self._weights is not None:
            self.weighted.add(true, near, self._weights[part])
        length, near_length = (np.sqrt(np.einsum("ij,ij->i", rows, rows)) for rows in (true, near))
        both = length * near_length
        dots = np.einsum("ij,ij->i", true, near)
        cosine = np.divide(dots, both, out=(length == near_length).astype(np.float64), where=both > 0)
        self.cosines += float(cosine.sum())
        kept = length > 0
        self.nonzero += int(kept.sum())
        self.norm_errors += float((np.abs(near_length - length)[kept] / length[kept]).sum())


class _Sums:
    """Squared error, variance and energy of a table, added up over chunks of rows."""

    def __init__(self, mean: Wide) -> None:
        self.mean = mean
        self.squared = self.variance = self.energy = 0.0

    def add(self, true: Wide, near: Wide, weights: Wide | None) -> None:
        for name, rows in (("squared", true - near), ("variance", true - self.mean), ("energy", true)):
            by_row = np.einsum("ij,ij->i", rows, rows)
            total = by_row.sum() if weights is None else by_row @ weights
            setattr(self, name, getattr(self, name) + float(total))

    def relative_error(self, part: TablePart) -> float:
        """The error of all parts."""
        squared, variance, energy = part.add_up(np.array([self.squared, self.variance, self.energy])).tolist()
        return error_ratio(squared, variance, energy)


def _mean(pairs: RowPairs, weights: Wide | None, part: TablePart) -> Wide:
    total = np.zeros(pairs.embedding_dim, dtype=np.float64)
    for rows in pairs.slices():
        counts = np.ones(rows.stop - rows.start) if weights is None else weights[rows]
        total += counts @ pairs.vectors(0, rows)
    counted = part.total if weights is None else part.add_up(np.array(weights.sum()))
    return np.asarray(part.add_up(total) / counted)


def _weights_of_pairs(weights: npt.ArrayLike, pairs: RowPairs, part: TablePart) -> Wide:
    """The weights of the rows that are compared."""
    array = np.asarray(weights, dtype=np.float64)
    rows = len(pairs.tables[0])
    if array.shape != (rows,):
        raise TableError(f"weights: expected one number for each of the original's {rows:,} rows, got {array.shape}")
    kept = array if pairs.original_rows is None else array[pairs.original_rows]
    if not np.isfinite(array).all() or (array < 0).any() or not part.add_up(np.array(kept.sum())):
        raise TableError("weights: expected finite numbers of zero or more, not all of the compared rows zero")
    return kept
