"""Arrays in a file that is mapped into memory, checked against the file's digests where they are read."""

from __future__ import annotations

import mmap
import operator
import os
import weakref
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from kdcode import _core
from kdcode.digests import BLOCK_BYTES, DIGEST_BYTES, Digests, block_digest
from kdcode.errors import DamagedFileError

Bytes = npt.NDArray[np.uint8]
Stamp = tuple[int, int]
"""The size of a file and when it was last written to, in nanoseconds."""


class FileContent:
    """All bytes of a file, mapped or read into memory.

    A mapped file must not be written to: what is read changes with it, and where it is cut short, the system ends the
    process (SIGBUS). Files that kdcode writes are new ones that take the place of the old, which lives on while it is
    mapped.

    Args:
        data: all bytes.
        path: the name of the file, for errors.
        descriptor: of the file where it is mapped; closed with this object.
    """

    def __init__(self, data: Bytes, path: Path, descriptor: int | None = None) -> None:
        self.data = data
        self.path = path
        if descriptor is not None:
            weakref.finalize(self, os.close, descriptor)
        self.stamp = None if descriptor is None else _core.FileStamp(descriptor)
        """What a mapped file looked like when it was last `seen`."""

    @classmethod
    def of(cls, stream: BinaryIO, path: Path, *, mapped: bool) -> FileContent:
        """The content of an open file, which must not be empty."""
        if not mapped:
            stream.seek(0)
            return cls(np.frombuffer(stream.read(), dtype=np.uint8), path)
        view = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(np.frombuffer(view, dtype=np.uint8), path, os.dup(stream.fileno()))

    def changed(self) -> Stamp | None:
        """What a mapped file looks like that somebody wrote to since it was last `seen`; None where nobody did.

        Raises:
            DamagedFileError: the file is longer or shorter than it was.
        """
        found = None if self.stamp is None else self.stamp.changed()
        if self.stamp is not None and found is not None and found[0] != self.stamp.size:
            raise DamagedFileError(
                f"{self.path}: had {self.stamp.size:,} bytes when it was opened and has {found[0]:,} now; "
                "write new files beside mapped ones and rename them, or load with mmap=False"
            )
        return found

    def seen(self, stamp: Stamp) -> None:
        """Take a change for known."""
        if self.stamp is not None:
            self.stamp.seen(*stamp)


