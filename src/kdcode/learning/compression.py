"""From a table of vectors to a coded table: the one function that most callers need, and one that keeps the encoder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Unpack, cast

import numpy as np
import numpy.typing as npt
import torch

from kdcode._version import __version__
from kdcode.arrays import checked_vectors
from kdcode.codec import CodewordCodec
from kdcode.codec.spec import TRANSFORM
from kdcode.codec_torch.parallel import using_threads
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.evaluation import TableComparison, compare_part
from kdcode.inputs import TableSource, as_table
from kdcode.learning.gradient.encoder import Encoder
from kdcode.learning.identity import run_identity
from kdcode.learning.interrupts import ending_by_signal, stopping_at_safe_places
from kdcode.learning.learners import LEARNERS, stage_work, start_of
from kdcode.learning.planning import PLANNED, Goal, planned_options
from kdcode.learning.planning.shared_plan import on_first_rank
from kdcode.learning.progress import OnStep, StepReport, showing_steps
from kdcode.learning.rank_checkpoint import checkpoint_for, held_by_first
from kdcode.learning.ranks import Ranks, threads_of_rank
from kdcode.learning.rounding import rounded, with_row_scales
from kdcode.learning.run import Run
from kdcode.learning.run_settings import CompressKeywords, PlanSettings, RunSettings
from kdcode.learning.table_shard import TableShard
from kdcode.learning.training_table import TrainingTable
from kdcode.learning.transform import CODING_STEPS, transform_coded
from kdcode.option_keywords import listing_keywords
from kdcode.options import BatchOptions, CompressOptions, GradientOptions, RefinedOptions, checked_spec
from kdcode.provenance import CURVE


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
        return _compress(shard, options, settings)[0]
    checkpoint = settings.run_checkpoint
    with ending_by_signal(checkpoint is not None), held_by_first(checkpoint, shard.share.ranks):
        planned = plan_shard(shard, options, goal, settings)
        return _compress(shard, planned, settings)[0]


def plan_shard(shard: TableShard, options: CompressOptions, goal: Goal, settings: RunSettings) -> CompressOptions:
    """What `planned_options` does, for a table on several ranks, all of which call this."""
    threads = _threads(settings, shard.share.ranks)
    planning = PlanSettings(settings.progress is True, settings.device, threads)
    checkpoint = settings.run_checkpoint
    return on_first_rank(shard, lambda table: planned_options(table, options, goal, planning, checkpoint=checkpoint))


class LearnedEncoder(NamedTuple):
    """A coded table and the network that gives codes under its codec to other vectors."""

    coded: CodedTable
    encoder: Encoder

    def encode(self, vectors: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Codes of (d,) or (n, d) vectors, of the table or not, by the network; as `CodedTable.encode` gives them."""
        array = checked_vectors(vectors, self.coded.embedding_dim)
        codec = self.coded.codec
        assert isinstance(codec, CodewordCodec)  # noqa: S101 - for the type checker
        codes = codec.with_scale_level(np.atleast_2d(self.encoder.codes(array)), np.atleast_2d(array))
        return codes.reshape(*array.shape[:-1], codes.shape[1])


@listing_keywords(RunSettings)
def learn_encoder(
    table: TableSource,
    *,
    options: CompressOptions | None = None,
    **keywords: Unpack[CompressKeywords],
) -> LearnedEncoder:
    """What `compress` does with `learner="encoder"`, and the learned network beside the coded table.

        learned = learn_encoder(table, codebook_size=16, code_length=32, refine_rounds=0)
        codes = learned.encode(new_vectors)
        approximate = learned.coded.compose(codes)

    With `refine_rounds=0` the codebook is the one that the network was learned with. Refinement improves the vectors of
    the table, but fits the codebook to codes that are no longer the network's, so unseen vectors get a little worse.
    `CodedTable.encode` searches for codes instead; it is slower, and nearer to the vectors.

    Arguments are those of `compress`; the encoder is given back on the CPU.
    """
    others: dict[str, Any] = {**keywords}
    settings = RunSettings.take(others)
    if options is None or options.learner is None:
        others = {"learner": "encoder", **others}
    chosen = chosen_options(options, None, others)
    if chosen.learning.name != "encoder":
        raise OptionError(f"learner must be encoder to learn one, got {chosen.learning.name!r}")
    coded, encoder = _compress(TableShard.whole(as_table(table)), chosen, settings)
    return LearnedEncoder(cast(CodedTable, coded), cast(Encoder, encoder).cpu().eval())


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


