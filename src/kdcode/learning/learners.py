"""Learners: procedures that find codes for a given table. The options name them by the keys of `LEARNERS`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from kdcode.budget import CodeShape
from kdcode.learning.additive import EFFORTS, AdditiveLearner
from kdcode.learning.composition import CompositionModule, LinearComposition
from kdcode.learning.encoder import Encoder, EncoderLearner, fresh_encoder
from kdcode.learning.learner import GradientLearner
from kdcode.learning.least_squares import solve_weights
from kdcode.learning.progress import StepReport
from kdcode.learning.run import Run, State
from kdcode.learning.settle import settle_codes
from kdcode.learning.starts import STARTS, Start, lstm_start, random_start
from kdcode.learning.target import Target, can_shift
from kdcode.options import CompressOptions
from kdcode.table import VectorTable

_SWEEPS_PER_ROUND = 5
_LSTM_SHARE = 5
"""The LSTM goes on from linear codes for a fifth of the epochs, its logits at a fifth of their rate."""


class Solution(NamedTuple):
    """(N, D) codes of any integer type and their composition, in units of `target`, and the network they came from."""

    target: Target
    codes: Tensor
    composition: CompositionModule
    encoder: Encoder | None = None


def learn_additive(table: VectorTable, options: CompressOptions, run: Run, device: torch.device | str) -> Solution:
    """Codes of sums by cooling; see `kdcode.learning.additive`."""
    target, shape = _target(table, options, device)
    # A checkpoint holds codes and weights; what is made in its place only has their shapes.
    make_start = STARTS[options.start_name] if run.resumed_stage is None else random_start
    learner = AdditiveLearner(target, make_start(target, shape, options.seed), options)
    if run.resumed_stage is not None and run.resumed_stage > 0:
        return Solution(target, learner.codes, learner.composition)
    return Solution(target, learner.run(run).codes, learner.composition)


def learn_random(table: VectorTable, options: CompressOptions, run: Run, device: torch.device | str) -> Solution:
    """Codes drawn evenly, with the best codewords for them: the paper's control."""
    target, shape = _target(table, options, device)
    stages = _Stages(target, shape, options, run)
    found = stages.by_gradient(lambda: random_start(target, shape, options.seed), learn_codes=False)
    _solve_if_better(target, found.codes, found.composition)
    return found


def learn_straight_through(
    table: VectorTable, options: CompressOptions, run: Run, device: torch.device | str
) -> Solution:
    """Algorithm 1 from the chosen start, then rounds of exact refits."""
    if _goes_on_from_linear(options):
        return _learn_lstm(table, options, run, device)
    if options.start == "additive":
        return _fine_tune(table, options, run, device)
    target, shape = _target(table, options, device)
    stages = _Stages(target, shape, options, run)
    found = stages.by_gradient(lambda: STARTS[options.start_name](target, shape, options.seed))
    return stages.by_refits(found, rounds=_rounds(options))


def learn_by_encoder(table: VectorTable, options: CompressOptions, run: Run, device: torch.device | str) -> Solution:
    """A network's codes (Shu and Nakayama, 2017), then rounds of exact refits; with settle=0 theirs as it is.

    The options `start`, `choice` and `curvature` are of no use here: there are no free logits.
    """
    target, shape = _target(table, options, device)
    stages = _Stages(target, shape, options, run)
    return stages.by_refits(stages.by_encoder(), rounds=_rounds(options))


Learner = Callable[[VectorTable, CompressOptions, Run, torch.device | str], Solution]
LEARNERS: dict[str, Learner] = {
    "additive": learn_additive,
    "straight-through": learn_straight_through,
    "random": learn_random,
    "encoder": learn_by_encoder,
}
"""The one table of learners."""


