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
from kdcode.codec import Codec
from kdcode.codec_torch.parallel import using_threads
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.evaluation import evaluate
from kdcode.inputs import TableSource, as_table
from kdcode.learning.checkpoint import holding
from kdcode.learning.gradient.encoder import Encoder
from kdcode.learning.interrupts import ending_by_signal, stopping_at_safe_places
from kdcode.learning.learners import LEARNERS, stage_work, start_of
from kdcode.learning.planning import PLANNED, Goal, planned_options
from kdcode.learning.progress import OnStep, StepReport, showing_steps
from kdcode.learning.rounding import rounded, with_row_scales
from kdcode.learning.run import Run, run_identity
from kdcode.learning.run_settings import CompressKeywords, PlanSettings, RunSettings
from kdcode.learning.training_table import TrainingTable
from kdcode.option_keywords import listing_keywords
from kdcode.options import BatchOptions, CompressOptions, GradientOptions, checked_spec
from kdcode.table import VectorTable


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
    goal, vectors = Goal.given(size=size, bits=bits, max_error=max_error), as_table(table)
    if goal is None:
        return _compress(vectors, chosen, settings)[0]
    refuse_planned(goal, others)
    checkpoint = settings.run_checkpoint
    planning = PlanSettings(settings.progress is True, settings.device, settings.threads)
    with ending_by_signal(checkpoint is not None), holding(checkpoint):
        chosen = planned_options(vectors, chosen, goal, planning, checkpoint=checkpoint)
        return _compress(vectors, chosen, settings)[0]


class LearnedEncoder(NamedTuple):
    """A coded table and the network that gives codes under its codec to other vectors."""

    coded: CodedTable
    encoder: Encoder

    def encode(self, vectors: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Codes of (d,) or (n, d) vectors, of the table or not, by the network; as `CodedTable.encode` gives them."""
        array = checked_vectors(vectors, self.coded.embedding_dim)
        codes = self.coded.codec.with_scale_level(np.atleast_2d(self.encoder.codes(array)), np.atleast_2d(array))
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
    coded, encoder = _compress(as_table(table), chosen, settings)
    return LearnedEncoder(coded, cast(Encoder, encoder).cpu().eval())


def chosen_options(options: CompressOptions | None, size: object, changes: dict[str, Any]) -> CompressOptions:
    """Options with some changed by name."""
    for given, allowed in ((options, CompressOptions | None), (size, CompressOptions | str | int | None)):
        if not isinstance(given, allowed):
            raise OptionError(f"options must be CompressOptions, got {type(given).__name__}")
    if isinstance(size, CompressOptions):
        raise OptionError("the second argument is a size, like 20x; give options by name: options=...")
    return (options or CompressOptions()).changed(**changes)


def refuse_planned(goal: Goal, changes: dict[str, Any]) -> None:
    """Refuse options that are asked for by name, and that a plan chooses.

    Raises:
        OptionError: with the name of the first.
    """
    for name in PLANNED:
        if name in changes:
            raise OptionError(f"{name} is chosen for {goal}; leave one of the two out")


def _compress(table: VectorTable, options: CompressOptions, settings: RunSettings) -> tuple[CodedTable, Encoder | None]:
    """The coded table, and the network where the learner has one."""
    with running(settings) as on_step:
        return _learned(table, options, settings, on_step)


@contextmanager
def running(settings: RunSettings) -> Iterator[OnStep]:
    """A run: its threads, its checkpoint and what it shows. Gives what is to be called after every step."""
    checkpoint = settings.run_checkpoint
    with (
        using_threads(settings.threads),
        holding(checkpoint),
        showing_steps(settings.progress) as show,
        stopping_at_safe_places(checkpoint is not None) as stop_if_asked,
    ):

        def on_step(report: StepReport) -> None:
            stop_if_asked()
            if show is not None:
                show(report)
            stop_if_asked()

        yield on_step


def _learned(
    table: VectorTable, options: CompressOptions, settings: RunSettings, on_step: OnStep
) -> tuple[CodedTable, Encoder | None]:
    """What `_compress` gives; `on_step` is called after every step."""
    spec = checked_spec(table, options)  # refuses what cannot work before anything is done
    if table.weights is not None and options.learning.name == "encoder":
        raise OptionError("rows with weights are for other learners than the encoder")
    if isinstance(options.learning, BatchOptions):
        options = options.changed(epochs=options.learning.epochs_for(len(table)))
    if isinstance(options.learning, GradientOptions):
        options = options.changed(start=start_of(spec, options.learning))
    identity = run_identity(table, options.as_dict())
    run = Run(stage_work(len(table), spec, options), identity, on_step, settings.run_checkpoint)
    training = TrainingTable.of(table, options, settings.device)
    found = LEARNERS[options.learning.name](training, spec, options, run)
    moved, codec = rounded(training, found, refine=_codes_may_move(options))
    del training  # as large as the table
    codes: npt.NDArray[Any] = moved.cpu().numpy()
    if options.scale_bits:
        codes, codec = with_row_scales(table, codes, codec)
    coded = coded_with_provenance(table, codes, codec, options, identity)
    coded.learning_seconds = round(run.seconds, 1)  # not in the file: two equal runs give equal files
    return coded, found.encoder


def coded_with_provenance(
    table: VectorTable, codes: npt.NDArray[Any], codec: Codec, options: CompressOptions, identity: str
) -> CodedTable:
    """The coded table of (N, columns) codes, with what was lost and how it was learned."""
    coded = CodedTable.from_codes(table.packed_symbols, codes, codec)
    lost = evaluate(table, coded, table.weights)
    coded.provenance.update(
        learner=options.learning.name,
        options=options.as_dict(),
        **{name: round(value, 6) for name, value in lost.as_dict().items()},
        shared_codes=coded.shared_codes,
        versions={"kdcode": __version__, "torch": torch.__version__, "numpy": np.__version__},
        fingerprint=identity,
    )
    return coded


def _codes_may_move(options: CompressOptions) -> bool:
    """Whether codes are searched once more after rounding: not where they are to stay what the learner found."""
    chosen = options.learning
    return chosen.refine_rounds > 0 if isinstance(chosen, BatchOptions) else chosen.name == "additive"
