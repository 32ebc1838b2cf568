"""BlockRows: rows of entropy-coded blocks, in memory or in a mapped file, any of which can be read alone.

Blocks lie one after another. Each has a class, which says its length; classes take a few bits a block, and the place of
every 256th block is stored. A row is a place in a block. Rows that were coded together have slots that follow one
another; where they do not, as after the last row of a table that others were appended to, there is a break.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import _core, bitpack
from kdcode.arrays import IntArray
from kdcode.codec.row_writing import Pieces, written
from kdcode.errors import OptionError, StorageError
from kdcode.stored_array import ArrayInFile, StoredArray

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

BLOCKS_PER_START = 256
"""The place of every 256th block is stored."""
_GROUP = 8
"""Blocks whose classes are packed together, into as many bytes as a class has bits."""
_ROWS_AT_ONCE = 1 << 14
_NO_BYTES, _NO_STARTS = np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.uint64)
_NO_BREAKS = np.empty((0, 2), dtype=np.uint64)


def index_layout(blocks: int, classes: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of the tensors that tell where blocks begin; none where all are equally long."""
    if classes == 1:
        return {}
    return {
        "row_classes": ("uint8", (-(-blocks // _GROUP), bitpack.bits_for(classes))),
        "row_starts": ("uint64", (-(-blocks // BLOCKS_PER_START),)),
    }


def index_bytes(blocks: int, classes: int) -> int:
    """Bytes that they take."""
    if classes == 1:
        return 0
    return -(-blocks // _GROUP) * bitpack.bits_for(classes) + 8 * -(-blocks // BLOCKS_PER_START)


class BlockRows:
    """(N, row bytes) packed rows, as far as callers see.

    A packed row is its place in its block where blocks have several rows, its class where there are several, the bytes
    of the block, and zeros up to the longest.

    Args:
        count: N.
        lengths: bytes of a block by class.
        rows_per_block: how many rows a block has.
        tensors: `codes`, and as far as they are needed `row_classes`, `row_starts` and `row_breaks`.

    Raises:
        StorageError: tensors that are not those of `count` rows.
    """

    dtype = np.dtype(np.uint8)
    ndim = 2

    def __init__(
        self, count: int, lengths: Sequence[int], rows_per_block: int, tensors: Mapping[str, ArrayInFile]
    ) -> None:
        self.lengths, self.rows_per_block, self._tensors = tuple(lengths), rows_per_block, dict(tensors)
        self.shape = (count, max(lengths) + (len(lengths) > 1) + (rows_per_block > 1))
        _ = self.core  # which checks them

    @classmethod
    def of_blocks(cls, count: int, lengths: Sequence[int], rows_per_block: int, blocks: Bytes) -> BlockRows:
        """The rows of (m, bytes) blocks one after another, which begin with their class where there are several."""
        tensors = written(BlockWriter(lengths, 1), blocks)
        if rows_per_block > 1:
            tensors["row_breaks"] = np.zeros((1, 2), dtype=np.uint64)
        return cls(count, lengths, rows_per_block, tensors)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return BlockRows, (self.shape[0], self.lengths, self.rows_per_block, self._tensors)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("rows of blocks are copied to become an array")
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
        flat = np.where(flat < 0, flat + count, flat)
        if flat.size and (int(flat.min()) < 0 or int(flat.max()) >= count):
            raise IndexError(f"rows from {rows.min()} to {rows.max()} of {count}")
        return self._copied(flat).reshape(*rows.shape, self.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks, their index left out."""
        return len(self._tensors["codes"])

    @property
    def index_bytes(self) -> int:
        """Bytes of what tells where rows are."""
        return sum(int(tensor.nbytes) for name, tensor in self._tensors.items() if name != "codes")

    def of_each_class(self) -> Iterator[Bytes]:
        """The rows of each class in turn, without the zeros after them; rows must have blocks of their own."""
        if len(self.lengths) == 1:
            yield self[:]
            return
        packed = np.asarray(self._tensors["row_classes"])
        classes = bitpack.unpack(packed, [packed.shape[1]] * _GROUP).reshape(-1)[: len(self)]
        for own, length in enumerate(self.lengths):
            numbers = np.flatnonzero(classes == own)
            found = np.empty((len(numbers), 1 + length), dtype=np.uint8)
            for start in range(0, len(numbers), _ROWS_AT_ONCE):
                some = slice(start, start + _ROWS_AT_ONCE)
                found[some] = self[numbers[some]][:, : 1 + length]
            yield found

    def tensors(self) -> dict[str, ArrayInFile]:
        """What a file keeps of the rows, by name."""
        return self._tensors

    def check(self) -> None:
        """Check that every block has a class that there is, and begins where the one before it ends.

        Raises:
            StorageError: a block does not.
        """
        for name in ("row_classes", "row_starts"):
            if name in self._tensors:
                np.asarray(self._tensors[name])  # compared with the digests of its file
        self.core.check()

    @cached_property
    def core(self) -> _core.BlockRows:
        """The same rows for the core, which neither copies nor keeps what is in them."""
        good: npt.NDArray[Any] = _NO_BYTES
        arrays, places = [], []
        for name, absent in (("codes", _NO_BYTES), ("row_classes", _NO_BYTES), ("row_starts", _NO_STARTS)):
            tensor, place = self._tensors.get(name, absent), 0
            if isinstance(tensor, StoredArray):
                tensor, place, good = tensor.in_place()
            arrays.append(np.ascontiguousarray(tensor).reshape(-1).view(np.uint8))
            places.append(place)
        breaks = np.array(self._tensors.get("row_breaks", _NO_BREAKS), dtype=np.uint64).reshape(-1, 2)
        if self.rows_per_block > 1 and not len(breaks):
            raise StorageError("row_breaks: missing")
        lengths, (codes, classes, starts) = np.array(self.lengths, dtype=np.uint32), arrays
        return _core.BlockRows(
            lengths, len(self), self.rows_per_block, codes, classes, starts, breaks, good.view(np.uint8), places
        )

    def notice_changes(self) -> None:
        """Take no part of a file for checked any more where somebody has written to it."""
        if self._file is not None:
            self._file.notice_changes()

    def check_bytes(self, begin: int, length: int) -> None:
        """Compare bytes of the file with their digests.

        Raises:
            DamagedFileError: they do not match.
        """
        if self._file is not None:
            self._file.checks.check(begin, begin + length)

    @cached_property
    def _file(self) -> StoredArray | None:
        """An array of the file, where rows are in a file."""
        return next((tensor for tensor in self._tensors.values() if isinstance(tensor, StoredArray)), None)

    def _copied(self, rows: Numbers) -> Bytes:
        """(n, row bytes) of (n,) row numbers in [0, N)."""
        self.notice_changes()
        found = np.empty((len(rows), self.shape[1]), dtype=np.uint8)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some, to = np.ascontiguousarray(rows[start : start + _ROWS_AT_ONCE]), found[start : start + _ROWS_AT_ONCE]
            done = 0
            while done < len(some):
                done, begin, length = self.core.copy(some, to, done)
                if length:
                    self.check_bytes(begin, length)
        return found


class BlockWriter:
    """Makes the tensors of `BlockRows` of packed rows, chunk by chunk; see `kdcode.codec.row_writing.RowWriter`.

    Args:
        lengths: bytes of a block by class.
        rows_per_block: how many rows a block has.
    """

    def __init__(self, lengths: Sequence[int], rows_per_block: int) -> None:
        self._lengths, self._rows_per_block = np.array(lengths, dtype=np.int64), rows_per_block
        self._rows = self._blocks = self._bytes = 0
        self._classes_left = _NO_BYTES
        self._slot, self._last = -1, _NO_BYTES
        self._breaks: list[npt.NDArray[np.int64]] = []

    def add(self, packed: Bytes) -> Pieces:
        """The next pieces of the tensors, for (n, row bytes) packed rows.

        A row that follows the one before it in the same block adds no bytes.

        Raises:
            OptionError: a place or a class that there is not, or bytes after the end of a block.
        """
        if self._rows_per_block == 1:
            self._rows += len(packed)
            return self.add_blocks(packed)
        if not len(packed):
            return self.add_blocks(packed[:, 1:])
        places = packed[:, 0].astype(np.int64)
        if int(places.max()) >= self._rows_per_block:
            raise OptionError(f"codes: a row at place {places.max()} of a block, expected less: {self._rows_per_block}")
        before = np.concatenate([self._last[None] if self._rows else packed[:1], packed[:-1]])
        follows = (places == before[:, 0].astype(np.int64) + 1) & (packed[:, 1:] == before[:, 1:]).all(axis=1)
        follows[0] &= self._rows > 0
        slots = (self._blocks - 1 + np.cumsum(~follows)) * self._rows_per_block + places
        breaks = np.diff(slots, prepend=self._slot) != 1
        breaks[0] |= self._rows == 0
        broken = np.flatnonzero(breaks)
        self._breaks.append(np.stack([self._rows + broken, slots[broken]], axis=1))
        self._slot, self._last = int(slots[-1]), packed[-1].copy()
        self._rows += len(packed)
        return self.add_blocks(packed[~follows, 1:])

    def add_blocks(self, blocks: Bytes) -> Pieces:
        """The next pieces for (n, bytes) blocks, which begin with their class where there are several."""
        if len(self._lengths) == 1:
            self._blocks += len(blocks)
            self._bytes += blocks.size
            return {"codes": blocks.reshape(-1)}
        classes = blocks[:, 0]
        if int(classes.max(initial=0)) >= len(self._lengths):
            raise OptionError(f"codes: found a class of {classes.max()}, classes must be below {len(self._lengths)}")
        lengths = self._lengths[classes]
        inside = np.arange(blocks.shape[1] - 1) < lengths[:, None]
        if blocks[:, 1:][~inside].any():
            raise OptionError("codes: expected zeros after the end of a row; rows are made by `Codec.pack`")
        begins = self._bytes + lengths.cumsum() - lengths
        numbers = np.arange(self._blocks, self._blocks + len(blocks))
        starts = begins[numbers % BLOCKS_PER_START == 0].astype(np.uint64)
        self._blocks += len(blocks)
        self._bytes += int(lengths.sum())
        left = np.concatenate([self._classes_left, classes])
        whole = len(left) // _GROUP * _GROUP
        self._classes_left = left[whole:]
        return {"codes": blocks[:, 1:][inside], "row_classes": self._packed(left[:whole]), "row_starts": starts}

    def rest(self) -> Pieces:
        """What is left of the tensors when all rows were added."""
        found: Pieces = {"codes": _NO_BYTES}
        if len(self._lengths) > 1:
            left = self._classes_left
            padded = np.concatenate([left, np.zeros(-len(left) % _GROUP, dtype=np.uint8)])
            found |= {"row_classes": self._packed(padded), "row_starts": _NO_STARTS}
        if self._rows_per_block > 1:
            found["row_breaks"] = self._all_breaks.reshape(-1)
        return found

    def layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of the tensors."""
        breaks = {"row_breaks": ("uint64", self._all_breaks.shape)} if self._rows_per_block > 1 else {}
        return {"codes": ("uint8", (self._bytes,)), **index_layout(self._blocks, len(self._lengths)), **breaks}

    @property
    def _all_breaks(self) -> npt.NDArray[np.uint64]:
        return np.concatenate([np.empty((0, 2)), *self._breaks]).astype(np.uint64)

    def _packed(self, classes: Bytes) -> Bytes:
        bits = bitpack.bits_for(len(self._lengths))
        return bitpack.pack(classes.reshape(-1, _GROUP), [bits] * _GROUP).reshape(-1)
