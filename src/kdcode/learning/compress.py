"""From a table of vectors to a coded table: the one function that most callers need, and one that keeps the encoder."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from kdcode._version import __version__
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.evaluation import evaluate
from kdcode.learning.checkpoint import Checkpoint
from kdcode.learning.encoder import Encoder
from kdcode.learning.learners import LEARNERS, total_steps
from kdcode.learning.lengths import learned_from, lengths_apart, with_scales
from kdcode.learning.planning import PLANNED, plan
from kdcode.learning.progress import OnStep
from kdcode.learning.rounding import rounded
from kdcode.learning.run import Run
from kdcode.options import CompressOptions
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
        on_step: called after every update with a `StepReport`. If it raises, a checkpoint is written first.
        checkpoint: makes a killed run resumable.
        device: where to learn.
        **changes: single options by name, over `options`.

    Returns:
        The coded table. Its relative squared error is in `provenance["relative_error"]`.
    """
    options = (options or CompressOptions()).changed(**changes)
    if size is not None:
        for name in PLANNED:
            if name in changes:
                raise OptionError(f"{name} is chosen for the size {size}; leave one of the two out")
        options = plan(table, size, options=options, device=device).recommended.options
    return _compress(table, options, on_step, checkpoint, device)[0]


class LearnedEncoder(NamedTuple):
    """A coded table and the network that gives codes under its codebook to other vectors."""

    coded: CodedTable
    encoder: Encoder


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

        learned = learn_encoder(table, codebook_size=16, code_length=32, settle=0)
        codes = learned.encoder.encode(new_vectors)
        approximate = learned.coded.compose(codes)

    With `settle=0` the codebook is the one that the network was learned with. The closing refits make the table's own
    vectors better and fit the codebook to codes that are no longer the network's, so unseen vectors get a little worse.
    `CodedTable.encode` searches for codes instead; it is slower, and nearer to the vectors.

    Args:
        table: symbols and vectors.
        options: how; the defaults where left out.
        on_step: called after every update with a `StepReport`. If it raises, a checkpoint is written first.
        checkpoint: makes a killed run resumable.
        device: where to learn; the encoder is given back on the CPU.
        **changes: single options by name, over `options`.
    """
    options = (options or CompressOptions()).changed(**{"learner": "encoder", **changes})
    if options.learner != "encoder":
        raise OptionError(f"learner must be encoder to learn one, got {options.learner!r}")
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
    options.code_shape(len(table), table.embedding_dim)  # refuses what cannot work before anything is done
    if table.weights is not None and options.learner_name == "encoder":
        raise OptionError("rows with weights are for other learners than the encoder")
    started = time.monotonic()
    run = Run(total_steps(table, options), _identity(table, options), on_step, checkpoint)
    source = learned_from(table, options)
    target, codes, composition, encoder = LEARNERS[options.learner_name](source, options, run, device)
    target.restore(composition)
    del target  # as large as the table
    by_gradient = options.learner_name != "random" and options.settle > 0 and options.loss == "squared"
    settle = options.learner_name == "additive" or by_gradient
    codes, codebook, twin = rounded(source, codes, composition, options.numbers, settle=settle)
    coded = CodedTable.from_codes(table.symbols, codes.cpu().numpy(), codebook, twin)
    if options.scale_bits:
        coded = with_scales(coded, table, options.scale_bits)
    compared = evaluate(table, coded)
    coded.provenance.update(
        learner=options.learner_name,
        options=options.changed(epochs=options.epochs_for(len(table))).as_dict(),
        relative_error=round(compared.relative_error, 6),
        **({"mean_cosine": round(compared.mean_cosine, 6)} if lengths_apart(options) else {}),
        seconds=round(time.monotonic() - started, 1),
        **({} if table.weights is None else {"weighted_error": round(_weighted_error(table, coded), 6)}),
        versions={"kdcode": __version__, "torch": torch.__version__, "numpy": np.__version__},
    )
    return coded, encoder


def _weighted_error(table: VectorTable, coded: CodedTable) -> float:
    """Squared error over variance around the weighted mean, rows counted by their weight."""
    weights = np.asarray(table.weights, dtype=np.float64)
    mean = weights @ np.asarray(table.matrix, dtype=np.float64) / weights.sum()
    lost = around = 0.0
    start = 0
    for (_, vectors), (_, copies) in zip(table.chunks(), coded.chunks(), strict=True):
        part = weights[start : start + len(vectors)]
        lost += float(part @ np.square(vectors - copies).sum(axis=1, dtype=np.float64))
        around += float(part @ np.square(vectors - mean).sum(axis=1))
        start += len(vectors)
    return lost / around if around else 0.0


def _identity(table: VectorTable, options: CompressOptions) -> str:
    """A fingerprint of a run: its options and its vectors."""
    digest = hashlib.sha256(json.dumps([__version__, options.as_dict(), len(table), table.embedding_dim]).encode())
    for _, vectors in table.chunks():
        digest.update(np.ascontiguousarray(vectors).tobytes())
    if table.weights is not None:
        digest.update(table.weights.tobytes())
    return digest.hexdigest()
