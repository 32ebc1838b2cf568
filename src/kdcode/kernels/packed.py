"""How kernels are compiled, and what they say when they stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

NOT_CHECKED = 2
"""Why a kernel stopped before it was done: a block of the file is not known to match its digest."""

U = np.uintp

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, and keep the result on disk where there is a folder to write to."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return njit(**_OPTIONS)(function)


def part(function: Callable[..., Any]) -> Any:
    """A part of kernels. It is compiled into them: a call would hand over the seven fields of every array."""
    return njit(forceinline=True, **_OPTIONS)(function)


def stopped(result: int) -> tuple[int, int]:
    """What a negative result of a kernel means: the place where it stopped, and why."""
    return divmod(-result - 1, 4)
