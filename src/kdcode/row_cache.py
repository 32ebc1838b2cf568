"""RowCache: decoded rows that are asked for again and again, kept within a number of bytes."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray

Rows = npt.NDArray[np.int64]


class RowCache:
    """Vectors of rows; each row has one place, which rows that are equal modulo the number of places share.

    A row takes its place when it is missing twice in a row there, so that rows that are rare do not push out those that
    are frequent. Any number of threads may read at once.

    Args:
        dim: d.
        nbytes: what the cache may take.
    """

    def __init__(self, dim: int, nbytes: int) -> None:
        self.dim = dim
        self.places = max(1, nbytes // (4 * dim + 16))
        self._rows = np.full(self.places, -1, dtype=np.int64)
        self._missing = np.full(self.places, -1, dtype=np.int64)
        self._vectors = np.zeros((self.places, dim), dtype=np.float32)
        self._lock = Lock()
        self.hits = self.misses = 0

    @property
    def nbytes(self) -> int:
        """Bytes that the cache takes."""
        return self._rows.nbytes + self._missing.nbytes + self._vectors.nbytes

    def vectors(self, rows: Rows, decode: Callable[[Rows], FloatArray]) -> FloatArray:
        """(n, d) vectors of (n,) rows; those that are not kept come from `decode`.

        Args:
            rows: row numbers, any that `decode` takes.
            decode: gives the (m, d) vectors of (m,) rows, and raises where one is not there.
        """
        places = rows % self.places
        with self._lock:
            is_kept = (self._rows[places] == rows) & (rows >= 0)  # a place without a row has -1
            found = self._vectors[places]
        absent = np.flatnonzero(~is_kept)
        if len(absent):
            found[absent] = decode(rows[absent])
        with self._lock:
            self.hits += len(rows) - len(absent)
            self.misses += len(absent)
            self._keep(rows[absent], places[absent], found[absent] if len(absent) else found[:0])
        return found

    def clear(self) -> None:
        """Forget all rows, such as after the table has changed."""
        with self._lock:
            self._rows[:] = self._missing[:] = -1

    def _keep(self, rows: Rows, places: Rows, vectors: FloatArray) -> None:
        again = np.flatnonzero(self._missing[places] == rows)
        self._rows[places[again]] = rows[again]
        self._vectors[places[again]] = vectors[again]
        self._missing[places] = rows
