"""learn_codebook: a codec from a sample, for rows that are not there yet."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple, Unpack

import numpy as np

from kdcode.arrays import IntArray
from kdcode.codec.spec import TRANSFORM
from kdcode.coded import CodedTable
from kdcode.errors import OptionError, TableError
from kdcode.evaluation import compare_tables
from kdcode.evaluation.row_losses import error_ratio
from kdcode.inputs import TableSource, as_table
from kdcode.learning.checkpoint import holding
from kdcode.learning.compression import add_provenance, chosen_options, refuse_planned, running
from kdcode.learning.identity import run_identity
from kdcode.learning.interrupts import ending_by_signal
from kdcode.learning.planned_table import FinalTable, Goal
from kdcode.learning.planning.planner import Planned, planned
from kdcode.learning.ranks import Ranks
from kdcode.learning.run_settings import CompressKeywords, PlanSettings, RunSettings
from kdcode.learning.transform.coding import BlocksOfTable
from kdcode.learning.transform.design import design_codec
from kdcode.option_keywords import listing_keywords
from kdcode.options import CompressOptions
from kdcode.table import VectorTable

_HELD_BACK = 20
"""One of so many rows is held back, to measure the error of rows that were not learned from."""
_MOST_HELD_BACK = 5000
_SPARE, _SPARE_OF_FEW = 0.002, 0.5
"""The share of the bytes of transform codes that is left to rows which are longer than those of the sample: so much in
any case, and so much over the root of the rows of the sample."""


@listing_keywords(RunSettings)
def learn_codebook(
    sample: TableSource,
    size: str | int | None = None,
    *,
    bits: int | None = None,
    rows: int | None = None,
    options: CompressOptions | None = None,
    **keywords: Unpack[CompressKeywords],
) -> CodedTable:
    """Learn a codec from a sample of a table, or of what will be one, for rows that are not in the sample.

        codec = kdcode.learn_codebook(sample, "20x", rows=10_000_000).codec
        codes = codec.encode(new_vectors, beam=32)

    `compress` fits codes and codewords to the rows that it is given; what it learns is worse for others. A few rows of
    the sample take no part in learning, and tell the error of others.

    Args:
        sample: rows like those that will be coded, in any form that `kdcode.as_table` takes; the more the better, and
            at least some dozens for each of the K codewords of a position.
        size: like 20x (times smaller than float32 vectors), 500KB (of the file), or bytes: of the final table. The
            shape of the code is then the one with the lowest predicted error on rows that are not in the sample.
        bits: of a code at most, in place of a size.
        rows: how many rows the final table will have, with which its bytes are counted; by default as many as the
            sample. Its symbols are taken to be as long as those of the sample.
        options: how to learn; the defaults where left out. The learner is the additive one.
        **keywords: single options, which go before those in `options`, and how to run. They are listed below.

    Returns:
        The sample, coded as `encode` codes any rows, from nothing; `.codec` is what was learned. Its `provenance` has
        `unseen_error`, the relative squared error of the rows that were held back, and `unseen_rows`, how many they
        are, beside what `compress` tells.

    Raises:
        OptionError: options that do not exist, do not fit together, or cannot work for this sample.
        TableError: a sample of fewer than two rows.
        CheckpointError: the checkpoint is of another run, is damaged, or is in use.
        StoppedBySignal: SIGTERM or SIGHUP came while a run had a checkpoint, which is written first.
    """
    others: dict[str, Any] = {**keywords}
    settings = RunSettings.take(others)
    chosen = chosen_options(options, size, others)
    if chosen.learning.name != "additive":
        raise OptionError(
            f"learner must be additive to learn a codebook, which adds codewords, got {chosen.learning.name!r}"
        )
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise OptionError(f"rows must be an integer of at least 1, got {rows!r}")
    goal, table = Goal.given(size=size, bits=bits), as_table(sample)
    parts = SampleParts.of(table, chosen.seed)
    final = FinalTable.like(table, rows or len(table), _spare(parts))
    if goal is None:
        return _codebook(table, parts, Planned(chosen), settings, final.rows)
    refuse_planned(goal, others)
    checkpoint = settings.run_checkpoint
    planning = PlanSettings(settings.progress is True, settings.device, settings.threads)
    with ending_by_signal(checkpoint is not None), holding(checkpoint):
        plan = planned(parts.learned(table), chosen, goal, planning, checkpoint=checkpoint, final=final)
        return _codebook(table, parts, plan, settings, final.rows)


class SampleParts(NamedTuple):
    """Which rows of a sample are learned from, and which are held back; both sorted."""

    kept: IntArray
    held_back: IntArray

    @classmethod
    def of(cls, table: VectorTable, seed: int) -> SampleParts:
        """Hold one of 20 rows back, at least 1 and at most 5,000.

        Raises:
            TableError: there are not two rows.
        """
        if len(table) < 2:
            raise TableError("sample: expected at least 2 rows, of which one is held back, got 1")
        count = min(max(1, len(table) // _HELD_BACK), _MOST_HELD_BACK)
        order = np.random.default_rng(seed).permutation(len(table))
        return cls(np.sort(order[count:]), np.sort(order[:count]))

    def learned(self, table: VectorTable) -> VectorTable:
        """The rows to learn from, without their symbols."""
        return VectorTable(None, table.matrix[self.kept], None if table.weights is None else table.weights[self.kept])


def _codebook(table: VectorTable, parts: SampleParts, plan: Planned, settings: RunSettings, rows: int) -> CodedTable:
    """What is learned from a sample, for a table of `rows` rows."""
    with running(settings, Ranks()) as on_step:
        if plan.options.composition == TRANSFORM:
            return _transformed(table, parts, plan, rows)
        from kdcode.learning.codeword_codebook import learned_codebook  # transform codes do without

        return learned_codebook(table, parts, plan.options, settings, on_step)


def _transformed(table: VectorTable, parts: SampleParts, plan: Planned, rows: int) -> CodedTable:
    """The same with transform codes: other rows lose as much as those of the sample."""
    started, options = time.monotonic(), plan.options
    design = plan.design or design_codec(parts.learned(table), rows, options, spare=_spare(parts))
    blocks = BlocksOfTable.blank(design.codec, table.matrix, None)
    blocks.packed[:] = blocks.code(np.arange(len(blocks.packed)))
    coded = CodedTable(table.packed_symbols, blocks.rows, design.codec)
    identity = run_identity(table, options.as_dict(), "codebook")
    add_provenance(coded, compare_tables(table, coded, table.weights), options, identity)
    tell_unseen(table, parts, coded)
    coded.learning_seconds = round(time.monotonic() - started, 1)
    return coded


def _spare(parts: SampleParts) -> float:
    """The share of the bytes of rows that is not aimed at."""
    return _SPARE + _SPARE_OF_FEW / math.sqrt(len(parts.kept))


def tell_unseen(table: VectorTable, parts: SampleParts, coded: CodedTable) -> None:
    """Note in a coded table the error of the rows that were held back."""
    coded.provenance.update(unseen_error=round(_unseen_error(table, parts, coded), 6), unseen_rows=len(parts.held_back))


def _unseen_error(table: VectorTable, parts: SampleParts, coded: CodedTable) -> float:
    """Squared error of the rows held back, relative to their variance around the mean of the rows learned from."""
    mean = table.matrix[parts.kept].mean(axis=0, dtype=np.float64)
    rows = table.matrix[parts.held_back].astype(np.float64)
    errors = rows - coded.decode(parts.held_back)
    return error_ratio(*(float(np.square(part).sum()) for part in (errors, rows - mean, rows)))
