"""plan_curve: what a table comes to at several sizes, in transform codes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kdcode.errors import OptionError
from kdcode.evaluation.matching import RowMatch, RowPairs
from kdcode.evaluation.neighbors import NeighborOverlap, sampled_rows
from kdcode.evaluation.parts import WholeTable
from kdcode.evaluation.row_losses import RowLosses
from kdcode.inputs import TableSource, as_table
from kdcode.learning.progress import showing_candidates
from kdcode.learning.run_settings import PlanSettings
from kdcode.learning.transform.design import Design, Designer, Trial
from kdcode.options import CompressOptions
from kdcode.table import VectorTable
from kdcode.threads import using_threads

CURVE_TIMES = (5, 8, 10, 20, 40)
"""How many times smaller than float32 vectors."""
NEIGHBORS = 10


class CurvePoint(NamedTuple):
    """What is expected at a size.

    Args:
        times: how many times smaller than float32 vectors.
        nbytes: of rows and codec.
        relative_error: squared error over variance.
        recall_at_10: how many of the 10 nearest rows stay, among the rows of a sample.
        low_cosine: below which one row in a hundred of the sample is.
        lookup_seconds: of a row, where many are looked up, on one thread.
        seconds: of `compress`.
    """

    times: int
    nbytes: int
    relative_error: float
    recall_at_10: float
    low_cosine: float
    lookup_seconds: float
    seconds: float


_DEFAULT = PlanSettings()


def plan_curve(
    table: TableSource, options: CompressOptions | None = None, settings: PlanSettings = _DEFAULT
) -> list[CurvePoint]:
    """What transform codes come to at 5x to 40x, from a sample of the rows; sizes that cannot be had are left out.

    Raises:
        OptionError: no size can be had.
    """
    rows = as_table(table)
    designer = Designer(rows, len(rows), options or CompressOptions())
    found: list[CurvePoint] = []
    with using_threads(settings.threads), showing_candidates(settings.progress) as on_candidate:
        for number, times in enumerate(CURVE_TIMES):
            if on_candidate is not None:
                on_candidate(number, len(CURVE_TIMES), f"{times}x")
            try:
                design = designer.design(4 * rows.embedding_dim / times, quick=True)
            except OptionError:  # nothing is left for rows
                continue
            if design.is_full and design.trial is not None:
                found.append(_point(design, design.trial, times, 4 * rows.embedding_dim * len(rows) // times))
    if not found:
        raise OptionError("this table is too small for any size from 5x to 40x; ask for one, such as --size 2x")
    return found


def _point(design: Design, trial: Trial, times: int, most: int) -> CurvePoint:
    count, dim = trial.rows.shape
    pairs = RowPairs(VectorTable(None, trial.rows), VectorTable(None, trial.copies), RowMatch(count, by_symbol=False))
    overlap = NeighborOverlap(pairs, WholeTable(count), sampled_rows(count, dim), NEIGHBORS)
    overlap.add(0, trial.rows, trial.copies)
    losses = RowLosses.of(trial.rows.astype(np.float64), trial.copies.astype(np.float64))
    return CurvePoint(
        times,
        min(most, design.enough_bytes),
        design.relative_error,
        float(overlap.shares(NEIGHBORS).mean()),
        float(np.quantile(losses.cosines, 0.01)),
        trial.decoding,
        design.seconds,
    )
