"""Rows of vectors gathered one after the other without holding them twice."""

from __future__ import annotations

import numpy as np

from kdcode.table import FloatArray


class RowBuffer:
    """A float32 matrix that grows. Nothing is set aside before data has arrived, whatever a header promises.

    Args:
        dim: the dimension d of the rows.
    """

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._flat = np.empty(0, dtype=np.float32)
        self._used = 0

    def append(self, values: FloatArray) -> None:
        """Add (n, d) or (d,) values."""
        end = self._used + values.size
        if end > self._flat.size:
            # Growing in place moves pages instead of copying them; a quarter more keeps the number of moves small.
            self._flat.resize(max(end, self._flat.size + self._flat.size // 4), refcheck=False)
        self._flat[self._used : end] = values.reshape(-1)
        self._used = end

    def finish(self) -> FloatArray:
        """The (N, d) matrix; the buffer must not be used afterwards."""
        self._flat.resize(self._used, refcheck=False)
        return self._flat.reshape(-1, self._dim)
