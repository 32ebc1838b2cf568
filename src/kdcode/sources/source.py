"""RowSource: rows that are read a piece at a time, and several sources as one."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from kdcode.arrays import CHUNK_ROWS, FloatArray
from kdcode.errors import FormatError, RowError

Chunk = tuple[list[str] | None, FloatArray]
"""Symbols of n rows, or None where rows have no names, and their (n, d) vectors."""


class RowSource(ABC):
    """Rows of a file. It holds no open file and can be sent to another process, where the file must be, too.

    Args:
        name: of the file, as it was given.
        rows: N.
        dim: d.
        has_symbols: whether rows have names.
    """

    def __init__(self, name: str, rows: int, dim: int, *, has_symbols: bool) -> None:
        self.name, self.embedding_dim, self.has_symbols = name, dim, has_symbols
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {len(self)} rows, {self.embedding_dim} dimensions>"

    def chunks(self, start: int = 0, stop: int | None = None, rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
        """The rows from `start` to before `stop`, in order, at most `rows` at a time.

        Args:
            start: the first row.
            stop: the row after the last; the end where left out.
            rows: how many at a time.

        Raises:
            RowError: there are no such rows.
            FormatError: a row is damaged or not finite; the message names the file and the row.
            FileError: the file is gone, or cannot be read.
        """
        stop = len(self) if stop is None else stop
        if not 0 <= start <= stop <= len(self):
            raise RowError(f"{self.name}: there are no rows from {start} to {stop}, it has {len(self)}")
        reached = start
        for symbols, vectors in self._read(start, stop, rows) if start < stop else ():
            finite = np.isfinite(vectors).all(axis=1)
            if not finite.all():
                row = reached + int(finite.argmin())
                raise FormatError(f"{self.name}: row {row}: has a value that is not a finite float32")
            reached += len(vectors)
            yield symbols, vectors
        if reached != stop:
            raise FormatError(f"{self.name}: ends after row {reached}, expected {len(self)} rows; has it changed?")

    @abstractmethod
    def _read(self, start: int, stop: int, rows: int) -> Iterator[Chunk]:
        """The same, for rows that are there; finite or not."""

    @abstractmethod
    def fingerprint(self) -> str:
        """What changes when the file does: made from its name, its size, and when it was written."""


class JoinedSource(RowSource):
    """The rows of several sources, one after another.

    Args:
        name: what the user called them all.
        parts: sources of one dimension, all with symbols or all without.

    Raises:
        FormatError: they are not alike.
    """

    def __init__(self, name: str, parts: Sequence[RowSource]) -> None:
        self.parts = list(parts)
        check_alike(self.parts)
        self._starts = list(accumulate((len(part) for part in self.parts), initial=0))
        first = self.parts[0]
        super().__init__(name, self._starts[-1], first.embedding_dim, has_symbols=first.has_symbols)

    def _read(self, start: int, stop: int, rows: int) -> Iterator[Chunk]:
        for part, first in zip(self.parts, self._starts, strict=False):
            low, high = max(start - first, 0), min(stop - first, len(part))
            if low < high:
                yield from part.chunks(low, high, rows)

    def fingerprint(self) -> str:
        """That of all parts."""
        return hashlib.sha256("\n".join(part.fingerprint() for part in self.parts).encode()).hexdigest()


def check_alike(parts: Sequence[RowSource]) -> None:
    """Refuse parts that cannot be of one table."""
    first = parts[0]
    for part in parts[1:]:
        if part.embedding_dim != first.embedding_dim:
            raise FormatError(
                f"{part.name}: its vectors have {part.embedding_dim} dimensions, those of {first.name} "
                f"{first.embedding_dim}; all parts must have the same"
            )
        if part.has_symbols != first.has_symbols:
            named, unnamed = (part, first) if part.has_symbols else (first, part)
            raise FormatError(
                f"{unnamed.name}: its rows have no symbols, those of {named.name} have; all parts must be alike"
            )
