"""TemperatureSchedule: one call per training step lowers the temperature of all layers that learn codes."""

from __future__ import annotations

from typing import Any

from torch import nn

from kdcode.errors import OptionError
from kdcode.nn.kd_embedding import KDEmbedding


class TemperatureSchedule:
    """Lowers the temperature of a model's layers from one value to another, by the same factor at each step.

    A high temperature lets gradients reach all codewords of a position; a low one only those that are nearly as good as
    the one in use, so that codes settle. Called like a learning rate scheduler of torch:

        schedule = TemperatureSchedule(model, steps=10_000)
        for batch in batches:
            ...
            optimizer.step()
            schedule.step()

    Args:
        model: with one or more `KDEmbedding` layers.
        steps: after how many calls of `step` the last temperature is reached; it stays there.
        start: first temperature.
        end: last temperature.

    Raises:
        OptionError: the model has no such layer, or numbers that are not positive.
    """

    def __init__(self, model: nn.Module, steps: int, *, start: float = 1.0, end: float = 0.5) -> None:
        if steps < 1 or start <= 0 or end <= 0:
            raise OptionError(f"steps, start and end must be positive, got {steps}, {start} and {end}")
        self.layers = [module for module in model.modules() if isinstance(module, KDEmbedding)]
        if not self.layers:
            raise OptionError("the model has no layer that learns codes; use kdcode.nn.KDEmbedding for an embedding")
        self.steps, self.start, self.end = steps, start, end
        self.done = 0
        self._set()

    @property
    def temperature(self) -> float:
        """The temperature of the next step."""
        return float(self.start * (self.end / self.start) ** min(1.0, self.done / self.steps))

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
