"""LEARNERS: procedures that find codes for a training table, each a sequence of stages that a run may resume in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from kdcode.codec import CodewordSpec
from kdcode.codec_torch import make_module
from kdcode.codec_torch.randomness import generator_for
from kdcode.learning.additive.annealing import SCHEDULES
from kdcode.learning.additive.codebook_learner import CODEBOOK_SCHEDULES, CodebookLearner, left_to_judge
from kdcode.learning.additive.learner import AdditiveLearner
from kdcode.learning.gradient.algorithm_1 import Algorithm1Learner
from kdcode.learning.gradient.encoder import fresh_encoder
from kdcode.learning.gradient.encoder_learner import EncoderLearner
from kdcode.learning.gradient.learner import GradientLearner
from kdcode.learning.gradient.refinement import refine, solve_if_better
from kdcode.learning.progress import StepReport
from kdcode.learning.run import Run
from kdcode.learning.solution import Solution, Start, unused_codewords
from kdcode.learning.starts import fresh_start, lstm_start, random_start, warm_start
from kdcode.learning.training_table import TrainingTable
from kdcode.options import (
    AdditiveOptions,
    Algorithm1Options,
    BatchOptions,
    CompressOptions,
    EncoderOptions,
    GradientOptions,
    RefinedOptions,
)

_ADDITIVE, _GRADIENT, _REFINE = range(3)
"""The stages, as checkpoints number them."""

_GENTLE = 5
"""From learned codes, gradients have a fifth of the epochs, and logits a fifth of their learning rate."""
_LSTM_ROUNDS = 2
"""Refinement rounds of an LSTM at most: its weights take much longer to solve for."""


def learn_additive(training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run) -> Solution:
    """Codes of sums by simulated annealing; see `kdcode.learning.additive`."""
    start = _start(training, spec, options.seed, run, _ADDITIVE, warm_start)
    if _is_past(run, _ADDITIVE):
        return Solution(start.codes, start.module)
    learner = AdditiveLearner(training, start, SCHEDULES[options.effort], options.seed)
    return Solution(learner.run(run, _ADDITIVE).codes, learner.module)


def learn_codewords(training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run) -> Solution:
    """Codewords of sums for rows that are not in the table; see `kdcode.learning.additive.codebook_learner`."""
    learned, judged = left_to_judge(training, options.seed)
    start = _start(learned, spec, options.seed, run, _ADDITIVE, warm_start)
    learner = CodebookLearner(learned, judged, start, CODEBOOK_SCHEDULES[options.effort], options.seed)
    return Solution(learner.run(run, _ADDITIVE).codes, learner.module)


def codeword_work(spec: CodewordSpec, effort: str) -> dict[int, list[float]]:
    """What `stage_work` gives, for a run of `learn_codewords`."""
    return {_ADDITIVE: [planned.work for planned in CODEBOOK_SCHEDULES[effort].plan(spec)]}


def learn_by_gradient(training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run) -> Solution:
    """Improved gradients from the chosen start (see `GradientLearner`), then rounds of exact refinement."""
    chosen = cast(GradientOptions, options.learning)
    make_start = {"random": random_start, "warm": warm_start, "additive": None}[start_of(spec, chosen)]
    if make_start is None:
        chosen = _gently(chosen, training.share.total)
        start = _additive_start(training, spec, options, run)
    else:
        start = _start(training, spec, options.seed, run, _GRADIENT, make_start)
    if _is_past(run, _GRADIENT):
        found = Solution(start.codes, start.module)
    else:
        learner = GradientLearner(training, start, chosen, options.seed)
        best = learner.run(run, _GRADIENT)
        learner.module.load_state_dict(best.weights)
        found = Solution(best.codes, learner.module)
    return refine(training, found, _refine_rounds(spec, chosen), run, _REFINE)


def learn_by_algorithm_1(training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run) -> Solution:
    """The paper's Algorithm 1 from random logits and fresh weights, and nothing after it."""
    start = fresh_start(training, spec, options.seed)
    learner = Algorithm1Learner(training, start, cast(Algorithm1Options, options.learning), options.seed)
    return Solution(learner.run(run, _GRADIENT).codes, learner.module)


def learn_by_encoder(training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run) -> Solution:
    """A network's codes (Shu and Nakayama, 2017), then rounds of exact refinement; with none, theirs as it is."""
    chosen = cast(EncoderOptions, options.learning)
    start = random_start(training, spec, options.seed)
    encoder = fresh_encoder(training, spec.code_length, spec.codebook_size, options.seed)
    found = Solution(start.codes, start.module, encoder)
    if not _is_past(run, _GRADIENT):
        learner = EncoderLearner(training, encoder, start, chosen, options.seed)
        learner.run(run, _GRADIENT)
        best = learner.best
        start.module.load_state_dict(best.weights)
        encoder.load_state_dict(best.encoder)
        found = Solution(best.codes, start.module, encoder)
    return refine(training, found, _refine_rounds(spec, chosen), run, _REFINE)


