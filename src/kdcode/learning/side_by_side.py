"""Chunks of rows on several threads: each runs its operators alone, which beats sharing every small operator."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import torch

Item = TypeVar("Item")


def side_by_side(work: Callable[[Item], None], items: Sequence[Item], device: torch.device) -> None:
    """Call `work` on every item, on as many threads as torch uses; what it writes must not overlap.

    Results cannot depend on the number of threads, as long as `work` depends on its item alone. On devices other
    than the CPU, whose operators are parallel by themselves, items are taken one after another.
    """
    before = torch.get_num_threads()
    if device.type != "cpu" or min(before, len(items)) <= 1:
        for item in items:
            work(item)
        return
    torch.set_num_threads(1)  # of libraries that count threads once per process
    begun = []
    try:
        begun = [_pool(before).submit(work, item) for item in items]
        for done in begun:
            done.result()
    finally:
        for left in begun:
            left.cancel()
        wait(begun)  # nothing may go on writing after an error or Ctrl-C
        torch.set_num_threads(before)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay: to start them takes longer than much of the work that they are given."""
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has none of the threads
