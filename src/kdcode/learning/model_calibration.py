"""Calibration: what a model does with its tables on some inputs, and codes that keep its logits, not only its vectors.

The logits of an output layer are dot products of its rows with hidden states, and hidden states are far from even: most
of their energy may lie in a few directions. The squared error of a logit is the squared length of the row's error times
a root of the states' second moment. So rows are multiplied by that root before codes are learned, and the codec by its
inverse afterwards, which takes no more bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kdcode.codec_torch import module_of
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.evaluation import compare_tables
from kdcode.learning.compression import compress
from kdcode.learning.model_layers import Matrix, Place
from kdcode.learning.planning.planner import plan
from kdcode.options import CompressOptions
from kdcode.table import VectorTable

Batch = Tensor | Mapping[str, Any] | Sequence[Any]
"""Inputs of a model: one argument, keywords, or several arguments."""

PLAIN_SHARE = 1.0
"""How much the plain error of vectors counts beside that of logits: one table may serve the token table, too."""

_SMOOTHING = 1.0
"""Added to how often each row was used: a row that was not seen may be used all the same."""


@dataclass
class Observed:
    """What a model did with one matrix.

    Args:
        uses: (N,) how often each row was looked up; for an output layer alone, the probabilities of its rows, added up.
        moment: (d, d) sum of the outer products of the states that output layers were given.
        states: how many those were.
    """

    uses: Tensor
    moment: Tensor
    states: int = 0

    @classmethod
    def nothing(cls, matrix: Matrix) -> Observed:
        """Before the first batch."""
        rows, size = matrix.weight.shape
        return cls(torch.zeros(rows, dtype=torch.float64), torch.zeros(size, size, dtype=torch.float64))

    @property
    def weights(self) -> np.ndarray[Any, Any]:
        """(N,) how much each row counts."""
        return (self.uses + _SMOOTHING).numpy()

    @property
    def root(self) -> Tensor | None:
        """(d, d) root of the states' second moment and of plain errors; None where there were no states."""
        trace = float(self.moment.trace())
        if not self.states or trace <= 0:
            return None
        size = len(self.moment)
        even = PLAIN_SHARE * torch.eye(size, dtype=torch.float64)
        root: Tensor = torch.linalg.cholesky(self.moment * (size / trace) + even)
        return root.float()


def observe(model: nn.Module, matrices: Sequence[Matrix], batches: Iterable[Batch]) -> dict[Matrix, Observed]:
    """Run a model on some batches, in evaluation mode, and see how its matrices are used.

    Raises:
        OptionError: there is no batch, or a matrix was not used in any.
    """
    found = {matrix: Observed.nothing(matrix) for matrix in matrices}
    count = 0
    with torch.no_grad(), _evaluating(model), _watching(found):
        for batch in batches:
            _run(model, batch)
            count += 1
    if not count:
        raise OptionError("calibrate: expected batches of inputs for the model, got none")
    for matrix, observed in found.items():
        if not observed.uses.any():
            raise OptionError(f"calibrate: {matrix.name} was not used in any of {count} batches")
    return found


def can_be_fitted(options: CompressOptions) -> bool:
    """Whether a codec can take in a (d, d) matrix and stay as small as it is."""
    return options.rotation or (options.composition == "linear" and options.codeword_dim is None)


def compress_for_states(
    table: VectorTable,
    root: Tensor,
    options: CompressOptions,
    goals: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> CodedTable | None:
    """Codes of a table by which its products with states change little.

    Args:
        table: (N, d) rows.
        root: (d, d) of the states' second moment.
        options: how to compress.
        goals: size or bits, where options are to be planned for them.
        settings: how to run: keywords of `compress`.

    Returns:
        The coded table; None where no codec that can be fitted to states is small enough.
    """
    fitted = fitted_to_states(table, root)
    if goals:
        planning = {name: settings[name] for name in ("device", "threads") if name in settings}
        found = plan(
            fitted,
            options=options.changed(codewords=True),
            progress=settings.get("progress") is True,
            **planning,
            **goals,
        )
        fitting = [candidate.options for candidate in found.candidates if can_be_fitted(candidate.options)]
        if not fitting:
            return None
        options = fitting[0]
    return taken_back(compress(fitted, options=options, **settings), root, table)


def fitted_to_states(table: VectorTable, root: Tensor) -> VectorTable:
    """A table whose plain errors are those of the given table's products with states, whose moment has this root."""
    return VectorTable(table.symbols, table.matrix @ root.numpy(), table.weights)


@torch.no_grad()
def taken_back(coded: CodedTable, root: Tensor, table: VectorTable) -> CodedTable:
    """Codes of `fitted_to_states(table, root)` as codes of the table itself.

    The inverse of the root goes into the rotation of the codec, or into codewords that have all d numbers.
    """
    learned = coded.codewords
    assert learned is not None  # noqa: S101 - models that are calibrated are compressed to codewords
    codec = module_of(learned)
    weight = codec.codebook if codec.basis is None else codec.basis
    weight.copy_(torch.linalg.solve(root.double().T, weight.double().transpose(-1, -2)).transpose(-1, -2))
    found = CodedTable(coded.symbols, coded.packed, codec.to_codec(), coded.provenance)
    lost = compare_tables(table, found, table.weights)
    found.provenance.update({name: round(value, 6) for name, value in lost.as_dict().items()}, calibrated=True)
    found.learning_seconds = coded.learning_seconds
    return found


def _run(model: nn.Module, batch: Batch) -> None:
    if isinstance(batch, Mapping):
        model(**batch)
    elif isinstance(batch, Tensor):
        model(batch)
    else:
        model(*batch)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def _watching(found: Mapping[Matrix, Observed]) -> Iterator[None]:
    """Let layers tell what they are given, until the end."""
    hooks = []
    try:
        for matrix, observed in found.items():
            for place in matrix.embeddings:
                hooks.append(place.layer.register_forward_hook(_counting(observed), with_kwargs=True))
            for place in matrix.heads:
                hooks.append(place.layer.register_forward_hook(_adding_states(observed, place, matrix)))
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _counting(observed: Observed) -> Callable[..., None]:
    def hook(_layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], _vectors: Tensor) -> None:
        ids = args[0] if args else kwargs["input"]
        observed.uses += torch.bincount(ids.flatten().cpu(), minlength=len(observed.uses)).double()

    return hook


def _adding_states(observed: Observed, place: Place, matrix: Matrix) -> Callable[..., None]:
    counts_rows = not matrix.embeddings and place is matrix.heads[0]

    def hook(_layer: nn.Module, args: tuple[Any, ...], logits: Tensor) -> None:
        states = args[0].detach().reshape(-1, args[0].shape[-1]).float()
        observed.moment += (states.T @ states).double().cpu()
        observed.states += len(states)
        if counts_rows:
            rows = logits.detach().reshape(-1, logits.shape[-1]).float().softmax(dim=-1)
            observed.uses += rows.sum(dim=0).double().cpu()

    return hook
