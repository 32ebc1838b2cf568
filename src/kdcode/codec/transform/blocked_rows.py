"""BlockedRows: packed rows of which several make a block, and are stored once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.codec.row_writing import Pieces, RowWriter
from kdcode.codec.transform.numbered_rows import Bytes, NumberedRows, Numbers
from kdcode.errors import OptionError, StorageError
from kdcode.stored_array import ArrayInFile, PackedRows

Breaks = npt.NDArray[np.uint64]


class BlockedRows(NumberedRows):
    """(N, row bytes) packed rows, as far as callers see: the place of a row in its block, and the packed block.

    Slot s is place `s % rows_per_block` of block `s // rows_per_block`. Rows that were coded together have slots that
    follow one another. Where they do not, as after the last row of a table that others were appended to, there is a
    break.

    Args:
        rows_per_block: how many slots a block has; not all of them need to have a row.
        blocks: packed blocks.
        breaks: see `checked_breaks`.
        count: N.
    """

    def __init__(self, rows_per_block: int, blocks: PackedRows, breaks: Breaks, count: int) -> None:
        super().__init__((count, blocks.shape[1] + 1))
        self.rows_per_block, self.blocks, self.breaks = rows_per_block, blocks, breaks
        self._first_rows = breaks[:, 0].astype(np.int64)
        self._ahead = breaks[:, 1].astype(np.int64) - self._first_rows

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return BlockedRows, (self.rows_per_block, self.blocks, self.breaks, len(self))

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks, their index left out."""
        return self.blocks.nbytes

    def _copied(self, rows: Numbers) -> Bytes:
        numbers, places = np.divmod(self._slots(rows), self.rows_per_block)
        found = np.empty((len(rows), self.shape[1]), dtype=np.uint8)
        found[:, 0] = places
        found[:, 1:] = self.blocks[numbers]
        return found

    def _slots(self, rows: Numbers) -> Numbers:
        """(n,) slots of rows."""
        if len(self._ahead) == 1:
            return np.asarray(rows + self._ahead[0])
        return np.asarray(rows + self._ahead[np.searchsorted(self._first_rows, rows, side="right") - 1])


def checked_breaks(breaks: ArrayInFile, count: int, rows_per_block: int) -> tuple[Breaks, int]:
    """Breaks as they lie in a file, and the number of blocks that they tell of.

    Args:
        breaks: (breaks, 2) uint64: a row, and its slot; the rows after it have the slots after that one. The first is
            of row 0. Rows and slots rise, and every block has a row.
        count: N.
        rows_per_block: slots of a block.

    Raises:
        StorageError: breaks that no table of so many rows has.
    """
    found = np.array(breaks, dtype=np.uint64).reshape(-1, 2)
    if not len(found) or int(found.max()) >= 1 << 56 or int(found[-1, 0]) >= count or found[0, 0]:
        raise StorageError(f"row_breaks: expected breaks in rows 0 to {count - 1}, the first of row 0")
    rows, slots = found.astype(np.int64).T
    risen, moved = np.diff(rows), np.diff(slots)
    ends = slots[:-1] + risen - 1  # the slot of the last row before each break but the first
    block = slots // rows_per_block
    if (risen < 1).any() or (moved < risen).any() or block[0] or (block[1:] > ends // rows_per_block + 1).any():
        raise StorageError("row_breaks: expected rows and slots that rise, and a row in every block")
    return found, int(slots[-1] + count - 1 - rows[-1]) // rows_per_block + 1


class BlockedWriter:
    """Makes the tensors of blocks from their rows, piece by piece; see `kdcode.codec.row_writing.RowWriter`.

    Args:
        rows_per_block: how many rows a block has.
        blocks: what makes the tensors of blocks.
    """

    def __init__(self, rows_per_block: int, blocks: RowWriter) -> None:
        self._rows_per_block, self._blocks = rows_per_block, blocks
        self._rows, self._block, self._slot = 0, -1, -1
        self._last: Bytes | None = None
        self._breaks: list[Numbers] = []

    def add(self, packed: Bytes) -> Pieces:
        """The next pieces of the tensors, for (n, row bytes) packed rows that begin with their place in a block.

        A row that follows the one before it in the same block adds none.

        Raises:
            OptionError: a place that there is not.
        """
        if not len(packed):
            return self._blocks.add(packed[:, 1:])
        places = packed[:, 0].astype(np.int64)
        if int(places.max()) >= self._rows_per_block:
            raise OptionError(f"codes: a row at place {places.max()} of a block, expected less: {self._rows_per_block}")
        before = np.concatenate([packed[:1] if self._last is None else self._last[None], packed[:-1]])
        follows = (places == before[:, 0].astype(np.int64) + 1) & (packed[:, 1:] == before[:, 1:]).all(axis=1)
        follows[0] &= self._last is not None
        slots = (self._block + np.cumsum(~follows)) * self._rows_per_block + places
        broken = np.flatnonzero(np.diff(slots, prepend=self._slot) != 1)
        if not self._rows:
            broken = np.union1d(broken, [0])
        self._breaks.append(np.stack([self._rows + broken, slots[broken]], axis=1))
        self._block, self._slot, self._last = int(slots[-1]) // self._rows_per_block, int(slots[-1]), packed[-1].copy()
        self._rows += len(packed)
        return self._blocks.add(packed[~follows, 1:])

    def rest(self) -> Pieces:
        """What is left of the tensors when all rows were added."""
        return {**self._blocks.rest(), "row_breaks": self._all_breaks.reshape(-1)}

    def layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of the tensors."""
        return {**self._blocks.layout(), "row_breaks": ("uint64", self._all_breaks.shape)}

    @property
    def _all_breaks(self) -> Breaks:
        return np.concatenate([np.empty((0, 2)), *self._breaks]).astype(np.uint64)
