"""DecodedArray: a table that looks like its matrix to code that indexes one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray
from kdcode.mapping import TableMapping


class DecodedArray:
    """An (N, d) array of float32 that holds no vectors: those of the rows that are indexed are decoded at that moment.

    A row that is indexed several times at once is decoded once. `numpy.asarray` of it is the whole matrix.

    Args:
        table: the table, which is not copied.
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, table: TableMapping) -> None:
        self.table = table

    @property
    def shape(self) -> tuple[int, int]:
        """(N, d)."""
        return len(self.table), self.table.embedding_dim

    @property
    def size(self) -> int:
        """N times d."""
        return len(self.table) * self.table.embedding_dim

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return f"<DecodedArray of {self.table!r}>"

    def __getitem__(self, rows: npt.ArrayLike | slice) -> FloatArray:
        """Vectors of row numbers of any shape, a slice or a mask: float32 of that shape and d."""
        if isinstance(rows, slice):
            return self.table[rows]
        picked = self.table.rows_of(rows if isinstance(rows, tuple) else np.asarray(rows))
        if picked.ndim == 0:
            return self.table[int(picked)]
        distinct, places = np.unique(picked, return_inverse=True)
        vectors: FloatArray = self.table.vectors_at(distinct)[places.reshape(picked.shape)]
        return vectors

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The whole matrix, decoded."""
        return self.table.__array__(dtype, copy)
