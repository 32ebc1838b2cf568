"""plan: settings that keep to a size or an error, each with its exact bytes and its predicted error and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack, cast

from kdcode.codec import SizeLimit
from kdcode.errors import OptionError
from kdcode.inputs import TableSource, as_table
from kdcode.learning.checkpoint import Checkpoint, holding
from kdcode.learning.identity import KnownTable, run_identity
from kdcode.learning.planned_table import FinalTable, Goal, PlannedTable
from kdcode.learning.planning.candidates import PLANNED, Candidate, CandidateSearch
from kdcode.learning.planning.predictor import Predictor
from kdcode.learning.progress import showing_candidates
from kdcode.learning.run_settings import PlanKeywords, PlanSettings
from kdcode.learning.transform.design import Design
from kdcode.option_keywords import listing_keywords
from kdcode.options import CompressOptions
from kdcode.table import VectorTable
from kdcode.threads import using_threads

_LARGEST_RATIO = 512.0
_BISECTIONS = 6
_DEFAULT_SETTINGS = PlanSettings()
_DESIGN = "design"
"""Where a checkpoint keeps the design, beside the options."""


@dataclass(frozen=True)
class Plan:
    """Candidates with the lowest predicted error first; the first one is recommended."""

    limit: SizeLimit
    candidates: tuple[Candidate, ...]

    @property
    def recommended(self) -> Candidate:
        """The candidate with the lowest predicted error."""
        return self.candidates[0]


@listing_keywords(PlanSettings)
def plan(
    table: TableSource,
    size: str | int | None = None,
    *,
    bits: int | None = None,
    max_error: float | None = None,
    options: CompressOptions | None = None,
    **keywords: Unpack[PlanKeywords],
) -> Plan:
    """Find settings for a table that keep to a size, or to an error, from short probes on a sample of its rows.

        kdcode.plan(table, "20x", effort="fast").recommended.relative_error

    Args:
        table: what is to be compressed, in any form that `kdcode.as_table` takes.
        size: like 20x (times smaller than float32 vectors), 500KB (of the file), or bytes.
        bits: of a code at most, in place of a size.
        max_error: the relative squared error not to be exceeded, in place of a size; the smallest table is sought.
        options: what the plan leaves alone: effort, seed and the rest.
        **keywords: single options, which go before those in `options`, and how to run. They are listed below.

    Raises:
        OptionError: not exactly one of size, bits and max_error, or one that cannot be reached.
    """
    others: dict[str, Any] = {**keywords}
    settings = PlanSettings.take(others)
    chosen = (options or CompressOptions()).changed(**others)
    return plan_for(as_table(table), Goal(size, bits, max_error), chosen, settings, thorough=True)


class Planned(NamedTuple):
    """What a plan recommends.

    Args:
        options: to compress with.
        design: of transform codes, what learning begins with.
    """

    options: CompressOptions
    design: Design | None = None


def plan_for(
    table: PlannedTable,
    goal: Goal,
    options: CompressOptions,
    settings: PlanSettings = _DEFAULT_SETTINGS,
    checkpoint: Checkpoint | None = None,
    final: FinalTable | None = None,
    *,
    thorough: bool = False,
) -> Plan:
    """The plan for a goal; probes that a checkpoint has are not made again, and new ones are kept in it.

    Where `final` is given, the table is a sample of that one: bytes are its bytes, and errors that count are those of
    rows which are not in the sample.
    """
    _refuse_larger_than_the_table(table, final or FinalTable.like(table, len(table)), goal)
    known, on_new = {}, None
    if checkpoint is not None:
        identity = _identity(table, options, goal, final)
        known = checkpoint.load_probes(identity)

        def on_new(probes: dict[str, list[float]]) -> None:
            checkpoint.save_probes(identity, probes)

    with using_threads(settings.threads), showing_candidates(settings.progress) as on_candidate:
        predictor = Predictor(table, known, on_new)
        search = CandidateSearch(table, options, predictor, on_candidate, final)
        if on_new is not None and not known:
            on_new(known)  # claims the file
        try:
            if goal.max_error is None:
                return Plan(goal.limit, tuple(search.within(goal.limit, thorough=thorough)))
            return _smallest_within(search, goal.max_error)
        except OptionError:
            if checkpoint is not None:
                checkpoint.remove()  # there is no such plan, and nothing to resume
            raise


def planned(
    table: PlannedTable,
    options: CompressOptions,
    goal: Goal,
    settings: PlanSettings = _DEFAULT_SETTINGS,
    *,
    checkpoint: Checkpoint | None = None,
    final: FinalTable | None = None,
) -> Planned:
    """What a plan recommends; taken from a checkpoint where it has it, and kept in it.

    Raises:
        CheckpointError: the checkpoint belongs to another table, other options or another goal.
    """
    with holding(checkpoint):
        identity = "" if checkpoint is None else _identity(table, options, goal, final)
        kept = None if checkpoint is None else checkpoint.load_plan(identity)
        if kept is not None:
            design = kept.pop(_DESIGN)
            return Planned(options.changed(**kept), None if design is None else Design.of_values(design))
        best = plan_for(table, goal, options, settings, checkpoint, final).recommended
        found = {name: getattr(best.options, name) for name in (*PLANNED, "rows_per_block")}
        if checkpoint is not None:
            design = None if best.design is None else best.design.as_values()
            checkpoint.save_plan(identity, {**found, _DESIGN: design})
        return Planned(options.changed(**found), best.design)


def _identity(table: PlannedTable, options: CompressOptions, goal: Goal, final: FinalTable | None) -> str:
    known = cast(VectorTable | KnownTable, table)  # the two kinds that there are
    return run_identity(known, options.as_dict(), vars(goal), *([] if final is None else [vars(final)]))


def _refuse_larger_than_the_table(table: PlannedTable, final: FinalTable, goal: Goal) -> None:
    """Refuse a size that the table has already.

    Raises:
        OptionError: with the table's own size.
    """
    if goal.max_error is not None:
        return
    limit, own = goal.limit, 4 * final.rows * table.embedding_dim
    if limit.file_bytes is not None and limit.file_bytes >= own + final.symbol_bytes:
        raise OptionError(f"size {limit}: the table takes no more as float32 ({own:,} B); ask for less, such as 10x")
    if limit.bits is not None and limit.bits >= 32 * table.embedding_dim:
        raise OptionError(f"bits {limit.bits}: a row has no more as float32; ask for less, such as 64")


def _smallest_within(search: CandidateSearch, max_error: float) -> Plan:
    """Bisect the ratios, on a logarithmic scale, for the largest whose best candidate keeps to the error."""
    found: Plan | None = None
    low, high = 2.0, _LARGEST_RATIO
    for _ in range(_BISECTIONS):
        limit = SizeLimit(times=round((low * high) ** 0.5, 1))
        try:
            tried = Plan(limit, tuple(search.within(limit, quick=True, searches=_BISECTIONS)))
        except OptionError:  # too small for this table
            tried = None
        if tried is not None and tried.recommended.relative_error <= max_error:
            found, low = tried, limit.times or low
        else:
            high = limit.times or high
    if found is None:
        raise OptionError(f"max_error {max_error}: no setting that is at least twice as small comes that near")
    if found.recommended.design is None:
        return found
    return Plan(found.limit, tuple(search.within(found.limit)))  # from all rows of the sample
