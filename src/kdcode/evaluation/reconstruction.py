"""The few numbers that say how much of a table is lost in its copy: what `compress` records and `verify` checks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kdcode.coded import CodedTable
from kdcode.evaluation.matching import RowMatch, RowPairs, match_rows
from kdcode.evaluation.neighbors import NeighborOverlap, sampled_rows
from kdcode.evaluation.parts import TablePart, WholeTable
from kdcode.evaluation.row_losses import ErrorSums, RowLosses, mean_vector, weights_of_pairs, widened
from kdcode.inputs import TableSource, as_rows
from kdcode.table import VectorTable

NEIGHBORS = 10
"""The k of the recall that is recorded; all other rows where a table has fewer than k + 1."""

_LOW = 0.01
_NUMBERS = (
    *("relative_error", "mean_cosine", "norm_error", "recall_at_10", "low_cosine", "least_cosine", "weighted_error"),
)


@dataclass(frozen=True)
class TableComparison:
    """What is left of a table in its copy, in a few numbers; `Measures` has more.

    Args:
        relative_error: Σ‖v − v'‖² / Σ‖v − mean‖², 0 for a perfect copy, 1 for the mean alone. A table whose rows are
            all equal has no variance: its error is relative to Σ‖v‖².
        mean_cosine: mean cosine between a row and its copy; rows of length zero count as 1 when both are zero.
        norm_error: mean of |‖v'‖ − ‖v‖| / ‖v‖ over rows that are not zero.
        recall_at_10: the share of the 10 nearest rows, by cosine, that are among the 10 nearest in the copy too:
            1 where all neighbours are the same. The mean over a sample of rows; see `NeighborOverlap`.
        low_cosine: the cosine that one row in a hundred is below.
        least_cosine: that of the worst row.
        match: which rows were compared.
        weighted_error: the relative error with rows counted by weight; None where no weights are given.
    """

    relative_error: float
    mean_cosine: float
    norm_error: float
    recall_at_10: float
    low_cosine: float
    least_cosine: float
    match: RowMatch
    weighted_error: float | None = None

    def as_dict(self) -> dict[str, float]:
        """The numbers by name, without those that are not there."""
        return {name: getattr(self, name) for name in _NUMBERS if getattr(self, name) is not None}


def compare_tables(original: TableSource, copy: TableSource, weights: npt.ArrayLike | None = None) -> TableComparison:
    """The most important numbers of `evaluate`, in less time: what is recorded in files, and compared when verifying.

    Args:
        original: whatever `kdcode.as_table` takes.
        copy: the same.
        weights: (N,) how much each row of the original counts in `weighted_error`.

    Raises:
        TableError: vectors of different dimensions, no symbol that both have, or, without symbols, different lengths.
    """
    pairs = match_rows(as_rows(original), as_rows(copy))
    return _compared(pairs, weights, WholeTable(len(pairs)))


def compare_part(
    original: VectorTable, copy: CodedTable, weights: npt.ArrayLike | None, part: TablePart
) -> TableComparison:
    """What `compare_tables` finds for a whole table whose parts are in several processes, each of which calls this.

    Args:
        original: the rows here.
        copy: their codes, row by row.
        weights: (n,) of the rows here.
        part: which rows these are; adds up over all parts.
    """
    return _compared(RowPairs(original, copy, RowMatch(len(original), by_symbol=False)), weights, part)


def _compared(pairs: RowPairs, weights: npt.ArrayLike | None, part: TablePart) -> TableComparison:
    counts = None if weights is None else weights_of_pairs(weights, pairs, part)
    plain = ErrorSums(mean_vector(pairs, None, part))
    weighted = None if counts is None else ErrorSums(mean_vector(pairs, counts, part))
    neighbors = NeighborOverlap(pairs, part, sampled_rows(part.total, pairs.embedding_dim), NEIGHBORS)
    totals, cosines = np.zeros(3), np.empty(len(pairs))
    for rows in pairs.slices():
        true_rows, near_rows = pairs.vectors(0, rows), pairs.vectors(1, rows)
        true, near = widened(true_rows), widened(near_rows)
        losses = RowLosses.of(true, near)
        plain.add(true, losses, None)
        if weighted is not None and counts is not None:
            weighted.add(true, losses, counts[rows])
        errors, cosines[rows] = losses.norm_errors, losses.cosines
        totals += losses.cosines.sum(), errors.sum(), len(errors)
        neighbors.add(rows.start, true_rows, near_rows)
    total_cosine, norm_errors, nonzero = part.add_up(totals)
    count = max(1, int(_LOW * part.total))  # of rows that are worse than the others
    worst = np.sort(part.joined(np.partition(cosines, min(count, len(cosines)) - 1)[:count]))
    return TableComparison(
        relative_error=plain.relative_error(part),
        mean_cosine=float(total_cosine / part.total),
        norm_error=float(norm_errors / max(nonzero, 1)),
        recall_at_10=float(neighbors.shares(NEIGHBORS).mean()),
        low_cosine=float(worst[count - 1]),
        least_cosine=float(worst[0]),
        match=pairs.match,
        weighted_error=None if weighted is None else weighted.relative_error(part),
    )


def relative_error(original: TableSource, copy: TableSource) -> float:
    """Squared error over variance around the mean, as in `compare_tables`, and quicker."""
    pairs = match_rows(as_rows(original), as_rows(copy))
    whole = WholeTable(len(pairs))
    sums = ErrorSums(mean_vector(pairs, None, whole))
    for rows in pairs.slices():
        true = widened(pairs.vectors(0, rows))
        sums.add(true, RowLosses.of(true, widened(pairs.vectors(1, rows))), None)
    return sums.relative_error(whole)