def _compress(
    shard: TableShard, options: CompressOptions, settings: RunSettings
) -> tuple[CodedTable | None, Encoder | None]:
    """The coded table, on rank 0, and the network where the learner has one."""
    with running(settings, shard.share.ranks) as on_step:
        return _learned(shard, options, settings, on_step)


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


def _learned(
    shard: TableShard, options: CompressOptions, settings: RunSettings, on_step: OnStep
) -> tuple[CodedTable | None, Encoder | None]:
    """What `_compress` gives; `on_step` is called after every step."""
    table, share, rows = shard.table, shard.share, len(shard)
    if options.composition == TRANSFORM:
        return _transformed(shard, options, settings, on_step), None
    if options.rows_per_block is not None:
        raise OptionError("rows_per_block is for transform codes: give it with a size, or with composition='transform'")
    spec = checked_spec(shard, options)  # refuses what cannot work before anything is done
    if table.weights is not None and options.learning.name == "encoder":
        raise OptionError("rows with weights are for other learners than the encoder")
    if isinstance(options.learning, BatchOptions):
        options = options.changed(epochs=options.learning.epochs_for(rows))
    if isinstance(options.learning, GradientOptions):
        options = options.changed(start=start_of(spec, options.learning))
    identity = run_identity(shard, options.as_dict())
    checkpoint = checkpoint_for(settings.run_checkpoint, share)
    run = Run(stage_work(rows, spec, options), identity, on_step, checkpoint, share.ranks)
    training = TrainingTable.of(table, options, settings.device, None if share.ranks.is_alone else share)
    found = LEARNERS[options.learning.name](training, spec, options, run)
    moved, codec = rounded(training, found, refine=_codes_may_move(options))
    del training  # as large as the table
    codes: npt.NDArray[Any] = moved.cpu().numpy()
    if options.scale_bits:
        codes, codec = with_row_scales(table, codes, codec, share)
    coded, lost = _gathered(shard, CodedTable.from_codes(None, codes, codec))
    if coded is not None:
        add_provenance(coded, lost, options, identity, run.curve)
        coded.learning_seconds = round(run.seconds, 1)  # not in the file: two equal runs give equal files
    return coded, found.encoder


def _transformed(
    shard: TableShard, options: CompressOptions, settings: RunSettings, on_step: OnStep
) -> CodedTable | None:
    """The table in transform codes, on rank 0: nothing is learned but a rotation and some tables."""
    identity = run_identity(shard, options.as_dict())
    run = Run(CODING_STEPS, identity, on_step, checkpoint_for(settings.run_checkpoint, shard.share), shard.share.ranks)
    coded, lost = _gathered(shard, transform_coded(shard, options, run))
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
) -> None:
    """Note in a coded table what was lost and how it was learned."""
    coded.provenance.update(
        learner=options.learner_name,
        options=options.as_dict(),
        **{name: round(value, 6) for name, value in lost.as_dict().items()},
        shared_codes=coded.shared_codes,
        versions={"kdcode": __version__, "torch": torch.__version__, "numpy": np.__version__},
        fingerprint=identity,
        **({} if curve is None else {CURVE: curve}),
    )


def _gathered(shard: TableShard, own: CodedTable) -> tuple[CodedTable | None, TableComparison]:
    """The codes of all ranks with their symbols, on rank 0, and what is lost of all rows."""
    lost = compare_part(shard.table, own, shard.table.weights, shard.share)
    ranks = shard.share.ranks
    packed = ranks.rows_to_first(torch.from_numpy(np.array(own.packed))).numpy()
    return CodedTable(shard.packed_symbols, packed, own.codec) if ranks.is_first else None, lost


def _codes_may_move(options: CompressOptions) -> bool:
    """Whether codes are searched once more after rounding: not where they are to stay what the learner found."""
    chosen = options.learning
    return chosen.refine_rounds > 0 if isinstance(chosen, RefinedOptions) else chosen.name == "additive"
