"""Contenders that are timed in turns, so that other work on the machine slows all of them alike."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kdcode import compiled


class Plan(NamedTuple):
    """How often contenders are called.

    Args:
        turns: of every contender; there is one more before them, which does not count.
        warm: calls at the start of a turn that are not timed: a server does one thing all day, and has its tables in
            the caches of the processor.
        calls: timed, in a row.
    """

    turns: int
    warm: int
    calls: int


@dataclass(frozen=True)
class Contender:
    """One of those that are compared.

    Args:
        call: what is timed.
        given: makes what `call` takes from what was drawn, before the clock starts.
        setting: of kdcode's compiled code while it is called, as in `kdcode.compiled.using`.
    """

    call: Callable[[Any], object]
    given: Callable[[Any], Any] = lambda drawn: drawn
    setting: str = compiled.ALWAYS


def timed(
    contenders: Mapping[str, Contender], draw: Callable[[int], Iterable[Any]], plan: Plan
) -> dict[str, list[float]]:
    """Seconds per call of each contender, one number for every turn.

    Args:
        contenders: by name.
        draw: called with a number of calls; gives something new for each.
        plan: how often they are called.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    order, shuffled = list(contenders), random.Random(0)
    for turn in range(plan.turns + 1):
        shuffled.shuffle(order)  # so that nobody always follows the same neighbour, and what that left in the caches
        for name in order:
            contender = contenders[name]
            drawn = [contender.given(one) for one in draw(plan.warm + plan.calls)]
            with compiled.using(contender.setting):
                took = _seconds(contender.call, drawn[: plan.warm], drawn[plan.warm :])
            if turn:
                seconds[name].append(took / plan.calls)
    return seconds


def _seconds(call: Callable[[Any], object], warm: list[Any], counted: list[Any]) -> float:
    for one in warm:
        call(one)
    started = time.perf_counter()
    for one in counted:
        call(one)
    return time.perf_counter() - started


def quartiles(unit: str, values: Iterable[float]) -> dict[str, float]:
    """The median under the name of its unit, and the quartiles beside it."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {unit: median, f"{unit}_low": low, f"{unit}_high": high}
