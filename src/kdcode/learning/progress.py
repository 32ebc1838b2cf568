"""What a learner tells its caller while it works. The library draws nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class StepReport:
    """The state of learning after an update.

    Args:
        step: updates done so far, from 1.
        total_steps: updates of the whole run.
        loss: squared error of the batch over its share of the table's variance; 1 is as good as the mean vector.
        codes_changed: share of the batch's code positions that differ from when the row was last seen.
        temperature: T of this update.
        unused_codewords: codewords that no symbol used at the end of the last epoch.
    """

    step: int
    total_steps: int
    loss: float
    codes_changed: float
    temperature: float
    unused_codewords: int


OnStep = Callable[[StepReport], None]
