"""Simulated annealing over codes: rounds of sweeps at a falling temperature, and the scale of that temperature.

Plain descent (ICM) ends soon and high, wherever it starts. LSQ++ (Martinez et al., 2018) adds noise to codewords that
fades over the rounds. Here codes are drawn at a temperature (Gibbs sampling), high at first, until nothing is left of
the start, then lower in small steps, while codewords follow.

The temperature scale follows from the table by rate-distortion theory: the best codes lower a row's squared error by 2θ
for every nat that they are longer, where θ is the error that is left in each direction (the water level of reverse
water-filling). Around T = 2θ, the critical temperature, codes freeze.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kdcode.arrays import DoubleArray
from kdcode.codec import CodewordSpec

_BEAM = 5
"""Partial codes that the first search keeps per row."""
_SHORT = 8
"""Positions of a sum for which beam search alone finds good codes."""
_HIGH, _WARM, _LOW = 2.8, 1.0, 0.4
"""Initial temperature from random codes and from good ones, and the final one, at which codes hardly change.
All are in units of the critical temperature."""
_WARM_SWEEPS = 2
_FEW_STEPS = 4
"""Conjugate gradient steps of a codebook update, where the next round changes the codes anyway."""


class Round(NamedTuple):
    """One search for codes and one codebook update.

    Args:
        temperatures: of the sweeps, in units of the critical temperature; infinity draws codes evenly.
        beam: partial codes kept per row, where beam search looks for codes in place of sweeps; else 0.
        descent: whether the sweeps are ICM, and a row takes a new code only where it is nearer.
        steps: conjugate gradient steps of the codebook update; None solves it exactly.
        noise: variance of the noise on the rows whose codes are sought, in units of half the critical temperature;
            codes are then sought from nothing, as an encoder does. None leaves rows alone, and goes on from codes.
    """

    temperatures: tuple[float, ...] = ()
    beam: int = 0
    descent: bool = False
    steps: int | None = _FEW_STEPS
    noise: float | None = None

    @property
    def work(self) -> float:
        """How long it takes: a codebook update takes about as long as two sweeps, and so does a beam of four."""
        return len(self.temperatures) + 2 + self.beam // 2


class RoundPlan(Protocol):
    """What says which rounds a learner has."""

    def plan(self, spec: CodewordSpec) -> list[Round]:
        """The rounds for a codec, in their order."""
        ...


_LLOYD = Round((0.0,), descent=True, steps=None)


@dataclass(frozen=True)
class Schedule:
    """How long to search: first from the warm start, at moderate temperatures, then from random codes.

    The second is better where it has time, the first where codes are long. The better of the two is kept.

    Args:
        warm: rounds of annealing from the warm start. Where codes are so short that beam search finds good ones, there
            are none of them.
        rounds: rounds of annealing from random codes.
        sweeps: visits to every position in such a round.
    """

    warm: int = 0
    rounds: int = 0
    sweeps: int = 2

    def plan(self, spec: CodewordSpec) -> list[Round]:
        """Beam search, whose error tells the temperature scale; then annealing and descent, once or twice.

        A product code needs no search, since the nearest codeword of each block is the best: Lloyd steps follow the
        warm start. Annealing from random codes is for its rotation; without one it gains hardly anything.
        """
        descent = Round((0.0,) * 4, descent=True, steps=None)
        planned = [Round(beam=_BEAM)]
        is_product = spec.groups == spec.code_length > 1
        if is_product and not spec.basis:
            return planned + [_LLOYD] * (self.warm + 2 + self.rounds // 3)
        if is_product:
            planned += [_LLOYD] * (self.warm + 2)
        elif self.warm and not (spec.groups == 1 and not spec.basis and spec.code_length <= _SHORT):
            planned += [*_annealing(_WARM, self.warm, _WARM_SWEEPS), descent, descent]
        if self.rounds:
            planned += [Round((math.inf,)), *_annealing(_HIGH, self.rounds, self.sweeps), descent, descent]
        return planned


SCHEDULES = {
    "fast": Schedule(warm=4),
    "normal": Schedule(warm=4, rounds=60, sweeps=3),
    "best": Schedule(warm=4, rounds=200, sweeps=4),
}
"""The schedule of each effort that options name."""


def _annealing(first: float, rounds: int, sweeps: int) -> list[Round]:
    """Rounds whose temperature falls in even steps."""
    steps = [number / max(1, rounds - 1) for number in range(rounds)]
    return [Round((first + (_LOW - first) * step,) * sweeps) for step in steps]


def water_level(variances: DoubleArray, error: float) -> float:
    """The θ with Σ min(θ, λ) = error over the (d,) variances λ of a table's principal directions."""
    low, high = 0.0, float(variances.max())
    for _ in range(60):
        middle = (low + high) / 2
        if float(variances.clip(0, middle).sum()) < error:
            low = middle
        else:
            high = middle
    return high
