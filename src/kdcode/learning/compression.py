"""From a table of vectors to a coded table: the one function that most callers need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Unpack, cast

import numpy as np

from kdcode._version import __version__
from kdcode.codec.spec import TRANSFORM
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.evaluation import TableComparison, compare_part
from kdcode.inputs import TableSource, as_table
from kdcode.learning.identity import run_identity
from kdcode.learning.interrupts import ending_by_signal, stopping_at_safe_places
from kdcode.learning.planned_table import Goal
from kdcode.learning.planning.candidates import PLANNED
from kdcode.learning.planning.planner import Planned, planned
from kdcode.learning.planning.shared_plan import on_first_rank
from kdcode.learning.progress import OnStep, StepReport, showing_steps
from kdcode.learning.rank_checkpoint import checkpoint_for, held_by_first
from kdcode.learning.ranks import Ranks, threads_of_rank
from kdcode.learning.run import Run
from kdcode.learning.run_settings import CompressKeywords, PlanSettings, RunSettings
from kdcode.learning.table_shard import TableShard
from kdcode.learning.transform.learner import CODING_STEPS, transform_coded
from kdcode.option_keywords import listing_keywords
from kdcode.options import CompressOptions
from kdcode.provenance import CURVE
from kdcode.threads import using_threads


@listing_keywords(RunSettings)
def compress(
    table: TableSource,
    size: str | int | None = None,
    *,
    bits: int | None = None,
    max_error: float | None = None,
    options: CompressOptions | None = None,
    **keywords: Unpack[CompressKeywords],
) -> CodedTable:
    """Learn a code for every symbol of a table.

        coded = kdcode.compress(table, "20x")
        coded = kdcode.compress(table, codebook_size=16, code_length=32, effort="fast", progress=True)

    Args:
        table: symbols and vectors: a `VectorTable`, an array, a tensor, an `nn.Embedding`, a DataFrame, a dict,
            gensim's KeyedVectors, or a path; see `kdcode.as_table`.
        size: like 20x (times smaller than float32 vectors), 500KB (of the file), or bytes. The shape of the code is
            then the one that `plan` recommends.
        bits: of a code at most, in place of a size.
        max_error: the relative squared error not to be exceeded, in place of a size; the smallest table is sought.
        options: how to compress; the defaults where left out.
        **keywords: single options, which go before those in `options`, and how to run. They are listed below.

    Returns:
        The coded table. What was lost is in its `provenance`: relative_error, mean_cosine, norm_error, recall_at_10 and
        shared_codes, among others. How long learning took is its `learning_seconds`, which no file keeps: two runs with
        the same table and options give the same file.

    Raises:
        OptionError: options that do not exist, do not fit together, or cannot work for this table.
        CheckpointError: the checkpoint is of another run, is damaged, or is in use.
        StoppedBySignal: SIGTERM or SIGHUP came while a run had a checkpoint, which is written first.
    """
    others: dict[str, Any] = {**keywords}
    settings = RunSettings.take(others)
    chosen = chosen_options(options, size, others)
    goal, shard = Goal.given(size=size, bits=bits, max_error=max_error), TableShard.whole(as_table(table))
    refuse_planned(goal, others)
    return cast(CodedTable, _for_goal(shard, goal, chosen, settings))


@listing_keywords(RunSettings)
def compress_shard(
    shard: TableShard,
    size: str | int | None = None,
    *,
    bits: int | None = None,
    max_error: float | None = None,
    options: CompressOptions | None = None,
    **keywords: Unpack[CompressKeywords],
) -> CodedTable | None:
    """What `compress` does, for a table whose rows are on several ranks, all of which call this.

        with joined_ranks() as ranks:
            coded = compress_shard(read_shard("big.npy", ranks), "20x")
            if coded is not None:
                kdcode.save(coded, "big.kdc")

    Ranks tell each other sums over their rows, and never the rows themselves but for small samples. The result is that
    of one process, up to the rounding of sums. Rank 0 makes the plan, holds the checkpoint and shows progress; a
    checkpoint can be resumed by another number of ranks, or by `compress`.

    Args:
        shard: the rows of this rank.
        size: as of `compress`, like all that follow.
        bits: of a code at most, in place of a size.
        max_error: the relative squared error not to be exceeded, in place of a size; the smallest table is sought.
        options: how to compress; the defaults where left out.
        **keywords: single options, which go before those in `options`, and how to run. They are listed below.

    Returns:
        The coded table on rank 0, and None on others.

    Raises:
        LostRankError: another rank has ended, or does not answer. What `compress` raises is raised on all ranks.
    """
    others: dict[str, Any] = {**keywords}
    settings = RunSettings.take(others)
    chosen = chosen_options(options, size, others)
    goal = Goal.given(size=size, bits=bits, max_error=max_error)
    refuse_planned(goal, others)
    return _for_goal(shard, goal, chosen, settings)


def refuse_planned(goal: Goal | None, changes: dict[str, Any]) -> None:
    """Refuse options that are asked for by name, and that a plan for the goal chooses.

    Raises:
        OptionError: with the name of the first.
    """
    for name in PLANNED if goal is not None else ():
        if name in changes:
            raise OptionError(f"{name} is chosen for {goal}; leave one of the two out")


def _for_goal(
    shard: TableShard, goal: Goal | None, options: CompressOptions, settings: RunSettings
) -> CodedTable | None:
    """The coded table, planned for a goal where there is one."""
    if goal is None:
        return compress_planned(shard, Planned(options), settings)
    checkpoint = settings.run_checkpoint
    with ending_by_signal(checkpoint is not None), held_by_first(checkpoint, shard.share.ranks):
        return compress_planned(shard, plan_shard(shard, options, goal, settings), settings)


def plan_shard(shard: TableShard, options: CompressOptions, goal: Goal, settings: RunSettings) -> Planned:
    """What `planned` does, for a table on several ranks, all of which call this."""
    threads = _threads(settings, shard.share.ranks)
    planning = PlanSettings(settings.progress is True, settings.device, threads)
    checkpoint = settings.run_checkpoint
    return on_first_rank(shard, lambda table: planned(table, options, goal, planning, checkpoint=checkpoint))


def compress_planned(shard: TableShard, plan: Planned, settings: RunSettings) -> CodedTable | None:
    """The coded table of what was planned, on rank 0. All ranks call this."""
    with running(settings, shard.share.ranks) as on_step:
        if plan.options.composition == TRANSFORM:
            return _transformed(shard, plan, settings, on_step)
        from kdcode.learning.codeword_tables import learned_codewords  # transform codes do without

        return learned_codewords(shard, plan.options, settings, on_step)[0]


def chosen_options(options: CompressOptions | None, size: object, changes: dict[str, Any]) -> CompressOptions:
    """Options with some changed by name."""
    for given, allowed in ((options, CompressOptions | None), (size, CompressOptions | str | int | None)):
        if not isinstance(given, allowed):
            raise OptionError(f"options must be CompressOptions, got {type(given).__name__}")
    if isinstance(size, CompressOptions):
        raise OptionError("the second argument is a size, like 20x; give options by name: options=...")
    return (options or CompressOptions()).changed(**changes)


def _threads(settings: RunSettings, ranks: Ranks) -> int | None:
    """CPU threads: what is asked for, and of several ranks each its share of the machine's."""
    return settings.threads if settings.threads or ranks.is_alone else threads_of_rank()


