"""Exact refinement: single codewords are swapped where that helps, and weights are solved for, by turns."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from kdcode.arrays import CHUNK_ROWS, IntArray
from kdcode.codec import CodewordCodec
from kdcode.codec_torch import BlockSumModule, CodecModule, LstmModule
from kdcode.codec_torch.lookup import flat_codes, lookup
from kdcode.learning.gradient.gradients import sum_gradients
from kdcode.learning.gradient.tensors import (
    TensorTable,
    as_arrays,
    as_tensors,
    copied_weights,
    squared_distances,
    unused_codewords,
)
from kdcode.learning.linalg.least_squares import solve_codewords
from kdcode.learning.progress import StepReport
from kdcode.learning.run import Run, State
from kdcode.learning.training_table import TrainingTable
from kdcode.nn.estimators import swap_costs

_SWEEPS_PER_ROUND = 5
_LBFGS_ITERATIONS = 15


class Found(NamedTuple):
    """(N, D) codes, the module that composes them, and the network they came from."""

    codes: Tensor
    module: CodecModule
    encoder: nn.Module | None = None


def refine(training: TensorTable, found: Found, rounds: int, run: Run, stage: int) -> Found:
    """Alternate between the best weights for the codes and better codes for the weights; never worse.

    Args:
        training: what to approximate.
        found: the solution to refine; its module is changed in place.
        rounds: how many times.
        run: counts the rounds as steps and keeps the checkpoint.
        stage: the number of this stage in the run.
    """
    if rounds == 0:
        return found
    codes, module, encoder = found
    done = 0

    def resume(state: State) -> int:
        nonlocal codes, done
        state = as_tensors(state, codes.device)
        if state["codes"].shape != codes.shape:
            raise ValueError(f"codes of shape {tuple(state['codes'].shape)}, expected {tuple(codes.shape)}")
        codes, done = state["codes"], state["round"]
        module.load_state_dict(state["weights"])
        if encoder is not None:
            encoder.load_state_dict(state["encoder"])
        return int(done)

    if not run.begin(stage, resume, ("codes",)):
        solve_if_better(training, codes, module)
    for number in range(done + 1, rounds + 1):
        before = codes
        for _ in range(_SWEEPS_PER_ROUND):
            codes = swap_codewords(training.vectors, codes, module)
        error = solve_if_better(training, codes, module)
        changed = training.ranks.total(int((codes != before).sum())) / (training.share.total * codes.shape[1])
        unused = unused_codewords(codes, module.spec.codebook_size, training.ranks)
        report = StepReport(number, rounds, error, changed, 0.0, unused)
        run.after_step(report, partial(_state, number, Found(codes, module, encoder)))
    return Found(codes, module, encoder)


def _state(number: int, found: Found) -> State:
    network = None if found.encoder is None else found.encoder.state_dict()
    return dict(
        as_arrays({"round": number, "codes": found.codes, "weights": found.module.state_dict(), "encoder": network})
    )


def swap_codewords(vectors: Tensor, codes: Tensor, module: CodecModule) -> Tensor:
    """Swap, in every row, the one codeword whose replacement promises most, where it keeps its promise.

    The promise is the second-order model of `swap_costs`, exact for sums; the row is then composed with the new code,
    and the swap undone where the error did not fall.

    Args:
        vectors: (N, d) what to approximate.
        codes: (N, D).
        module: not changed.

    Returns:
        (N, D) codes that are worse in no row.
    """
    codebook = module.codebook.detach()
    size = codebook.shape[1]
    found = codes.clone()
    gains: Tensor | None = None
    for first in range(0, len(codes), CHUNK_ROWS):
        rows = slice(first, first + CHUNK_ROWS)
        part = codes[rows].long()
        words = lookup(part, codebook).requires_grad_()
        errors = squared_distances(module(words), vectors[rows])
        (slope,) = torch.autograd.grad(errors.sum(), words)
        if gains is None:
            gains = module.gains(words.detach()[:256])
        rise = swap_costs(slope, part, codebook, gains).flatten(1)
        rise.scatter_(1, flat_codes(part, size), float("inf"))
        place = rise.argmin(dim=1, keepdim=True)
        trial = part.scatter(1, place // size, place % size)
        with torch.no_grad():
            better = squared_distances(module.compose(trial), vectors[rows]) < errors
        found[rows] = torch.where(better[:, None], trial, part).to(found.dtype)
    return found


def solve_if_better(training: TensorTable, codes: Tensor, module: CodecModule) -> float:
    """Solve for the weights, and go back where that did not lower the error."""
    before = training.error(codes, module)
    weights = copied_weights(module)
    solve_weights(training, codes, module)
    training.ranks.agree(list(module.parameters()))
    after = training.error(codes, module)
    if after <= before:
        return after
    module.load_state_dict(weights)
    return before


def solve_weights(training: TensorTable, codes: Tensor, module: CodecModule) -> None:
    """Improve codewords and composition, in place, for fixed (N, D) codes: exactly for sums, else by L-BFGS."""
    if not isinstance(module, BlockSumModule) or (module.spec.basis and not module.spec.is_rotated):
        _lbfgs(training, codes, module)
        return
    vectors = module.coordinates(training.vectors).detach().cpu().numpy()
    chosen = codes.cpu().numpy()
    with torch.no_grad():
        for block in module.spec.blocks:
            words = module.codebook[block.positions, :, : block.width]
            found = solve_codewords(
                vectors[:, block.columns],
                chosen[:, block.positions],
                words.cpu().numpy(),
                training.table.weights,
                ranks=training.ranks,
            )
            words.copy_(torch.from_numpy(found))


def _lbfgs(training: TensorTable, codes: Tensor, module: CodecModule) -> None:
    """Full-batch quasi-Newton steps on all weights, gradients added up over chunks of rows."""
    optimizer = torch.optim.LBFGS(
        module.parameters(), max_iter=_LBFGS_ITERATIONS, history_size=10, line_search_fn="strong_wolfe"
    )

    numbers = training.share.total * training.vectors.shape[1]

    def loss() -> float:
        optimizer.zero_grad()
        total, start = 0.0, 0
        for vectors, part in zip(training.vectors.split(CHUNK_ROWS), codes.split(CHUNK_ROWS), strict=True):
            rows = squared_distances(module.compose(part), vectors)
            weights = None if training.weights is None else training.weights[start : start + len(part)]
            squared = (rows.sum() if weights is None else rows @ weights) / numbers
            squared.backward()
            total += float(squared.detach())
            start += len(part)
        return sum_gradients(module.parameters(), [total], training.ranks)[0]

    optimizer.step(loss)
    optimizer.zero_grad()


def rounded_lstm(
    training: TrainingTable, codes: IntArray, module: LstmModule, *, refine: bool
) -> tuple[IntArray, CodewordCodec]:
    """What `kdcode.learning.rounding.rounded` does, for an LSTM: codewords are swapped where that helps."""
    codec = module.to_codec()
    if refine and module.spec.codebook_dtype != "float32":
        module.load_codec(codec)
        codes = codes.copy()
        for start in range(0, len(codes), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            vectors = torch.from_numpy(training.uncentred(part))
            codes[part] = swap_codewords(vectors, torch.from_numpy(codes[part]), module).numpy()
    return codes, codec.scaled(training.scale)