class BlockChecks:
    """Which blocks of a file are known to match their digests.

    Args:
        content: the file.
        digests: one row for each block from the beginning of the file.
        covered: how many bytes they are of.
        trusted: whether all blocks are taken to match, and none is ever checked.

    Attributes:
        good: for each block, whether it is known to match.
    """

    def __init__(self, content: FileContent, digests: Digests, covered: int, *, trusted: bool = False) -> None:
        self.content = content
        self._digests = digests.tobytes()  # in memory, where no change of the file can reach them
        self._covered = covered
        self._trusted = trusted
        self.good = np.full(len(digests), trusted)

    def check(self, start: int, end: int) -> None:
        """Check what the bytes from `start` to `end` of the file lie in.

        Raises:
            DamagedFileError: a block does not match its digest.
        """
        self.notice_changes()
        blocks = slice(start // BLOCK_BYTES, -(-end // BLOCK_BYTES))
        for place in np.flatnonzero(~self.good[blocks]).tolist():
            self._check_block(blocks.start + place)

    def check_each(self, starts: npt.NDArray[np.int64], width: int | npt.NDArray[np.int64]) -> None:
        """The same for `width` bytes, one or more, from each of (n,) `starts`; or for (n,) widths."""
        self.notice_changes()
        block, last = starts // BLOCK_BYTES, (starts + (width - 1)) // BLOCK_BYTES
        while len(block):
            for number in set(block[~self.good[block]].tolist()):  # np.unique would import masked arrays for this
                self._check_block(number)
            goes_on = block < last
            block, last = block[goes_on] + 1, last[goes_on]

    def notice_changes(self) -> None:
        """Take no block for good any more where somebody has written to the file."""
        stamp = self.content.changed()
        if stamp is not None:
            self.good[:] = self._trusted  # before other threads see that the change is known
            self.content.seen(stamp)

    def _check_block(self, number: int) -> None:
        start = number * BLOCK_BYTES
        end = min(start + BLOCK_BYTES, self._covered)
        place = number * DIGEST_BYTES
        if block_digest(self.content.data[start:end].data) != self._digests[place : place + DIGEST_BYTES]:
            raise DamagedFileError(
                f"{self.content.path}: bytes {start:,} to {end:,} do not match their digest; "
                "the file is damaged, make it again or take another copy"
            )
        self.good[number] = True


class StoredArray:
    """An array in a file, whose blocks are checked when they are first read; like a read-only numpy array to index.

    An integer, a slice and an array of integers read some of it and give plain arrays; `np.asarray` reads all of it.

    Args:
        checks: of the file.
        start: where the array begins in the file.
        dtype: of its numbers.
        shape: in row-major order, with at least one number.
    """

    def __init__(self, checks: BlockChecks, start: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.checks = self._checks = checks
        self.start = self._start = start
        self._array: npt.NDArray[Any] = np.ndarray(shape, dtype, buffer=checks.content.data, offset=start)
        self._row_bytes = self._array.itemsize * prod(shape[1:])

    @property
    def shape(self) -> tuple[int, ...]:
        """As of a numpy array."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """As of a numpy array."""
        return self._array.dtype

    @property
    def size(self) -> int:
        """As of a numpy array."""
        return self._array.size

    @property
    def nbytes(self) -> int:
        """As of a numpy array."""
        return self._array.nbytes

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, key: int | slice | npt.NDArray[np.integer[Any]]) -> Any:  # noqa: ANN401 - a number or an array
        if isinstance(key, slice):
            rows = range(*key.indices(len(self)))
            if rows:
                self._check(min(rows[0], rows[-1]), max(rows[0], rows[-1]) + 1)
        elif isinstance(key, np.ndarray) and key.dtype.kind in "iu":
            places = np.arange(len(self))[key] if (key < 0).any() else key  # nothing is read before it is checked
            if (places >= len(self)).any():
                raise IndexError(f"row {int(places.max())} of an array of {len(self)} rows")
            self.check_rows(places.reshape(-1).astype(np.int64))
        else:
            row = range(len(self))[operator.index(key)]
            self._check(row, row + 1)
        return self._array[key]

    def check_rows(self, rows: npt.NDArray[np.int64], counts: int | npt.NDArray[np.int64] = 1) -> None:
        """Check the blocks that hold (n,) rows in [0, length), or runs of one or more rows that begin with them."""
        self._checks.check_each(self._start + rows * self._row_bytes, counts * self._row_bytes)

    def in_place(self) -> tuple[npt.NDArray[Any], int, npt.NDArray[np.bool_]]:
        """The array as it lies in the file, where it begins there, and which blocks of the file match their digests.

        For readers of single rows that look by themselves whether a block is good, and call `check_rows` where not.
        Before each reading they call `notice_changes`.
        """
        return self._array, self._start, self._checks.good

    def notice_changes(self) -> None:
        """Take no block for good any more where somebody has written to the file."""
        self._checks.notice_changes()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        self._check(0, len(self))
        return np.array(self._array, dtype=dtype, copy=copy) if copy else np.asarray(self._array, dtype=dtype)

    def __reduce__(self) -> tuple[Any, tuple[npt.NDArray[Any]]]:
        return np.asarray, (np.array(self),)  # a copy, in another process or not, has its numbers in memory

    def _check(self, first: int, end: int) -> None:
        self._checks.check(self._start + first * self._row_bytes, self._start + end * self._row_bytes)


ArrayInFile = npt.NDArray[Any] | StoredArray
"""An array that may be in a file."""


class PackedRows(Protocol):
    """(N, row bytes) packed rows of a table, in memory or in a file; an array, or something like one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """As of a numpy array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """As of a numpy array."""

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take as they are kept."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any:  # noqa: ANN401 - rows as a numpy array
        """Rows by a slice or by numbers."""

    def __array__(self, *_: Any, **__: Any) -> npt.NDArray[Any]: ...  # noqa: ANN401 - as numpy calls it
