"""The learners that need torch: gradients, the encoder network, and LSTMs, which nothing else can solve for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.codec import CodewordSpec
from kdcode.codec_torch import LstmModule, make_module
from kdcode.learning.gradient.algorithm_1 import Algorithm1Learner
from kdcode.learning.gradient.encoder import fresh_encoder
from kdcode.learning.gradient.encoder_learner import EncoderLearner
from kdcode.learning.gradient.learner import GradientLearner
from kdcode.learning.gradient.refinement import Found, refine, solve_if_better
from kdcode.learning.gradient.tensors import (
    TensorStart,
    TensorTable,
    generator_for,
    module_of,
    solution_of,
    unused_codewords,
)
from kdcode.learning.learners import (
    GRADIENT,
    REFINE,
    gently,
    is_past,
    learn_additive,
    linear_of,
    random_steps,
    refine_rounds,
    start_of,
)
from kdcode.learning.linalg.principal import complete_basis, principal_directions
from kdcode.learning.progress import StepReport
from kdcode.learning.run import Run
from kdcode.learning.solution import Solution
from kdcode.learning.starts import drawn_codes, fresh_start, random_start, warm_start
from kdcode.learning.sum_model import SumModel
from kdcode.learning.training_table import TrainingTable
from kdcode.options import Algorithm1Options, CompressOptions, EncoderOptions, GradientOptions
from kdcode.randomness import random_for

_LSTM_SIGNAL = 0.1
"""Root mean square of codewords in an LSTM that starts as a linear composition; small, so that gates stay linear."""


def learn_by_gradient(
    training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run, device: torch.device | str
) -> Solution:
    """Improved gradients from the chosen start (see `GradientLearner`), then rounds of exact refinement."""
    chosen = cast(GradientOptions, options.learning)
    kind = start_of(spec, chosen)
    with _one_thread():
        if kind == "additive":
            chosen = gently(chosen, training.share.total)
            start = _additive_start(training, spec, options, run)
        else:
            is_fresh = run.resumed_stage is None or run.resumed_stage < GRADIENT
            start = tensor_start(training, spec, options.seed, kind if is_fresh else "random")
        table, start = TensorTable(training, device), _moved(start, device)
        if is_past(run, GRADIENT):
            found = Found(start.codes, start.module)
        else:
            learner = GradientLearner(table, start, chosen, options.seed)
            best = learner.run(run, GRADIENT)
            learner.module.load_state_dict(best.weights)
            found = Found(best.codes, learner.module)
        refined = refine(table, found, refine_rounds(spec, chosen), run, REFINE)
        return solution_of(refined.codes, refined.module)


def learn_by_algorithm_1(
    training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run, device: torch.device | str
) -> Solution:
    """The paper's Algorithm 1 from random logits and fresh weights, and nothing after it."""
    with _one_thread():
        codes = drawn_codes(training.share, spec, random_for(options.seed, "codes"))
        module = make_module(spec, generator=generator_for(options.seed, "start")).to(device)
        start = TensorStart(torch.from_numpy(codes).to(device), module, "random")
        chosen = cast(Algorithm1Options, options.learning)
        learner = Algorithm1Learner(TensorTable(training, device), start, chosen, options.seed)
        return solution_of(learner.run(run, GRADIENT).codes, learner.module)


def learn_by_encoder(
    training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run, device: torch.device | str
) -> Solution:
    """A network's codes (Shu and Nakayama, 2017), then rounds of exact refinement; with none, theirs as it is."""
    chosen = cast(EncoderOptions, options.learning)
    with _one_thread():
        table, start = (
            TensorTable(training, device),
            _moved(tensor_start(training, spec, options.seed, "random"), device),
        )
        encoder = fresh_encoder(table, spec.code_length, spec.codebook_size, options.seed)
        found = Found(start.codes, start.module, encoder)
        if not is_past(run, GRADIENT):
            learner = EncoderLearner(table, encoder, start, chosen, options.seed)
            learner.run(run, GRADIENT)
            best = learner.best
            start.module.load_state_dict(best.weights)
            encoder.load_state_dict(best.encoder)
            found = Found(best.codes, start.module, encoder)
        refined = refine(table, found, refine_rounds(spec, chosen), run, REFINE)
        return solution_of(refined.codes, refined.module, refined.encoder)


