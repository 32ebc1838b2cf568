"""Rows in parts, each on a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from threading import Event
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")


def in_parts(work: Callable[[int, int, Event], Result], rows: range, threads: int, least: int) -> list[Result]:
    """What `work` gives for each part of rows that follow one another, in order.

    Args:
        work: called with the first row of a part, the row after its last, and an event that is set when it is to stop:
            the first part, which this thread does, was interrupted or failed.
        rows: all of them.
        threads: how many parts there are at most.
        least: rows that are worth a part.
    """
    stopped = Event()
    parts = max(1, min(threads, len(rows) // least))
    if parts == 1:
        return [work(rows.start, rows.stop, stopped)]
    from concurrent.futures import ThreadPoolExecutor  # which imports `logging` and more; most tables are small

    edges = np.linspace(rows.start, rows.stop, parts + 1).astype(int).tolist()
    with ThreadPoolExecutor(parts - 1) as pool:
        others = [pool.submit(work, first, stop, stopped) for first, stop in pairwise(edges[1:])]
        try:
            return [work(edges[0], edges[1], stopped), *(other.result() for other in others)]
        except BaseException:  # Ctrl-C too
            stopped.set()
            raise
