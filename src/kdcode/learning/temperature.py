"""The temperature T of the tempering softmax over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kdcode.errors import OptionError
from kdcode.options import CLOCK_NAMES, CompressOptions


class Temperature(Protocol):
    """A schedule."""

    def at(self, update: int, epoch: int) -> float:
        """T for the given update and epoch, both counted from 0 over the whole run."""
        ...


@dataclass(frozen=True)
class ConstantTemperature:
    """T stays where it is."""

    value: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self.value)

    def at(self, update: int, epoch: int) -> float:
        """The same T always."""
        return self.value


@dataclass(frozen=True)
class DecayingTemperature:
    """T_t = T_0 / (1 + decay · t) (Algorithm 1).

    The paper does not say what t counts. A schedule that reaches a low T within the first epochs freezes codes before
    they are any good, so the clock is a choice: `update` or `epoch`.

    Args:
        initial: T_0.
        decay: the paper's decay_rate.
        clock: what t counts.
    """

    initial: float = 1.0
    decay: float = 1.0
    clock: str = "epoch"

    def __post_init__(self) -> None:
        _check_positive(self.initial)
        if not self.decay >= 0:
            raise OptionError(f"the decay of a temperature must be 0 or more, got {self.decay}")
        if self.clock not in CLOCK_NAMES:
            raise OptionError(f"the clock of a temperature must be one of {', '.join(CLOCK_NAMES)}, got {self.clock!r}")

    def at(self, update: int, epoch: int) -> float:
        """T_0 / (1 + decay · t)."""
        return self.initial / (1 + self.decay * (update if self.clock == "update" else epoch))


def temperature_of(options: CompressOptions) -> Temperature:
    """The schedule that the options ask for."""
    if options.temperature_decay > 0:
        return DecayingTemperature(options.temperature, options.temperature_decay, options.temperature_clock)
    return ConstantTemperature(options.temperature)


def _check_positive(value: float) -> None:
    if not value > 0:
        raise OptionError(f"a temperature must be above 0, got {value}")
