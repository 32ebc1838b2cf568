"""The temperature schedule of Algorithm 1, counted in updates.

`kdcode.compress` counts t in epochs. Where every update sees all points, as in the clustering experiment, an epoch is
one update.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """T = T0 / (1 + decay · t).

    Args:
        initial: T0.
        decay: how fast T falls; 0 keeps it constant.
    """

    initial: float = 1.0
    decay: float = 0.0

    def at(self, update: int) -> float:
        """T before an update, counted from 0."""
        return self.initial / (1 + self.decay * update)
