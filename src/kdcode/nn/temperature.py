"""TemperatureSchedule: one call per training step lowers the temperature of all layers that learn codes."""

from __future__ import annotations

from typing import Any

from torch import nn

from kdcode.errors import OptionError
from kdcode.nn.kd_embedding import KDEmbedding


class TemperatureSchedule:
    """Lowers the temperature of a model's layers from one value to another over a number of steps.

    A high temperature lets gradients reach all codewords of a position; a low one only those that are nearly as good as
    the one in use, so that codes settle. Called like a learning rate scheduler of torch:

        schedule = TemperatureSchedule(model, steps=10_000)
        for batch in batches:
            ...
            optimizer.step()
            schedule.step()

    The default is geometric: T falls by the same factor at each step and reaches `end` after `steps`, so that it ends
    where it should however many steps a task has. The paper's formula is T = start / (1 + decay * t), which
    `TemperatureSchedule(model, decay=1.0)` follows: T is 0.5 after one step and 0.01 after a hundred, when codes hardly
    change any more. The paper does not say what t counts: call `step` after each epoch, or choose a small decay.

    Args:
        model: with one or more `KDEmbedding` layers.
        steps: after how many calls of `step` the last temperature is reached; it stays there.
        start: first temperature.
        end: last temperature; 0.5 by default.
        decay: of the paper's formula, which has no last step and no last temperature; leave `steps` and `end` out.

    Raises:
        OptionError: the model has no such layer, numbers that are not positive, or both `decay` and `steps` or `end`.
    """

    def __init__(
        self,
        model: nn.Module,
        steps: int | None = None,
        *,
        start: float = 1.0,
        end: float | None = None,
        decay: float | None = None,
    ) -> None:
        if (steps is None) == (decay is None) or (end is not None and decay is not None):
            raise OptionError("give steps, or else decay, the paper's formula, which has no end")
        end = 0.5 if end is None else end
        if (steps is not None and steps < 1) or start <= 0 or end <= 0 or (decay is not None and decay <= 0):
            raise OptionError(f"steps, start, end and decay must be positive, got {steps}, {start}, {end} and {decay}")
        self.layers = [module for module in model.modules() if isinstance(module, KDEmbedding)]
        if not self.layers:
            raise OptionError("the model has no layer that learns codes; use kdcode.nn.KDEmbedding for an embedding")
        self.steps, self.start, self.end, self.decay = steps, start, end, decay
        self.done = 0
        self._set()

    @property
    def temperature(self) -> float:
        """The temperature of the next step."""
        if self.decay is not None:
            return float(self.start / (1 + self.decay * self.done))
        return float(self.start * (self.end / self.start) ** min(1.0, self.done / (self.steps or 1)))

    def step(self) -> None:
        """Go on by one step."""
        self.done += 1
        self._set()

    def state_dict(self) -> dict[str, Any]:
        """How many steps were done, for a checkpoint."""
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.done = int(state["done"])
        self._set()

    def _set(self) -> None:
        for layer in self.layers:
            layer.temperature = self.temperature
