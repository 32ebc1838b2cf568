"""Parallel chunks: rows on several threads, each of which runs its operators alone.

torch shares every operator among threads that wait for each other at its end. They wait by spinning, so on a machine
with other work, or with fewer free cores than threads, most of the time is lost to threads that keep a core busy while
they wait for one that has none. Here a few threads take whole chunks of rows, one after another, and sleep when there
are none left. An operator outside of chunks runs on one thread.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

from kdcode import threads
from kdcode.cpus import available_cpus
from kdcode.errors import OptionError

Item = TypeVar("Item")


class _Chosen(threading.local):
    """Threads for chunks, chosen by the Python thread that asks; None outside of `using_threads`."""

    count: int | None = None


_chosen = _Chosen()


class _Setting:
    lock = threading.Lock()
    """Held while torch's number of threads for new Python threads is not what it was."""


def default_threads() -> int:
    """Threads for chunks where none are asked for: what torch would use, and no more than CPUs may be used.

    torch counts the cores of the machine and does not see the CPU quota of a container. `OMP_NUM_THREADS` and
    `torch.set_num_threads` are respected.
    """
    return _chosen.count or min(_own_threads(), available_cpus())


@contextmanager
def using_threads(count: int | None = None) -> Iterator[int]:
    """Within the block, run chunks on so many threads, and all other operators of this Python thread on one.

    Operators of other Python threads run as before, and those of this one when the block ends. Results do not depend
    on the number of threads.

    Args:
        count: threads at most; `default_threads()` if None, which inside another block is what that one has.

    Raises:
        OptionError: less than one thread.
    """
    if count is not None and count < 1:
        raise OptionError(f"threads must be an integer from 1, got {count}")
    count = count or default_threads()
    chosen_before, own_before = _chosen.count, _own_threads()
    _chosen.count = count
    _set_own_threads(1)
    try:
        with threads.using_threads(count):
            yield count
    finally:
        _chosen.count = chosen_before
        _set_own_threads(own_before)


def parallel_chunks(work: Callable[[Item], None], items: Sequence[Item], device: torch.device) -> None:
    """Call `work` on every item, on the threads of `using_threads`, or else on as many as torch uses.

    What the calls write must not overlap. Results cannot depend on the number of threads, as long as `work` depends on
    its item alone. On devices other than the CPU, whose operators are parallel by themselves, items are taken one after
    another.
    """
    count = _chosen.count or _own_threads()
    if device.type != "cpu" or min(count, len(items)) <= 1:
        for item in items:
            work(item)
        return
    begun: list[Future[None]] = []
    try:
        pool = _pool(count)
        begun = [pool.submit(work, item) for item in items]
        for done in begun:
            done.result()
    finally:
        for left in begun:
            left.cancel()
        wait(begun)  # nothing may go on writing after an error or Ctrl-C


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay, and run their operators alone: to start them takes longer than much of their work."""
    pool, meeting = ThreadPoolExecutor(threads, "kdcode"), threading.Barrier(threads)

    def begin() -> None:
        torch.get_num_threads()  # from here on this thread keeps the number of new threads, which is 1
        meeting.wait()  # so that each thread begins once

    def start(others: int) -> None:
        torch.set_num_threads(1)
        try:
            wait([pool.submit(begin) for _ in range(threads)])
        finally:
            torch.set_num_threads(others)

    with _Setting.lock:
        others = _in_another_thread(torch.get_num_threads)
        _in_another_thread(lambda: start(others))
    return pool


def _own_threads() -> int:
    """How many threads the operators of this Python thread use; a new one must not look while the number is changed."""
    with _Setting.lock:
        return torch.get_num_threads()


def _set_own_threads(count: int) -> None:
    """Set how many threads the operators of this Python thread use, and of no other.

    torch keeps that number for each Python thread that has run an operator, and one for all that have not yet.
    `torch.set_num_threads` sets both, so another thread puts the second back.
    """
    if _own_threads() == count:
        return
    with _Setting.lock:
        others = _in_another_thread(torch.get_num_threads)
        torch.set_num_threads(count)
        _in_another_thread(lambda: torch.set_num_threads(others))


def _in_another_thread(call: Callable[[], Item]) -> Item:
    with ThreadPoolExecutor(1) as another:
        return another.submit(call).result()


def _after_fork() -> None:
    """A fork has none of the threads, and nobody in it would release a lock that was held."""
    _pool.cache_clear()
    _Setting.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
