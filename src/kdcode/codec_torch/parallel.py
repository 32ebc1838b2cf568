"""Parallel chunks: rows on several threads, each of which runs its operators alone.

That beats sharing every small operator among threads, which is what torch does by itself.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

Item = TypeVar("Item")


class _Section:
    """The parallel section of a process; there is one at a time.

    torch keeps a number of threads for each Python thread and one for all new threads, and `torch.set_num_threads` sets
    both. If sections of two Python threads overlapped, neither could put back what it found.
    """

    lock = threading.Lock()


def parallel_chunks(work: Callable[[Item], None], items: Sequence[Item], device: torch.device) -> None:
    """Call `work` on every item, on as many threads as torch uses; what it writes must not overlap.

    Results cannot depend on the number of threads, as long as `work` depends on its item alone. On devices other
    than the CPU, whose operators are parallel by themselves, items are taken one after another. `work` may not call
    this function itself.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or min(threads, len(items)) <= 1:
        for item in items:
            work(item)
        return
    with _Section.lock:
        torch.set_num_threads(1)  # the threads of the pool take this over at their first operator
        begun: list[Future[None]] = []
        try:
            begun = [_pool(threads).submit(work, item) for item in items]
            for done in begun:
                done.result()
        finally:
            for left in begun:
                left.cancel()
            wait(begun)  # nothing may go on writing after an error or Ctrl-C
            torch.set_num_threads(threads)


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay: to start them takes longer than much of the work that they are given."""
    return ThreadPoolExecutor(threads)


def _after_fork() -> None:
    """A fork has none of the threads, and nobody in it would end a section."""
    _pool.cache_clear()
    _Section.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
