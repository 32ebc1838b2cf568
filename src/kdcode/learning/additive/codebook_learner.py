"""Codebooks for rows that are not there yet: codes are sought from nothing, for rows with noise that fades.

A codebook that is annealed with its codes is bad for other rows, for two reasons. Its codewords fit the rows they were
learned from, and the codes that it has for them are not found again by an encoder, which begins with nothing. So here
every round codes all rows as the encoder does, and codewords follow by least squares. Left alone, that ends soon, in
codewords that are means of the same few rows in every round. Noise on the rows before they are coded, but not on what
the codewords are fitted to, moves rows to codes nearby, so that more rows take part in every codeword. Its variance
begins at a few times the error θ that is left in each direction, and falls to little. (LSQ++, Martinez et al., 2018, perturbs rows or codewords to leave local minima; see benchmarks/LOG.md
for what it does here.)
"""

from __future__ import annotations

from dataclasses import dataclass

from kdcode.codec import CodecSpec
from kdcode.learning.additive.annealing import Round
from kdcode.learning.additive.learner import AdditiveLearner

_FIRST, _LAST = 3.0, 0.05
"""Variance of the noise in the first round and in the last, in units of θ."""
_BEAM = 5
"""Partial codes that searches keep per row; more, and sweeps after it, find better codes, but no better codewords."""


@dataclass(frozen=True)
class NoiseSchedule:
    """Rounds with noise whose variance falls in even steps.

    Args:
        rounds: how many.
    """

    rounds: int

    def plan(self, spec: CodecSpec) -> list[Round]:
        """A round without noise, whose error tells the scale of noise; then rounds with it."""
        del spec  # the same for all
        steps = [number / max(1, self.rounds - 1) for number in range(self.rounds)]
        noisy = [Round(beam=_BEAM, noise=_FIRST + (_LAST - _FIRST) * step) for step in steps]
        return [Round(beam=_BEAM, noise=0.0), *noisy]


CODEBOOK_SCHEDULES = {"fast": NoiseSchedule(10), "normal": NoiseSchedule(40), "best": NoiseSchedule(120)}
"""The schedule of each effort that options name."""


class CodebookLearner(AdditiveLearner):
    """Learns codewords for other rows than those of its table; the last round's are kept.

    Errors of rounds with noise do not tell which codewords are better for other rows.
    """

    def _is_kept(self, error: float) -> bool:
        del error
        return True
