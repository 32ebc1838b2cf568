"""Chunks of rows on several threads, and the BLAS of numpy on one thread meanwhile."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from kdcode.cpus import available_cpus
from kdcode.errors import OptionError

Item = TypeVar("Item")

_BLAS_THREADS = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads")
"""Functions that OpenBLAS, which numpy's wheels bring, is asked and told by."""


class _Chosen(threading.local):
    """Threads for chunks, chosen by the Python thread that asks; None outside of `using_threads`."""

    count: int | None = None


_chosen = _Chosen()


def default_threads() -> int:
    """Threads for chunks where none are asked for: `OMP_NUM_THREADS`, and no more than CPUs may be used."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return _chosen.count or min(int(asked) if asked.isdecimal() and int(asked) else 1 << 16, available_cpus())


@contextmanager
def using_threads(count: int | None = None) -> Iterator[int]:
    """Within the block, run chunks on `count` threads, and matrix products on one. Results do not depend on it.

    Args:
        count: threads at most; `default_threads()` if None, which inside another block is what that one has.

    Raises:
        OptionError: less than one thread.
    """
    if count is not None and count < 1:
        raise OptionError(f"threads must be an integer from 1, got {count}")
    before, _chosen.count = _chosen.count, count or default_threads()
    _Blas.hold_back()
    try:
        yield _chosen.count
    finally:
        _Blas.let_go()
        _chosen.count = before


def parallel_chunks(work: Callable[[Item], None], items: Sequence[Item], threads: int | None = None) -> None:
    """Call `work` on every item, on as many threads as `using_threads` says, or else `threads` or `default_threads`.

    What the calls write must not overlap. Results cannot depend on the number of threads, as long as `work` depends on
    its item alone.
    """
    threads = min(_chosen.count or threads or default_threads(), len(items))
    if threads <= 1:
        for item in items:
            work(item)
        return
    begun: list[Future[None]] = []
    try:
        pool = _pool(threads)
        begun = [pool.submit(work, item) for item in items]
        for done in begun:
            done.result()
    finally:
        for left in begun:
            left.cancel()
        wait(begun)  # nothing may go on writing after an error or Ctrl-C


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "kdcode", _work_alone)


def _work_alone() -> None:
    _chosen.count = 1  # chunks within chunks: those who wait for them must not take the place of those who work


class _Blas:
    """The threads of OpenBLAS: one while anybody is in `using_threads`, then as many as before."""

    lock = threading.Lock()
    holders = 0
    before = 1

    @classmethod
    def hold_back(cls) -> None:
        with cls.lock:
            cls.holders += 1
            found = _blas_functions()
            if cls.holders == 1 and found is not None:
                cls.before = found[0]()
                found[1](1)

    @classmethod
    def let_go(cls) -> None:
        with cls.lock:
            cls.holders -= 1
            found = _blas_functions()
            if cls.holders == 0 and found is not None:
                found[1](cls.before)


@functools.cache
def _blas_functions() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """What gets and sets the number of threads of numpy's BLAS; None where it is another one than OpenBLAS."""
    try:
        library = ctypes.CDLL(np.linalg._umath_linalg.__file__)  # whose symbols are found too
    except (AttributeError, OSError):
        return None
    for name in _BLAS_THREADS:
        if hasattr(library, name.format("get")):
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


def _after_fork() -> None:
    """A fork has none of the threads, and nobody in it would release a lock that was held."""
    _pool.cache_clear()
    _Blas.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
