"""From a table of vectors to a coded table: the one function that most callers need, and one that keeps the encoder."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch

from kdcode._version import __version__
from kdcode.codec.codec import checked_vectors
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.evaluation import evaluate
from kdcode.learning.checkpoint import Checkpoint
from kdcode.learning.gradient.encoder import Encoder
from kdcode.learning.learners import LEARNERS, total_steps
from kdcode.learning.planning import PLANNED, Goal, planned_options
from kdcode.learning.progress import OnStep
from kdcode.learning.rounding import rounded, with_row_scales
from kdcode.learning.run import Run, run_identity
from kdcode.learning.training_table import TrainingTable
from kdcode.options import BatchOptions, CompressOptions, checked_spec
from kdcode.table import VectorTable


def compress(
    table: VectorTable,
    options: CompressOptions | None = None,
    *,
    size: str | int | None = None,
    on_step: OnStep | None = None,
    checkpoint: Checkpoint | None = None,
    device: torch.device | str = "cpu",
    **changes: Any,  # noqa: ANN401 - option values of any type
) -> CodedTable:
    """Learn a code for every symbol of a table.

    Args:
        table: symbols and vectors.
        options: how; the defaults where left out.
        size: like 20x, 500KB or bytes: takes the settings that `plan` recommends, in place of those in `options`.
        on_step: called after every step with a `StepReport`. If it raises, a checkpoint is written first.
        checkpoint: makes a stopped run resumable.
        device: where to learn.
        **changes: single options by name, over `options`; those of the learner among them.

    Returns:
        The coded table. What was lost is in its `provenance`: relative_error, mean_cosine and norm_error.
    """
    options = (options or CompressOptions()).changed(**changes)
    if size is not None:
        for name in PLANNED:
            if name in changes:
                raise OptionError(f"{name} is chosen for the size {size}; leave one of the two out")
        options = planned_options(table, options, Goal(size=size), checkpoint=checkpoint, device=device)
    return _compress(table, options, on_step, checkpoint, device)[0]


class LearnedEncoder(NamedTuple):
    """A coded table and the network that gives codes under its codec to other vectors."""

    coded: CodedTable
    encoder: Encoder

    def encode(self, vectors: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Codes of (d,) or (n, d) vectors, of the table or not, by the network; as `CodedTable.encode` gives them."""
        array = checked_vectors(vectors, self.coded.embedding_dim)
        codes = self.coded.codec.with_scale_level(np.atleast_2d(self.encoder.codes(array)), np.atleast_2d(array))
        return codes.reshape(*array.shape[:-1], codes.shape[1])


def learn_encoder(
    table: VectorTable,
    options: CompressOptions | None = None,
    *,
    on_step: OnStep | None = None,
    checkpoint: Checkpoint | None = None,
    device: torch.device | str = "cpu",
    **changes: Any,  # noqa: ANN401 - option values of any type
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
    options = options or CompressOptions()
    if options.learner is None:
        changes = {"learner": "encoder", **changes}
    options = options.changed(**changes)
    if options.learning.name != "encoder":
        raise OptionError(f"learner must be encoder to learn one, got {options.learning.name!r}")
    coded, encoder = _compress(table, options, on_step, checkpoint, device)
    return LearnedEncoder(coded, cast(Encoder, encoder).cpu().eval())


def _compress(
    table: VectorTable,
    options: CompressOptions,
    on_step: OnStep | None,
    checkpoint: Checkpoint | None,
    device: torch.device | str,
) -> tuple[CodedTable, Encoder | None]:
    """The coded table, and the network where the learner has one."""
    spec = checked_spec(table, options)  # refuses what cannot work before anything is done
    if table.weights is not None and options.learning.name == "encoder":
        raise OptionError("rows with weights are for other learners than the encoder")
    if isinstance(options.learning, BatchOptions):
        options = options.changed(epochs=options.learning.epochs_for(len(table)))
    started = time.monotonic()
    identity = "" if checkpoint is None else run_identity(table, options.as_dict())
    run = Run(total_steps(len(table), spec, options), identity, on_step, checkpoint)
    training = TrainingTable.of(table, options, device)
    found = LEARNERS[options.learning.name](training, spec, options, run)
    moved, codec = rounded(training, found, refine=_codes_may_move(options))
    del training  # as large as the table
    codes: npt.NDArray[Any] = moved.cpu().numpy()
    if options.scale_bits:
        codes, codec = with_row_scales(table, codes, codec)
    coded = CodedTable.from_codes(table.packed_symbols, codes, codec)
    lost = evaluate(table, coded, table.weights)
    coded.provenance.update(
        learner=options.learning.name,
        options=options.as_dict(),
        **{name: round(value, 6) for name, value in lost.as_dict().items()},
        seconds=round(time.monotonic() - started, 1),
        versions={"kdcode": __version__, "torch": torch.__version__, "numpy": np.__version__},
    )
    return coded, found.encoder


def _codes_may_move(options: CompressOptions) -> bool:
    """Whether codes are searched once more after rounding: not where they are to stay what the learner found."""
    chosen = options.learning
    return chosen.refine_rounds > 0 if isinstance(chosen, BatchOptions) else chosen.name == "additive"
