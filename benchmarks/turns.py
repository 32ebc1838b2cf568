"""Contenders that are timed in turns, so that other work on the machine slows all of them alike."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


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
    """

    call: Callable[[Any], object]
    given: Callable[[Any], Any] = lambda drawn: drawn


class Seconds(NamedTuple):
    """What a call took: time on the clock, and time of the processor in the calling thread."""

    wall: float
    cpu: float


def timed(
    contenders: Mapping[str, Contender], draw: Callable[[int], Iterable[Any]], plan: Plan
) -> dict[str, list[Seconds]]:
    """Seconds per call of each contender, one pair for every turn.

    Args:
        contenders: by name.
        draw: called with a number of calls; gives something new for each.
        plan: how often they are called.
    """
    seconds: dict[str, list[Seconds]] = {name: [] for name in contenders}
    order, shuffled = list(contenders), random.Random(0)
    for turn in range(plan.turns + 1):
        shuffled.shuffle(order)  # so that nobody always follows the same neighbour, and what that left in the caches
        for name in order:
            contender = contenders[name]
            drawn = [contender.given(one) for one in draw(plan.warm + plan.calls)]
            took = _seconds(contender.call, drawn[: plan.warm], drawn[plan.warm :])
            if turn:
                seconds[name].append(Seconds(took.wall / plan.calls, took.cpu / plan.calls))
    return seconds


def _seconds(call: Callable[[Any], object], warm: list[Any], counted: list[Any]) -> Seconds:
    for one in warm:
        call(one)
    started, cpu = time.perf_counter(), time.thread_time()
    for one in counted:
        call(one)
    return Seconds(time.perf_counter() - started, time.thread_time() - cpu)


def times(unit: str, seconds: Iterable[Seconds], scale: float) -> dict[str, float]:
    """The median under the name of its unit, the quartiles beside it, and the median of the processor's time.

    Args:
        unit: such as "ns".
        seconds: one pair for every turn.
        scale: units in a second, divided by what a call does.
    """
    walls, cpus = zip(*seconds, strict=True)
    low, median, high = (scale * one for one in statistics.quantiles(walls, n=4, method="inclusive"))
    return {unit: median, f"{unit}_low": low, f"{unit}_high": high, f"{unit}_cpu": scale * statistics.median(cpus)}
