"""LEARNERS: procedures that find codes for a training table, each a sequence of stages that a run may resume in."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

from kdcode.codec import CodewordSpec
from kdcode.learning.additive.annealing import SCHEDULES
from kdcode.learning.additive.codebook_learner import CODEBOOK_SCHEDULES, CodebookLearner, left_to_judge
from kdcode.learning.additive.learner import AdditiveLearner
from kdcode.learning.run import Run
from kdcode.learning.solution import Solution, Start
from kdcode.learning.starts import random_start, warm_start
from kdcode.learning.training_table import TrainingTable
from kdcode.options import AdditiveOptions, BatchOptions, CompressOptions, GradientOptions, RefinedOptions

if TYPE_CHECKING:
    import torch

ADDITIVE, GRADIENT, REFINE = range(3)
"""The stages, as checkpoints number them."""

_GENTLE = 5
"""From learned codes, gradients have a fifth of the epochs, and logits a fifth of their learning rate."""
_LSTM_ROUNDS = 2
"""Refinement rounds of an LSTM at most: its weights take much longer to solve for."""


def learn(
    training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run, device: torch.device | str = "cpu"
) -> Solution:
    """Codes for a training table by the learner that options name; those by gradient need torch, and use the device."""
    if not options.needs_torch:
        return learn_additive(training, spec, options, run)
    learner = getattr(import_module("kdcode.learning.gradient.learners"), LEARNERS[options.learning.name])
    return cast(Solution, learner(training, spec, options, run, device))


def learn_additive(training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run) -> Solution:
    """Codes of sums by simulated annealing; see `kdcode.learning.additive`."""
    start = _start(training, spec, options.seed, run)
    if is_past(run, ADDITIVE):
        return Solution(start.codes, start.model)
    learner = AdditiveLearner(training, start, SCHEDULES[options.effort], options.seed)
    return Solution(learner.run(run, ADDITIVE).codes, learner.model)


def learn_codewords(training: TrainingTable, spec: CodewordSpec, options: CompressOptions, run: Run) -> Solution:
    """Codewords of sums for rows that are not in the table; see `kdcode.learning.additive.codebook_learner`."""
    learned, judged = left_to_judge(training, options.seed)
    start = _start(learned, spec, options.seed, run)
    learner = CodebookLearner(learned, judged, start, CODEBOOK_SCHEDULES[options.effort], options.seed)
    return Solution(learner.run(run, ADDITIVE).codes, learner.model)


def codeword_work(spec: CodewordSpec, effort: str) -> dict[int, list[float]]:
    """What `stage_work` gives, for a run of `learn_codewords`."""
    return {ADDITIVE: [planned.work for planned in CODEBOOK_SCHEDULES[effort].plan(spec)]}


_SUM_WORK, _LSTM_WORK = (5.0, 20.0), (35.0, 1000.0)
"""An epoch of updates and a round of refinement, in visits to all positions; measured with 5,000 and 10,000 rows."""

LEARNERS = {
    "additive": "learn_additive",
    "straight-through": "learn_by_gradient",
    "algorithm-1": "learn_by_algorithm_1",
    "encoder": "learn_by_encoder",
    "random": "learn_random",
}
"""The function of each learner that options know; all but the first are in `kdcode.learning.gradient`."""


def stage_work(num_embeddings: int, spec: CodewordSpec, options: CompressOptions) -> dict[int, list[float]]:
    """The stages of a whole run, and how long each of their steps takes, roughly: updates, and rounds over all rows.

    The unit is a visit to all positions of all rows, as in `Round.work`.
    """
    chosen = options.learning
    if isinstance(chosen, AdditiveOptions):
        return {ADDITIVE: [planned.work for planned in SCHEDULES[options.effort].plan(spec)]}
    if not isinstance(chosen, BatchOptions):
        return {REFINE: [1.0] * random_steps(spec)}
    stages: dict[int, list[float]] = {}
    if isinstance(chosen, GradientOptions) and start_of(spec, chosen) == "additive":
        stages[ADDITIVE] = [planned.work for planned in SCHEDULES[options.effort].plan(linear_of(spec))]
        chosen = gently(chosen, num_embeddings)
    per_epoch, per_round = _LSTM_WORK if spec.composition == "lstm" else _SUM_WORK
    batches = -(-num_embeddings // chosen.batch_size)
    stages[GRADIENT] = [per_epoch / batches] * (batches * chosen.epochs_for(num_embeddings))
    if not isinstance(chosen, RefinedOptions):
        return stages
    return {**stages, REFINE: [per_round] * refine_rounds(spec, chosen)}


def start_of(spec: CodewordSpec, options: GradientOptions) -> str:
    """The start that is asked for, or else the one that suits the composition.

    Differs from the paper, which learns an LSTM from random codes; linear codes learn several times quicker.
    """
    return options.start or ("additive" if spec.composition == "lstm" else "random")


def linear_of(spec: CodewordSpec) -> CodewordSpec:
    """The sum of codewords that an LSTM starts from; a sum's own spec."""
    if spec.composition != "lstm":
        return spec
    return CodewordSpec.named("linear", spec.embedding_dim, spec.codebook_size, spec.code_length)


def _start(training: TrainingTable, spec: CodewordSpec, seed: int, run: Run) -> Start:
    """Where annealing starts; where a run resumes, with the right shapes alone."""
    return (warm_start if run.resumed_stage is None else random_start)(training, spec, seed)


def is_past(run: Run, stage: int) -> bool:
    """Whether a run resumes in a later stage, whose checkpoint holds what this one found."""
    return run.resumed_stage is not None and run.resumed_stage > stage


def refine_rounds(spec: CodewordSpec, chosen: RefinedOptions) -> int:
    """How many rounds of refinement a run has."""
    return min(chosen.refine_rounds, _LSTM_ROUNDS) if spec.composition == "lstm" else chosen.refine_rounds


def random_steps(spec: CodewordSpec) -> int:
    """How often weights are solved for where codes are drawn: once where the solution is exact."""
    return 2 if spec.composition == "lstm" or (spec.basis and not spec.is_rotated) else 1


def gently(options: GradientOptions, num_embeddings: int) -> GradientOptions:
    """The options of a stage that goes on from learned codes."""
    return replace(
        options,
        epochs=max(1, options.epochs_for(num_embeddings) // _GENTLE),
        logit_lr=options.logit_lr / _GENTLE,
        codeword_lr=options.codeword_lr / 2,
    )
