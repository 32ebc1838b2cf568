"""RaggedRows: rows of a few different lengths, one after another, any of which can be read alone.

Each row has a class, which says its length. Classes take a few bits a row. Where every 256th row begins is stored; the
others follow from the classes between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import IntArray
from kdcode.errors import StorageError
from kdcode.stored_array import ArrayInFile

ROWS_PER_START = 256
"""Every so many rows it is stored where one begins."""
_GROUP = 8
"""Rows whose classes are packed together, into as many bytes as a class has bits."""
_ROWS_AT_ONCE = 1 << 16

Bytes = npt.NDArray[np.uint8]


def index_bytes(rows: int, classes: int) -> int:
    """Bytes that classes and starts of so many rows take."""
    if classes == 1:
        return 0
    return -(-rows // _GROUP) * bitpack.bits_for(classes) + 8 * -(-rows // ROWS_PER_START)


def index_layout(rows: int, classes: int) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    """Type and shape of the tensors that tell where rows begin; none where all are equally long."""
    if classes == 1:
        return {}
    return {
        "row_classes": ("uint8", (-(-rows // _GROUP), bitpack.bits_for(classes))),
        "row_starts": ("uint64", (-(-rows // ROWS_PER_START),)),
    }


class RaggedRows:
    """(N, row bytes) packed rows, as far as callers see: the class of a row, its bytes, and zeros up to the longest.

    Args:
        count: N.
        lengths: bytes of a row by class.
        codes: (bytes,) uint8, all rows.
        row_classes: (N/8, bits) uint8, eight rows to a packed row.
        row_starts: (N/256,) uint64, where every 256th row begins in `codes`.

    Raises:
        StorageError: arrays that do not fit together.
    """

    dtype = np.dtype(np.uint8)
    ndim = 2

    def __init__(
        self, count: int, lengths: Sequence[int], codes: ArrayInFile, row_classes: ArrayInFile, row_starts: ArrayInFile
    ) -> None:
        self._count, self._codes, self._classes, self._starts = count, codes, row_classes, row_starts
        self.lengths = np.array(lengths, dtype=np.int64)
        self._bits = bitpack.bits_for(len(lengths))
        self.shape = (count, int(self.lengths.max()) + 1)
        end = int(self._places(np.array([count - 1]))[2][0]) if count else 0
        if end != len(codes):
            raise StorageError(f"codes: {len(codes)} bytes, where the rows end at byte {end}")

    @classmethod
    def of(cls, packed: Bytes, lengths: Sequence[int]) -> RaggedRows:
        """The same rows without the zeros after them.

        Args:
            packed: (N, row bytes) rows that begin with their class.
            lengths: bytes of a row by class.
        """
        writer = RaggedWriter(lengths)
        codes = [writer.add(packed[start : start + _ROWS_AT_ONCE]) for start in range(0, len(packed), _ROWS_AT_ONCE)]
        whole = np.concatenate(codes) if codes else np.empty(0, dtype=np.uint8)
        return cls(len(packed), lengths, whole, **writer.index())

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, ArrayInFile], count: int, lengths: Sequence[int]) -> RaggedRows:
        """The rows of a file; undoes `tensors`."""
        return cls(count, lengths, tensors["codes"], tensors["row_classes"], tensors["row_starts"])

    def tensors(self) -> dict[str, ArrayInFile]:
        """What a file keeps of the rows, by name."""
        return {"codes": self._codes, "row_classes": self._classes, "row_starts": self._starts}

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the rows themselves, their index left out."""
        return len(self._codes)

    def __len__(self) -> int:
        return self._count

    def __array__(self, dtype: npt.DTypeLike = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def __getitem__(self, key: slice | IntArray) -> Bytes:
        """(n, row bytes) of a slice of rows, or of (n,) row numbers in [0, N)."""
        rows = np.arange(self._count)[key] if isinstance(key, slice) else np.asarray(key)
        if rows.dtype.kind == "b":
            rows = np.flatnonzero(rows)
        return self._gathered(rows.astype(np.int64))

    def _gathered(self, rows: IntArray) -> Bytes:
        found = np.zeros((len(rows), self.shape[1]), dtype=np.uint8)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            classes, begins, ends = self._places(rows[some])
            found[some, 0] = classes
            columns = np.arange(self.shape[1] - 1)
            inside = columns < (ends - begins)[:, None]
            found[some, 1:][inside] = self._codes[(begins[:, None] + columns)[inside]]
        return found

    def _places(self, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """(n,) classes of rows, and where they begin and end in `codes`."""
        blocks, place = np.unique(rows // ROWS_PER_START, return_inverse=True)
        classes = self._classes_of(blocks)
        lengths = self.lengths[classes]
        ends = self._starts[blocks].astype(np.int64)[:, None] + lengths.cumsum(axis=1)
        at = (place.reshape(-1), rows % ROWS_PER_START)
        if (ends[at] > len(self._codes)).any() or (ends[at] < 0).any():
            raise StorageError(f"row_starts: rows that end at byte {int(ends[at].max())} of {len(self._codes)}")
        return classes[at], ends[at] - lengths[at], ends[at]

    def _classes_of(self, blocks: IntArray) -> IntArray:
        """(blocks, 256) classes of all rows of some blocks, 0 after the last row."""
        groups = ROWS_PER_START // _GROUP
        every = blocks[:, None] * groups + np.arange(groups)
        inside = every < len(self._classes)
        packed = np.zeros((*every.shape, self._bits), dtype=np.uint8)
        packed[inside] = self._classes[every[inside]]
        found = bitpack.unpack(packed.reshape(-1, self._bits), [self._bits] * _GROUP).astype(np.int64)
        if found.max(initial=0) >= len(self.lengths):
            raise StorageError(f"row_classes: found class {found.max()}, classes must be below {len(self.lengths)}")
        return found.reshape(len(blocks), ROWS_PER_START)


class RaggedWriter:
    """Rows on their way into a file: their bytes leave at once, and what tells where they begin is kept."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = np.array(lengths, dtype=np.int64)
        self._classes: list[Bytes] = []
        self._starts: list[npt.NDArray[np.uint64]] = []
        self.rows = self.nbytes = 0

    def add(self, packed: Bytes) -> Bytes:
        """The bytes of (n, row bytes) packed rows that begin with their class."""
        classes = packed[:, 0]
        lengths = self._lengths[classes]
        begins = self.nbytes + lengths.cumsum() - lengths
        numbers = np.arange(self.rows, self.rows + len(packed))
        self._starts.append(begins[numbers % ROWS_PER_START == 0].astype(np.uint64))
        self._classes.append(classes.copy())
        self.rows += len(packed)
        self.nbytes += int(lengths.sum())
        return packed[:, 1:][np.arange(packed.shape[1] - 1) < lengths[:, None]]

    def index(self) -> dict[str, npt.NDArray[Any]]:
        """The tensors of `index_layout`, for all rows that were added."""
        bits = bitpack.bits_for(len(self._lengths))
        classes = np.concatenate([*self._classes, np.zeros(-self.rows % _GROUP, dtype=np.uint8)])
        return {
            "row_classes": bitpack.pack(classes.reshape(-1, _GROUP), [bits] * _GROUP),
            "row_starts": np.concatenate([np.empty(0, dtype=np.uint64), *self._starts]),
        }
