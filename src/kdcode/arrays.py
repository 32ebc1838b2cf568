"""The array types that signatures speak of, and how many rows are handled at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.integer[Any]]

CHUNK_ROWS = 8192
"""How many rows are converted, checked, decoded or written at a time."""