@contextmanager
def running(settings: RunSettings, ranks: Ranks) -> Iterator[OnStep]:
    """A run: its threads, its checkpoint and what it shows. Gives what is to be called after every step."""
    checkpoint = settings.run_checkpoint
    with (
        using_threads(_threads(settings, ranks)),
        held_by_first(checkpoint, ranks),
        showing_steps(settings.progress if ranks.is_first else False) as show,
        stopping_at_safe_places(
            checkpoint is not None, shared=None if ranks.is_alone else ranks.largest
        ) as stop_if_asked,
    ):

        def on_step(report: StepReport) -> None:
            stop_if_asked()
            with ranks.stopping_together():
                if show is not None:
                    show(report)
            if ranks.is_alone:
                stop_if_asked()

        yield on_step


def _transformed(shard: TableShard, plan: Planned, settings: RunSettings, on_step: OnStep) -> CodedTable | None:
    """The table in transform codes, on rank 0: nothing is learned but a rotation and some tables."""
    options, ranks = plan.options, shard.share.ranks
    identity = run_identity(shard, options.as_dict())
    run = Run(CODING_STEPS, identity, on_step, checkpoint_for(settings.run_checkpoint, shard.share), ranks)
    coded, lost = gathered(shard, transform_coded(shard, options, run, plan.design))
    if coded is not None:
        add_provenance(coded, lost, options, identity)
        coded.learning_seconds = round(run.seconds, 1)
    return coded


def add_provenance(
    coded: CodedTable,
    lost: TableComparison,
    options: CompressOptions,
    identity: str,
    curve: dict[str, Any] | None = None,
    **versions: str,
) -> None:
    """Note in a coded table what was lost and how it was learned, with the versions of what it was learned with."""
    coded.provenance.update(
        learner=options.learner_name,
        options=options.as_dict(),
        **{name: round(value, 6) for name, value in lost.as_dict().items()},
        shared_codes=coded.shared_codes,
        versions={"kdcode": __version__, "numpy": np.__version__, **versions},
        fingerprint=identity,
        **({} if curve is None else {CURVE: curve}),
    )


def gathered(shard: TableShard, own: CodedTable) -> tuple[CodedTable | None, TableComparison]:
    """The codes of all ranks with their symbols, on rank 0, and what is lost of all rows."""
    lost = compare_part(shard.table, own, shard.table.weights, shard.share)
    ranks = shard.share.ranks
    packed = own.packed if ranks.is_alone else ranks.rows_to_first(np.array(own.packed))
    return CodedTable(shard.packed_symbols, packed, own.codec) if ranks.is_first else None, lost