def learn_random(training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run) -> Solution:
    """Codes drawn evenly, with the best codewords for them: the paper's control."""
    start = random_start(training, spec, options.seed)
    run.begin(_REFINE)
    if spec.composition == "lstm":
        sums = make_module(_linear(spec), generator=generator_for(options.seed, "start")).to(start.codes.device)
        solve_if_better(training, start.codes, sums)
        start = lstm_start(start.codes, sums.codebook.detach(), spec, options.seed)
    total = _random_steps(spec)
    for step in range(1, total + 1):
        error = solve_if_better(training, start.codes, start.module)
        unused = unused_codewords(start.codes, spec.codebook_size, training.ranks)
        run.after_step(StepReport(step, total, error, 0.0, 0.0, unused))
    return Solution(start.codes, start.module)


_SUM_WORK, _LSTM_WORK = (5.0, 20.0), (35.0, 1000.0)
"""An epoch of updates and a round of refinement, in visits to all positions; measured with 5,000 and 10,000 rows."""

Learner = Callable[[TrainingTable, CodewordSpec, CompressOptions, Run], Solution]
LEARNERS: dict[str, Learner] = {
    "additive": learn_additive,
    "straight-through": learn_by_gradient,
    "algorithm-1": learn_by_algorithm_1,
    "encoder": learn_by_encoder,
    "random": learn_random,
}
"""The learner of each name that options know."""


def stage_work(num_embeddings: int, spec: CodewordSpec, options: CompressOptions) -> dict[int, list[float]]:
    """The stages of a whole run, and how long each of their steps takes, roughly: updates, and rounds over all rows.

    The unit is a visit to all positions of all rows, as in `Round.work`.
    """
    chosen = options.learning
    if isinstance(chosen, AdditiveOptions):
        return {_ADDITIVE: [planned.work for planned in SCHEDULES[options.effort].plan(spec)]}
    if not isinstance(chosen, BatchOptions):
        return {_REFINE: [1.0] * _random_steps(spec)}
    stages: dict[int, list[float]] = {}
    if isinstance(chosen, GradientOptions) and start_of(spec, chosen) == "additive":
        stages[_ADDITIVE] = [planned.work for planned in SCHEDULES[options.effort].plan(_linear(spec))]
        chosen = _gently(chosen, num_embeddings)
    per_epoch, per_round = _LSTM_WORK if spec.composition == "lstm" else _SUM_WORK
    batches = -(-num_embeddings // chosen.batch_size)
    stages[_GRADIENT] = [per_epoch / batches] * (batches * chosen.epochs_for(num_embeddings))
    if not isinstance(chosen, RefinedOptions):
        return stages
    return {**stages, _REFINE: [per_round] * _refine_rounds(spec, chosen)}


def start_of(spec: CodewordSpec, options: GradientOptions) -> str:
    """The start that is asked for, or else the one that suits the composition.

    Differs from the paper, which learns an LSTM from random codes; linear codes learn several times quicker.
    """
    return options.start or ("additive" if spec.composition == "lstm" else "random")


def _additive_start(training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run) -> Start:
    """Additive codes, and a codec that starts as theirs."""
    if run.resumed_stage is not None and run.resumed_stage > _ADDITIVE:
        # The checkpoint holds codes and weights; what is made here only has their shapes.
        return random_start(training, spec, options.seed)._replace(origin="learned")
    found = learn_additive(training, _linear(spec), options, run)
    if spec.composition == "lstm":
        return lstm_start(found.codes, found.module.codebook.detach(), spec, options.seed)
    return Start(found.codes, found.module, "learned")


def _linear(spec: CodewordSpec) -> CodewordSpec:
    """The sum of codewords that an LSTM starts from; a sum's own spec."""
    if spec.composition != "lstm":
        return spec
    return CodewordSpec.named("linear", spec.embedding_dim, spec.codebook_size, spec.code_length)


def _start(
    training: TrainingTable,
    spec: CodewordSpec,
    seed: int,
    run: Run,
    stage: int,
    make: Callable[[TrainingTable, CodewordSpec, int], Start],
) -> Start:
    """The start of a stage; where the run resumes in it or later, one that only has the right shapes."""
    is_fresh = run.resumed_stage is None or run.resumed_stage < stage
    return (make if is_fresh else random_start)(training, spec, seed)


def _is_past(run: Run, stage: int) -> bool:
    """Whether a run resumes in a later stage, whose checkpoint holds what this one found."""
    return run.resumed_stage is not None and run.resumed_stage > stage


def _refine_rounds(spec: CodewordSpec, chosen: RefinedOptions) -> int:
    return min(chosen.refine_rounds, _LSTM_ROUNDS) if spec.composition == "lstm" else chosen.refine_rounds


def _random_steps(spec: CodewordSpec) -> int:
    return 2 if spec.composition == "lstm" or (spec.basis and not spec.is_rotated) else 1


def _gently(options: GradientOptions, num_embeddings: int) -> GradientOptions:
    """The options of a stage that goes on from learned codes."""
    return replace(
        options,
        epochs=max(1, options.epochs_for(num_embeddings) // _GENTLE),
        logit_lr=options.logit_lr / _GENTLE,
        codeword_lr=options.codeword_lr / 2,
    )
