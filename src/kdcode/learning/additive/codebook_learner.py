"""Codebooks for rows that are not there yet: codes are sought from nothing, for rows with noise that fades.

A codebook that is annealed with its codes is bad for other rows, for two reasons. Its codewords fit the rows they were
learned from, and the codes that it has for them are not found again by an encoder, which begins with nothing. So here
every round codes all rows as the encoder does, and codewords follow by least squares. Left alone, that ends soon, in
codewords that are means of the same few rows in every round. Noise on the rows before they are coded, but not on what
the codewords are fitted to, moves rows to codes nearby, so that more rows take part in every codeword. Its variance
begins at a few times the error θ that is left in each direction, and falls to little. (LSQ++, Martinez et al., 2018,
perturbs rows or codewords to leave local minima; benchmarks/LOG.md tells what it does here.) A few rows are not learned
from at all, and tell which round's codewords are the best for others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdcode.codec import CodewordSpec
from kdcode.codec.sum_search import SumSearch
from kdcode.learning.additive.annealing import SCHEDULES, Round, Schedule
from kdcode.learning.additive.learner import AdditiveLearner
from kdcode.learning.solution import Start
from kdcode.learning.training_table import TrainingTable
from kdcode.randomness import random_for

_FIRST, _ANNEALED, _LAST = 3.0, 0.5, 0.05
"""Variance of the noise in the first round, from a warm start and from annealed codes, and in the last; all in units of
θ."""
_BEAM = 5
"""Partial codes that searches keep per row; more, and sweeps after it, find better codes, but no better codewords."""
_JUDGED, _FEWEST_JUDGED, _MOST_JUDGED = 40, 10, 2000
"""One of so many rows is left to judge by, unless these are too few, and at most so many."""


@dataclass(frozen=True)
class NoiseSchedule:
    """Rounds with noise whose variance falls in even steps.

    Args:
        rounds: how many.
        annealing: the rounds before them, for product codes with a rotation. Their codes need no search, and a rotation
            is learned better from codes that were annealed.
    """

    rounds: int
    annealing: Schedule

    def plan(self, spec: CodewordSpec) -> list[Round]:
        """A round without noise, whose error tells the scale of noise; then rounds with it."""
        if spec.is_rotated and spec.groups == spec.code_length > 1:
            return [*self.annealing.plan(spec), *_fading(_ANNEALED, -(-self.rounds // 4))]
        return [Round(beam=_BEAM, noise=0.0), *_fading(_FIRST, self.rounds)]


CODEBOOK_SCHEDULES = {
    effort: NoiseSchedule(rounds, SCHEDULES[effort]) for effort, rounds in (("fast", 10), ("normal", 40), ("best", 120))
}
"""The schedule of each effort that options name."""


def _fading(first: float, rounds: int) -> list[Round]:
    steps = [number / max(1, rounds - 1) for number in range(rounds)]
    return [Round(beam=_BEAM, noise=first + (_LAST - first) * step) for step in steps]


class CodebookLearner(AdditiveLearner):
    """Learns codewords for other rows than those of its table; the ones that are best for rows to judge by are kept.

    Args:
        training: what to learn from.
        judged: rows that are not among them, which every round codes from nothing; their error is what counts.
        start: where to start; its model is changed in place.
        schedule: how long to search.
        seed: of everything random.
    """

    def __init__(
        self, training: TrainingTable, judged: TrainingTable, start: Start, schedule: NoiseSchedule, seed: int
    ) -> None:
        self.judged = judged
        super().__init__(training, start, schedule, seed)

    def _error(self) -> float:
        vectors = self.model.coordinates(self.judged.vectors)
        found = [
            SumSearch(self.model.words(block)).encode(vectors[:, block.columns], beam=_BEAM)
            for block in self.spec.blocks
        ]
        return self.judged.error(np.concatenate(found, axis=1), self.model)


def left_to_judge(training: TrainingTable, seed: int) -> tuple[TrainingTable, TrainingTable]:
    """The rows to learn from, and others to judge by; all rows for both where they are few."""
    count = min(len(training) // _JUDGED, _MOST_JUDGED)
    if count < _FEWEST_JUDGED:
        return training, training
    order = random_for(seed, "judged").permutation(len(training))
    return training.some(np.sort(order[count:])), training.some(np.sort(order[:count]))
