"""RaggedRows: rows of a few different lengths, one after another, any of which can be read alone.

Each row has a class, which says its length. Classes take a few bits a row. Where every 256th row begins is stored; the
others follow from the classes between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.codec.row_writing import written
from kdcode.codec.transform.numbered_rows import Bytes, NumberedRows, Numbers
from kdcode.codec.transform.ragged_writer import RaggedWriter
from kdcode.codec.transform.row_index import GROUP, ROWS_PER_START
from kdcode.compiled import Kernels, kernels
from kdcode.digests import BLOCK_BYTES
from kdcode.errors import StorageError
from kdcode.stored_array import ArrayInFile, StoredArray

_GROUPS_PER_START = ROWS_PER_START // GROUP
_BLOCKS_AT_ONCE = 1 << 12
"""Blocks of 256 rows whose classes are unpacked at a time, at most: 8 MiB of them."""
_BYTES_AT_ONCE = 1 << 22


class RaggedRows(NumberedRows):
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

    def __init__(
        self, count: int, lengths: Sequence[int], codes: ArrayInFile, row_classes: ArrayInFile, row_starts: ArrayInFile
    ) -> None:
        super().__init__((count, max(lengths) + 1))
        self._count, self._codes, self._classes, self._starts = count, codes, row_classes, row_starts
        self.lengths = np.array(lengths, dtype=np.int64)
        self._bits = bitpack.bits_for(len(lengths))
        end = sum(self._place(count - 1)[1:]) if count else 0
        if end != len(codes):
            raise StorageError(f"codes: {len(codes)} bytes, where the rows end at byte {end}")

    @classmethod
    def of(cls, packed: Bytes, lengths: Sequence[int]) -> RaggedRows:
        """The same rows without the zeros after them.

        Args:
            packed: (N, row bytes) rows that begin with their class.
            lengths: bytes of a row by class.
        """
        return cls(len(packed), lengths, **written(RaggedWriter(lengths), packed))

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, ArrayInFile], count: int, lengths: Sequence[int]) -> RaggedRows:
        """The rows of a file; undoes `tensors`."""
        return cls(count, lengths, tensors["codes"], tensors["row_classes"], tensors["row_starts"])

    def tensors(self) -> dict[str, ArrayInFile]:
        """What a file keeps of the rows, by name."""
        return {"codes": self._codes, "row_classes": self._classes, "row_starts": self._starts}

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return RaggedRows, (self._count, tuple(self.lengths.tolist()), self._codes, self._classes, self._starts)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the rows themselves, their index left out."""
        return len(self._codes)

    def of_each_class(self) -> Iterator[Bytes]:
        """For each class the (n, length) bytes of its rows; all of them together take as much as the rows do."""
        blocks = np.arange(-(-self._count // ROWS_PER_START))
        pieces = [self._classes_of(blocks[at : at + _BLOCKS_AT_ONCE]) for at in range(0, len(blocks), _BLOCKS_AT_ONCE)]
        classes = np.concatenate([piece.reshape(-1) for piece in pieces])[: self._count]
        at_once = max(1, _BYTES_AT_ONCE // self.shape[1])
        for number, length in enumerate(self.lengths.tolist()):
            rows = np.flatnonzero(classes == number)
            found = np.empty((len(rows), length), dtype=np.uint8)
            for start in range(0, len(rows), at_once):
                found[start : start + at_once] = self._copied(rows[start : start + at_once])[:, 1 : 1 + length]
            yield found

    def check(self) -> None:
        """Check that every row has a class that there is, and begins where those before it end.

        Raises:
            StorageError: with the first row that does not.
        """
        reached, blocks = 0, -(-self._count // ROWS_PER_START)
        for start in range(0, blocks, _BLOCKS_AT_ONCE):
            some = np.arange(start, min(start + _BLOCKS_AT_ONCE, blocks))
            lengths = self.lengths[self._classes_of(some)]
            if some[-1] == blocks - 1:
                lengths[-1, (self._count - 1) % ROWS_PER_START + 1 :] = 0
            begins = reached + np.concatenate([[0], lengths.sum(axis=1).cumsum()])
            wrong = self._starts[start : start + len(some)] != begins[:-1].astype(np.uint64)
            if wrong.any():
                place = int(wrong.argmax())
                raise StorageError(
                    f"row_starts: row {ROWS_PER_START * (start + place)} begins at byte {self._starts[start + place]}, "
                    f"where the rows before it end at byte {begins[place]}"
                )
            reached = int(begins[-1])

    def _copied(self, rows: Numbers) -> Bytes:
        """(n, row bytes) of (n,) row numbers in [0, N)."""
        found = np.zeros((len(rows), self.shape[1]), dtype=np.uint8)
        compiled = kernels(0)  # those who decode the rows count them
        if compiled is not None:
            self._copy_compiled(compiled, rows, found)
        elif len(rows) == 1:
            own, begin, length = self._place(int(rows[0]))
            found[0, 0] = own
            found[0, 1 : 1 + length] = self._codes[begin : begin + length]
        else:
            at_once = max(1, min(_BLOCKS_AT_ONCE, _BYTES_AT_ONCE // self.shape[1]))
            for start in range(0, len(rows), at_once):
                self._copy_some(rows[start : start + at_once], found[start : start + at_once])
        return found

    def _copy_some(self, rows: Numbers, found: Bytes) -> None:
        classes, begins, lengths = self._places(rows)
        self._check_codes(begins, lengths)
        found[:, 0] = classes
        inside = np.arange(self.shape[1] - 1) < lengths[:, None]
        source = np.arange(int(lengths.sum())) + np.repeat(begins - (lengths.cumsum() - lengths), lengths)
        found[:, 1:][inside] = _in_place(self._codes)[source]

    def _copy_compiled(self, compiled: Kernels, rows: Numbers, found: Bytes) -> None:
        for array in self._in_files:
            array.notice_changes()
        done = 0
        while done < len(rows):
            done = compiled.copy_rows(rows, done, *self._plan, found)
            if done < 0:
                done, reason = compiled.stopped(done)
                some = rows[done : done + _BLOCKS_AT_ONCE]
                _, begins, lengths = self._places(some)  # checks what it reads, and refuses what does not fit
                self._check_codes(begins, lengths)
                if reason != compiled.NOT_CHECKED:
                    raise AssertionError("a kernel stopped for no reason")

    @cached_property
    def _in_files(self) -> list[StoredArray]:
        """One array of each file that there is."""
        found = {id(array.checks): array for array in self.tensors().values() if isinstance(array, StoredArray)}
        return list(found.values())

    @cached_property
    def _plan(self) -> tuple[Any, ...]:
        """What `copy_rows` has to know."""
        arrays, goods, begins = [], [], []
        for array in self.tensors().values():
            stored = (array, -1, np.empty(0, np.bool_)) if not isinstance(array, StoredArray) else array.in_place()
            held = np.ascontiguousarray(stored[0]).reshape(-1)
            arrays.append(_frozen(held.astype(held.dtype.newbyteorder("="), copy=False)))
            begins.append(stored[1])
            goods.append(_frozen(stored[2]))
        lengths = np.full(1 << self._bits, 1 << 48, dtype=np.int64)
        lengths[: len(self.lengths)] = self.lengths
        place = np.array([BLOCK_BYTES, *begins, self._count, self._bits, ROWS_PER_START], dtype=np.int64)
        return tuple(arrays), tuple(goods), place, lengths

    def _check_codes(self, begins: Numbers, lengths: Numbers) -> None:
        """Check the blocks of the file that some rows lie in."""
        if isinstance(self._codes, StoredArray):
            self._codes.check_rows(begins[lengths > 0], lengths[lengths > 0])

    def _place(self, row: int) -> tuple[int, int, int]:
        """The class of one row, where it begins in `codes`, and its length."""
        block = row // ROWS_PER_START
        groups = self._classes[block * _GROUPS_PER_START : row // GROUP + 1]
        classes = _unpacked(groups)[: row % ROWS_PER_START + 1]
        own = int(classes[-1])
        if int(classes.max()) >= len(self.lengths):
            raise self._no_class()
        lengths = self.lengths[classes]
        length = int(lengths[-1])
        end = int(self._starts[block]) + int(lengths.sum())
        if end > len(self._codes):
            raise self._beyond(end)
        return own, end - length, length

    def _places(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """(n,) classes of rows, where they begin in `codes`, and their lengths."""
        blocks, place = np.unique(rows // ROWS_PER_START, return_inverse=True)
        classes, starts = self._classes_of(blocks), self._starts[blocks]
        if int(starts.max(initial=0)) > len(self._codes):
            raise self._beyond(int(starts.max()))
        lengths = self.lengths[classes]
        ends = starts.astype(np.int64)[:, None] + lengths.cumsum(axis=1)
        at = (place.reshape(-1), rows % ROWS_PER_START)
        if int(ends[at].max(initial=0)) > len(self._codes):
            raise self._beyond(int(ends[at].max()))
        return classes[at].astype(np.int64), ends[at] - lengths[at], lengths[at]

    def _classes_of(self, blocks: Numbers) -> Bytes:
        """(blocks, 256) classes of all rows of some blocks, in order; 0 after the last row."""
        every = blocks[:, None] * _GROUPS_PER_START + np.arange(_GROUPS_PER_START)
        inside = every < len(self._classes)
        packed = np.zeros((*every.shape, self._bits), dtype=np.uint8)
        packed[inside] = self._classes[every[inside]]
        found = bitpack.unpack(packed.reshape(-1, self._bits), [self._bits] * GROUP).reshape(-1, ROWS_PER_START)
        if len(blocks) and int(blocks[-1]) == (self._count - 1) // ROWS_PER_START:
            found[-1, (self._count - 1) % ROWS_PER_START + 1 :] = 0
        if int(found.max(initial=0)) >= len(self.lengths):
            raise self._no_class()
        return found

    def _no_class(self) -> StorageError:
        return StorageError(f"row_classes: found a class that is not below {len(self.lengths)}")

    def _beyond(self, end: int) -> StorageError:
        return StorageError(f"row_starts: a row ends at byte {end} of {len(self._codes)}")


def _in_place(array: ArrayInFile) -> npt.NDArray[Any]:
    """An array as it lies in its file, whose blocks somebody else has checked."""
    return array.in_place()[0] if isinstance(array, StoredArray) else array


def _unpacked(groups: Bytes) -> Bytes:
    """(n · 8,) classes of (n, bits) packed groups; quick for a few."""
    bits = np.unpackbits(groups, bitorder="little").reshape(-1, groups.shape[1])
    return np.packbits(bits, axis=1, bitorder="little").reshape(-1)


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that is not to be written to: numba would compile a kernel once more for one that may be."""
    view = array.view()
    view.flags.writeable = False
    return view
