"""The compiled kernels, where numba is installed (the extra `fast`), and when to use them.

Loading numba and its compiled code takes a third of a second, and compiling it, once for every machine, some seconds.
A process that looks up a few words should not wait for that, so small amounts of work are done without the kernels
until they add up. The setting KDCODE_COMPILED of the environment changes this: "0" never uses them, "1" always does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any, TypeAlias

Kernels: TypeAlias = Any
"""The module `kdcode.kernels`, whose functions numba has compiled; no type checker sees into them."""

AUTO, ALWAYS, NEVER = "auto", "1", "0"
_WORTH_LOADING = 64
"""Rows that are decoded without the kernels, before they are loaded."""


class _State:
    use = os.environ.get("KDCODE_COMPILED", AUTO)
    module: Kernels | None = None
    seen_rows = 0
    is_absent = False
    lock = Lock()


def kernels(rows: int) -> Kernels | None:
    """`kdcode.kernels`, to decode so many rows with; None where numba is not installed or it is not worth while yet."""
    if _State.use == NEVER or _State.is_absent:
        return None
    if _State.module is not None:
        return _State.module
    if _State.use != ALWAYS:
        _State.seen_rows += rows
        if _State.seen_rows <= _WORTH_LOADING:
            return None
    with _State.lock:
        _State.is_absent = find_spec("numba") is None
        if _State.module is None and not _State.is_absent:
            _State.module = import_module("kdcode.kernels")
    return _State.module


def use(setting: str) -> str:
    """Use the kernels, in all threads, as KDCODE_COMPILED would say; gives the setting before."""
    before, _State.use = _State.use, setting
    return before


@contextmanager
def using(setting: str) -> Iterator[None]:
    """The same within a block; for tests and benchmarks."""
    before = use(setting)
    try:
        yield
    finally:
        use(before)
