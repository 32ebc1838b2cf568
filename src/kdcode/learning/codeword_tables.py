"""Codes with codewords for a table, by any learner; and one that keeps the network that gives codes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast

import numpy as np
import numpy.typing as npt

from kdcode.arrays import checked_vectors
from kdcode.codec import CodewordCodec
from kdcode.coded import CodedTable
from kdcode.errors import MissingExtraError, OptionError
from kdcode.inputs import TableSource, as_table
from kdcode.learning.compression import add_provenance, chosen_options, gathered, running
from kdcode.learning.identity import run_identity
from kdcode.learning.learners import learn, stage_work, start_of
from kdcode.learning.progress import OnStep
from kdcode.learning.rank_checkpoint import checkpoint_for
from kdcode.learning.rounding import rounded, with_row_scales
from kdcode.learning.run import Run
from kdcode.learning.run_settings import CompressKeywords, RunSettings
from kdcode.learning.table_shard import TableShard
from kdcode.learning.training_table import TrainingTable
from kdcode.option_keywords import listing_keywords
from kdcode.options import BatchOptions, CompressOptions, GradientOptions, RefinedOptions, checked_spec

if TYPE_CHECKING:
    from kdcode.learning.gradient.encoder import Encoder


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
    shard = TableShard.whole(as_table(table))
    with running(settings, shard.share.ranks) as on_step:
        coded, encoder = learned_codewords(shard, chosen, settings, on_step)
    return LearnedEncoder(cast(CodedTable, coded), cast("Encoder", encoder).cpu().eval())


def learned_codewords(
    shard: TableShard, options: CompressOptions, settings: RunSettings, on_step: OnStep
) -> tuple[CodedTable | None, Encoder | None]:
    """The coded table, on rank 0, and the network where the learner has one; `on_step` is called after every step."""
    table, share, rows = shard.table, shard.share, len(shard)
    if options.rows_per_block is not None:
        raise OptionError("rows_per_block is for transform codes: give it with a size, or with composition='transform'")
    spec = checked_spec(shard, options)  # refuses what cannot work before anything is done
    _check_device(options, settings)
    if table.weights is not None and options.learning.name == "encoder":
        raise OptionError("rows with weights are for other learners than the encoder")
    if isinstance(options.learning, BatchOptions):
        options = options.changed(epochs=options.learning.epochs_for(rows))
    if isinstance(options.learning, GradientOptions):
        options = options.changed(start=start_of(spec, options.learning))
    identity = run_identity(shard, options.as_dict())
    checkpoint = checkpoint_for(settings.run_checkpoint, share)
    run = Run(stage_work(rows, spec, options), identity, on_step, checkpoint, share.ranks)
    training = TrainingTable.of(table, options, None if share.ranks.is_alone else share)
    found = learn(training, spec, options, run, settings.device)
    codes, codec = rounded(training, found, refine=_codes_may_move(options))
    del training  # as large as the table
    if options.scale_bits:
        codes, codec = with_row_scales(table, codes, codec, share)
    coded, lost = gathered(shard, CodedTable.from_codes(None, codes, codec))
    if coded is not None:
        add_provenance(coded, lost, options, identity, run.curve, **version_of_torch(options))
        coded.learning_seconds = round(run.seconds, 1)  # not in the file: two equal runs give equal files
    return coded, found.encoder


def version_of_torch(options: CompressOptions) -> dict[str, str]:
    """The version of torch where the learner needs it."""
    return {"torch": import_module("torch").__version__} if options.needs_torch else {}


def _check_device(options: CompressOptions, settings: RunSettings) -> None:
    """Refuse what learners without gradients cannot use, and a missing torch, before any work.

    Raises:
        OptionError: a device that has no use.
        MissingExtraError: torch is not installed.
    """
    if not options.needs_torch:
        if str(settings.device) != "cpu":
            raise OptionError(
                f"device is for learners by gradients, and {options.learning.name} works on the CPU; leave it out"
            )
        return
    try:
        import_module("torch")
    except ImportError:
        raise MissingExtraError(f"the learner {options.learning.name}", "torch") from None


def _codes_may_move(options: CompressOptions) -> bool:
    """Whether codes are searched once more after rounding: not where they are to stay what the learner found."""
    chosen = options.learning
    return chosen.refine_rounds > 0 if isinstance(chosen, RefinedOptions) else chosen.name == "additive"
