"""The array types that signatures speak of, and how many rows are handled at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
DoubleArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.integer[Any]]

CHUNK_ROWS = 8192
"""How many rows are converted, checked, decoded or written at a time."""


def described(value: object) -> str:
    """What was given, briefly: its type, and its shape or the value itself."""
    shape = getattr(value, "shape", None)
    if shape is not None and shape != ():
        return f"{getattr(value, 'dtype', type(value).__name__)} of shape {tuple(shape)}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '…'}"