def learn_random(
    training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run, device: torch.device | str
) -> Solution:
    """Codes drawn evenly, with the best codewords for them: the paper's control."""
    with _one_thread():
        table, start = TensorTable(training, device), tensor_start(training, spec, options.seed, "random")
        run.begin(REFINE)
        if spec.composition == "lstm":
            sums = module_of(fresh_start(training, linear_of(spec), options.seed).model).to(device)
            solve_if_better(table, start.codes.to(device), sums)
            start = lstm_start(start.codes, sums.codebook.detach().cpu(), spec, options.seed)
        start, total = _moved(start, device), random_steps(spec)
        for step in range(1, total + 1):
            error = solve_if_better(table, start.codes, start.module)
            unused = unused_codewords(start.codes, spec.codebook_size, training.ranks)
            run.after_step(StepReport(step, total, error, 0.0, 0.0, unused))
        return solution_of(start.codes, start.module)


def tensor_start(training: TrainingTable, spec: CodewordSpec, seed: int, kind: str) -> TensorStart:
    """A random or a warm start; an LSTM begins as a sum."""
    if spec.composition != "lstm":
        return TensorStart.of((warm_start if kind == "warm" else random_start)(training, spec, seed))
    linear = linear_of(spec)
    if kind == "warm":
        found = warm_start(training, linear, seed)
        return lstm_start(torch.from_numpy(found.codes), torch.from_numpy(found.model.codebook), spec, seed)._replace(
            origin="warm"
        )
    model = fresh_start(training, linear, seed).model
    mean = training.ranks.all_sum(training.vectors.sum(axis=0)) / training.share.total
    model.codebook += mean / np.float32(spec.code_length)  # an LSTM has no other place for the mean
    codes = torch.from_numpy(drawn_codes(training.share, spec, random_for(seed, "codes")))
    return lstm_start(codes, torch.from_numpy(model.codebook), spec, seed)._replace(origin="random")


def _additive_start(training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run) -> TensorStart:
    """Additive codes, and a codec that starts as theirs."""
    if run.resumed_stage is not None and run.resumed_stage >= GRADIENT:
        # The checkpoint holds codes and weights; what is made here only has their shapes.
        return tensor_start(training, spec, options.seed, "random")._replace(origin="learned")
    found = learn_additive(training, linear_of(spec), options, run)
    codes, model = torch.from_numpy(found.codes), found.model
    if spec.composition == "lstm":
        return lstm_start(codes, torch.from_numpy(model.weights["codebook"]), spec, options.seed)
    return TensorStart(codes, module_of(cast(SumModel, model)), "learned")


def lstm_start(codes: Tensor, words: Tensor, spec: CodewordSpec, seed: int) -> TensorStart:
    """An LSTM that composes nearly what the sums of (D, K, d) codewords do, for learned (N, D) codes."""
    module = cast(LstmModule, make_module(spec, generator=generator_for(seed, "lstm")))
    linear_as_lstm(module, words)
    return TensorStart(codes, module, "learned")


@torch.no_grad()
def linear_as_lstm(module: LstmModule, words: Tensor) -> None:
    """Set an LSTM so that it composes nearly what the sum of (D, K, d) codewords does.

    With small codewords w, no bias and U near zero, every gate is 1/2 and both tanh are straight lines, so
    Σ_j h_j = Σ_l a_l w_l with a_l = (1 − 2^−(D−l+1)) / 2 for l = 1 … D. Codewords divided by a_l and scaled down,
    and an H that scales up again, make the LSTM start as the linear composition that it goes on from.
    """
    spec = module.spec
    left = spec.code_length - torch.arange(spec.code_length, dtype=words.dtype, device=words.device)
    weight = (1 - 2.0**-left) / 2
    short, basis = _factor(words, spec.codeword_dim)
    short = short / weight[:, None, None]
    spread = short[:, :, : words.shape[2]].square().mean().sqrt()  # without what codewords were padded with
    shrink = _LSTM_SIGNAL / spread.clamp_min(1e-12)
    module.codebook.copy_(short * shrink)
    module.basis.copy_(basis / shrink)
    module.recurrent.mul_(0.01)
    module.bias.zero_()


def _factor(words: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """(D, K, d) codewords as (D, K, size) codewords times a (size, d) basis, whose columns or rows are orthonormal."""
    dim = words.shape[2]
    if size >= dim:
        return F.pad(words, (0, size - dim)), torch.eye(size, dim, dtype=words.dtype, device=words.device)
    directions = principal_directions(words.flatten(0, 1).cpu().numpy()).directions
    basis = torch.from_numpy(np.ascontiguousarray(complete_basis(directions, size).T))
    return words @ basis.t(), basis


def _moved(start: TensorStart, device: torch.device | str) -> TensorStart:
    return start._replace(codes=start.codes.to(device), module=start.module.to(device))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch on one thread: operators on small batches gain nothing from more, which only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
