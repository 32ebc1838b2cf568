"""What a learner tells its caller while it works. The library draws nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class StepReport:
    """The state of learning after a step: an update by one batch, or a round over all rows.

    Args:
        step: steps done so far, from 1.
        total_steps: steps of the whole run.
        loss: squared error of the rows seen over their share of the table's variance; 1 is the mean vector for all.
        codes_changed: share of their code positions that differ from when the rows were last seen.
        temperature: T of this step; 0 in a round that has none.
        unused_codewords: codewords that no symbol used at the end of the last epoch.
    """

    step: int
    total_steps: int
    loss: float
    codes_changed: float
    temperature: float
    unused_codewords: int


OnStep = Callable[[StepReport], None]