def total_steps(table: VectorTable, options: CompressOptions) -> int:
    """Steps of a whole run: updates of all stages, and rounds of additive learning and of refits."""
    num_embeddings = len(table)
    linear_options = options.changed(composition="linear") if options.composition == "lstm" else options
    shape = linear_options.code_shape(num_embeddings, table.embedding_dim)
    additive = len(EFFORTS[options.effort].rounds(shape))
    if options.learner_name == "additive":
        return additive
    per_epoch = -(-num_embeddings // options.batch_size)
    epochs = options.epochs_for(num_embeddings)
    if options.learner_name == "random":
        return per_epoch * epochs
    if options.start == "additive":
        return additive + per_epoch * _gentle_epochs(epochs) + _rounds(options)
    if not _goes_on_from_linear(options):
        return per_epoch * epochs + _rounds(options)
    linear = additive if options.lstm_from == "additive" else per_epoch * epochs + options.settle
    return linear + per_epoch * _gentle_epochs(epochs) + _rounds(options)


def _learn_lstm(table: VectorTable, options: CompressOptions, run: Run, device: torch.device | str) -> Solution:
    """Linear codes first, which learn several times quicker, then the LSTM from there.

    Differs from the paper, which learns with the LSTM from the beginning; `lstm_from="start"` does that.
    """
    target, shape = _target(table, options, device)

    def start() -> Start:
        name = "additive" if options.lstm_from == "additive" else "straight-through"
        linear = LEARNERS[name](table, options.changed(composition="linear", learner=name), run, device)
        linear.target.restore(linear.composition)
        words = _full_words(linear.composition) / target.scale
        return lstm_start(linear.codes, words, shape, options.seed)

    stages = _Stages(target, shape, _gently(options, len(table)), run, first=2)
    return stages.by_refits(stages.by_gradient(start), rounds=_rounds(options))


def _fine_tune(table: VectorTable, options: CompressOptions, run: Run, device: torch.device | str) -> Solution:
    """Additive codes, then Algorithm 1 from there, which may have another loss than squared error."""
    target, shape = _target(table, options, device)

    def start() -> Start:
        found = learn_additive(table, options.changed(learner="additive", start=None), run, device)
        return Start(found.codes, found.composition, settled=True)

    stages = _Stages(target, shape, _gently(options, len(table)), run, first=2)
    return stages.by_refits(stages.by_gradient(start), rounds=_rounds(options))


def _goes_on_from_linear(options: CompressOptions) -> bool:
    return options.composition == "lstm" and options.lstm_from != "start"


def _rounds(options: CompressOptions) -> int:
    """Rounds of refits, which are for squared error; fewer for an LSTM, whose weights take much longer to solve for."""
    if options.loss != "squared":
        return 0
    return min(options.settle, 2) if options.composition == "lstm" else options.settle


def _gentle_epochs(epochs: int) -> int:
    return max(1, epochs // _LSTM_SHARE)


def _gently(options: CompressOptions, num_embeddings: int) -> CompressOptions:
    """The options of a stage that goes on from good codes."""
    return options.changed(
        epochs=_gentle_epochs(options.epochs_for(num_embeddings)),
        logit_rate=options.logit_rate / _LSTM_SHARE,
        codeword_rate=options.codeword_rate / 2,
    )


def _target(table: VectorTable, options: CompressOptions, device: torch.device | str) -> tuple[Target, CodeShape]:
    shape = options.code_shape(len(table), table.embedding_dim)
    centred = can_shift(shape) and options.loss == "squared"  # cosines are those of vectors as they are
    return Target.of(table, centred=centred, device=device), shape


def _full_words(composition: CompositionModule) -> Tensor:
    """(D, K, d) codewords of a linear composition, H folded in."""
    words = composition.codebook.detach()
    if isinstance(composition, LinearComposition) and composition.projection is not None:
        return words @ composition.projection.detach()
    return words


class _Stages:
    """The stages of a learner, by gradient or by an encoder and then by refits, each of which a run may resume in.

    Args:
        target: what to approximate.
        shape: of the solution.
        options: of these stages.
        run: counts the steps and keeps the checkpoint.
        first: number of the first stage, after those that ran before.
    """

    def __init__(self, target: Target, shape: CodeShape, options: CompressOptions, run: Run, first: int = 0) -> None:
        self.target, self.shape, self.options, self.run, self.first = target, shape, options, run, first

    def by_gradient(self, make_start: Callable[[], Start], *, learn_codes: bool = True) -> Solution:
        """Learn from a start; it is not made where the checkpoint is of this stage or a later one."""
        resumed = self.run.resumed_stage
        if resumed is not None and resumed >= self.first:
            # The checkpoint holds codes and weights; what is made here only has their shapes.
            start = random_start(self.target, self.shape, self.options.seed)._replace(settled=self.first > 0)
        else:
            start = make_start()
        if resumed is not None and resumed > self.first:
            return Solution(self.target, start.codes, start.composition)
        learner = GradientLearner(self.target, start, self.options, learn_codes=learn_codes)
        best = learner.run(self.run, self.first)
        learner.composition.load_state_dict(best.weights)
        return Solution(self.target, best.codes, learner.composition)

    def by_encoder(self) -> Solution:
        """Learn a network that gives the codes; where the checkpoint is of a later stage, a fresh one in its place."""
        start = random_start(self.target, self.shape, self.options.seed)
        encoder = fresh_encoder(self.target, self.shape.code_length, self.shape.codebook_size, self.options.seed)
        resumed = self.run.resumed_stage
        if resumed is not None and resumed > self.first:
            return Solution(self.target, start.codes, start.composition, encoder)
        best = EncoderLearner(self.target, encoder, start, self.options).run(self.run, self.first)
        start.composition.load_state_dict(best.weights)
        encoder.load_state_dict(best.encoder)
        return Solution(self.target, best.codes, start.composition, encoder)

    def by_refits(self, found: Solution, rounds: int) -> Solution:
        """Alternate between the best weights for the codes and better codes for the weights; never worse."""
        if rounds == 0:
            return found
        target, codes, composition, encoder = found
        state = self.run.begin(self.first + 1)
        if state is None:
            _solve_if_better(target, codes, composition)
            done = 0
        else:
            codes = state["codes"].to(codes.device)
            composition.load_state_dict(state["weights"])
            if encoder is not None:
                encoder.load_state_dict(state["encoder"])
            done = state["round"]
        for number in range(done + 1, rounds + 1):
            before = codes
            for _ in range(_SWEEPS_PER_ROUND):
                codes = settle_codes(target, codes, composition)
            error = _solve_if_better(target, codes, composition)
            changed = float((codes != before).float().mean())
            used = sum(len(column.unique()) for column in codes.t())
            unused = self.shape.code_length * self.shape.codebook_size - used
            report = StepReport(number, rounds, error, changed, 0.0, unused)
            self.run.after_step(report, partial(_refit_state, number, codes, composition, encoder))
        return Solution(target, codes, composition, encoder)


def _refit_state(number: int, codes: Tensor, composition: CompositionModule, encoder: Encoder | None) -> State:
    network = None if encoder is None else encoder.state_dict()
    return {"round": number, "codes": codes, "weights": composition.state_dict(), "encoder": network}


def _solve_if_better(target: Target, codes: Tensor, composition: CompositionModule) -> float:
    """Solve for the weights, and go back where that did not lower the error."""
    before = target.error(codes, composition)
    weights = {name: value.clone() for name, value in composition.state_dict().items()}
    solve_weights(target, codes, composition)
    after = target.error(codes, composition)
    if after <= before:
        return after
    composition.load_state_dict(weights)
    return before
