"""From a table of vectors to a coded table: the one function that most callers need."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

import numpy as np
import torch

from kdcode._version import __version__
from kdcode.codebook import Codebook
from kdcode.coded import CodedTable
from kdcode.evaluation import relative_error
from kdcode.learning.checkpoint import Checkpoint
from kdcode.learning.composition import make_composition
from kdcode.learning.learner import Best, GradientLearner
from kdcode.learning.least_squares import solve_weights
from kdcode.learning.progress import OnStep
from kdcode.learning.starts import STARTS, random_start
from kdcode.learning.target import Target, can_shift
from kdcode.options import CompressOptions
from kdcode.table import VectorTable


def compress(
    table: VectorTable,
    options: CompressOptions | None = None,
    *,
    on_step: OnStep | None = None,
    checkpoint: Checkpoint | None = None,
    device: torch.device | str = "cpu",
    **changes: Any,  # noqa: ANN401 - option values of any type
) -> CodedTable:
    """Learn a code for every symbol of a table.

    Args:
        table: symbols and vectors.
        options: how; the defaults where left out.
        on_step: called after every update with a `StepReport`. If it raises, a checkpoint is written first.
        checkpoint: makes a killed run resumable.
        device: where to learn.
        **changes: single options by name, over `options`.

    Returns:
        The coded table. Its relative squared error is in `provenance["relative_error"]`.
    """
    options = (options or CompressOptions()).changed(**changes)
    shape = options.code_shape(len(table), table.embedding_dim)
    started = time.monotonic()
    composition = make_composition(shape)
    target = Target.of(table, centred=can_shift(composition), device=device)
    best = _learn(target, options, table, on_step, checkpoint)
    composition.to(device).load_state_dict(best.weights)
    solve_weights(target, best.codes, composition)
    if not target.error(best.codes, composition) < best.error:
        composition.load_state_dict(best.weights)
    target.restore(composition)
    words, twin = composition.cpu().to_numpy()
    codes = best.codes.cpu().numpy()
    coded = CodedTable.from_codes(table.symbols, codes, Codebook.of(words, options.numbers), twin)
    coded.provenance.update(
        learner=options.learner,
        options=options.as_dict(),
        relative_error=round(relative_error(table, coded), 6),
        seconds=round(time.monotonic() - started, 1),
        versions={"kdcode": __version__, "torch": torch.__version__, "numpy": np.__version__},
    )
    if checkpoint is not None:
        checkpoint.remove()
    return coded


def _learn(
    target: Target, options: CompressOptions, table: VectorTable, on_step: OnStep | None, checkpoint: Checkpoint | None
) -> Best:
    shape = options.code_shape(len(target), table.embedding_dim)
    learn_codes = options.learner != "random"
    start = (STARTS[options.start] if learn_codes else random_start)(target, shape, options.seed)
    learner = GradientLearner(target, start, options, learn_codes=learn_codes)
    return learner.run(_identity(target, options), on_step, checkpoint)


def _identity(target: Target, options: CompressOptions) -> str:
    """A fingerprint of a run: its options and its vectors."""
    digest = hashlib.sha256(json.dumps([__version__, options.as_dict(), list(target.vectors.shape)]).encode())
    for part in target.vectors.split(65_536):
        digest.update(part.cpu().numpy().tobytes())
    return digest.hexdigest()
