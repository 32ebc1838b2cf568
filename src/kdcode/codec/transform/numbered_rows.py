"""NumberedRows: packed rows that are not kept as one array, and are asked for as if they were."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import IntArray

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class NumberedRows(ABC):
    """(N, row bytes) rows of uint8, as far as callers see.

    Args:
        shape: N, and the bytes of a row.
    """

    dtype = np.dtype(np.uint8)
    ndim = 2

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("rows of different lengths are copied to become an array")
        return np.asarray(self[:], dtype=dtype)

    def __getitem__(self, key: int | slice | Sequence[int] | IntArray | npt.NDArray[np.bool_]) -> Bytes:
        """Rows as numpy gives them: (row bytes,) of an integer, else (n, row bytes) of a slice, integers or a mask."""
        count = len(self)
        if isinstance(key, slice):
            return self._copied(np.arange(*key.indices(count)))
        rows = np.asarray(key)
        if rows.dtype.kind == "b":
            if rows.shape != (count,):
                raise IndexError(f"a mask of shape {rows.shape} for {count} rows")
            return self._copied(np.flatnonzero(rows))
        if rows.dtype.kind not in "iu" and rows.size:
            raise IndexError(f"rows are integers, a slice or a mask, got {rows.dtype}")
        flat = rows.reshape(-1).astype(np.int64)
        if flat.size and int(flat.min()) < 0:
            flat = np.where(flat < 0, flat + count, flat)
        if flat.size and (int(flat.min()) < 0 or int(flat.max()) >= count):
            raise IndexError(f"rows from {rows.min()} to {rows.max()} of {count}")
        return self._copied(flat).reshape(*rows.shape, self.shape[1])

    @abstractmethod
    def _copied(self, rows: Numbers) -> Bytes:
        """(n, row bytes) of (n,) row numbers in [0, N)."""
