"""Reader: the rows of a file, from any row to any other, a chunk at a time; several files as one; samples."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from kdcode.arrays import CHUNK_ROWS, FloatArray
from kdcode.errors import FormatError, OptionError, RowError
from kdcode.io.places import Place
from kdcode.symbols import RowNumbers
from kdcode.table import VectorTable

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the work done and the work in all: bytes or rows when reading, rows when writing."""

Chunk: TypeAlias = tuple[list[str] | None, FloatArray]
"""The symbols of n rows, or None where rows have no names, and their (n, d) vectors."""


class Reader(ABC):
    """The rows of a file. It holds no open file, and can be pickled for a process that sees the same files.

    Args:
        places: the file, and the file of its symbols where they have one of their own.
        rows: N.
        dim: d.
        has_symbols: whether rows have names.
        name: what the user called it; by default the name of the first file.
    """

    def __init__(self, places: Sequence[Place], rows: int, dim: int, *, has_symbols: bool, name: str = "") -> None:
        self.places, self.name = list(places), name or places[0].name
        self.embedding_dim, self.has_symbols, self._rows = dim, has_symbols, rows

    def __len__(self) -> int:
        return self._rows

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {len(self)} rows, {self.embedding_dim} dimensions>"

    def chunks(self, start: int = 0, stop: int | None = None, rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
        """The rows from `start` up to `stop`, in order, at most `rows` at a time.

        Args:
            start: the first row.
            stop: the row after the last; by default the end.
            rows: how many at a time.

        Raises:
            RowError: a row lies outside the file.
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

    def table(self, on_progress: Progress | None = None) -> VectorTable:
        """All rows in memory.

        Args:
            on_progress: called with rows read and rows in all after each chunk.

        Raises:
            FormatError: a row cannot be used.
            TableError: a symbol stands in two rows.
        """
        matrix = np.empty((len(self), self.embedding_dim), dtype=np.float32)
        names: list[str] = []
        reached = 0
        for symbols, vectors in self.chunks():
            matrix[reached : reached + len(vectors)] = vectors
            names += symbols or ()
            reached += len(vectors)
            if on_progress:
                on_progress(reached, len(self))
        return VectorTable(names if self.has_symbols else None, matrix)

    def check_parts(self) -> None:  # noqa: B027 - most formats have nothing to refuse
        """Refuse a file whose rows can only be read all at once."""

    def fingerprint(self) -> str:
        """A text that changes with the name, the size or the time of writing of a file."""
        return hashlib.sha256("\n".join(place.fingerprint() for place in self.places).encode()).hexdigest()

    @abstractmethod
    def _read(self, start: int, stop: int, rows: int) -> Iterator[Chunk]:
        """What `chunks` gives for rows that exist, not yet checked for being finite."""


class WholeReader(Reader):
    """The rows of a file whose format can only be read whole.

    Args:
        place: the file.
        table: all of its rows.
    """

    def __init__(self, place: Place, table: VectorTable) -> None:
        self._table = table
        named = not isinstance(table.symbols, RowNumbers)
        super().__init__([place], len(table), table.embedding_dim, has_symbols=named)

    def table(self, on_progress: Progress | None = None) -> VectorTable:
        """The table, which is in memory already."""
        return self._table

    def _read(self, start: int, stop: int, rows: int) -> Iterator[Chunk]:
        for first in range(start, stop, rows):
            last = min(first + rows, stop)
            names = list(self._table.symbols[first:last]) if self.has_symbols else None
            yield names, self._table.vectors_at(np.arange(first, last))


class JoinedReader(Reader):
    """The rows of several readers, one after another.

    Args:
        name: what the user called them all.
        parts: readers of one dimension, all with symbols or all without.

    Raises:
        FormatError: they differ in this.
    """

    def __init__(self, name: str, parts: Sequence[Reader]) -> None:
        self.parts = list(parts)
        check_alike(self.parts)
        self._starts = list(accumulate((len(part) for part in self.parts), initial=0))
        first = self.parts[0]
        places = [place for part in self.parts for place in part.places]
        super().__init__(places, self._starts[-1], first.embedding_dim, has_symbols=first.has_symbols, name=name)

    def _read(self, start: int, stop: int, rows: int) -> Iterator[Chunk]:
        for part, first in zip(self.parts, self._starts, strict=False):
            low, high = max(start - first, 0), min(stop - first, len(part))
            if low < high:
                yield from part.chunks(low, high, rows)


def check_alike(parts: Sequence[Reader]) -> None:
    """Refuse parts that cannot belong to one table."""
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


def sample_rows(reader: Reader, count: int, seed: int = 0, on_progress: Progress | None = None) -> VectorTable:
    """A table of rows drawn evenly, without replacement, in the order of the file, without their symbols.

    The whole file is read, a chunk at a time: neighbouring rows of a file are often alike, so blocks would not do.

    Args:
        reader: the rows.
        count: how many rows to draw; all of them where there are fewer.
        seed: decides which.
        on_progress: called with rows read and rows in all after each chunk.

    Raises:
        OptionError: `count` is less than 1.
        FormatError: a row cannot be used, drawn or not.
    """
    if count < 1:
        raise OptionError(f"a sample needs at least 1 row, got {count}")
    chosen = drawn_rows(len(reader), count, seed)
    matrix = np.empty((len(chosen), reader.embedding_dim), dtype=np.float32)
    reached = 0
    for _, vectors in reader.chunks():
        first, last = np.searchsorted(chosen, (reached, reached + len(vectors)))
        matrix[first:last] = vectors[chosen[first:last] - reached]
        reached += len(vectors)
        if on_progress:
            on_progress(reached, len(reader))
    return VectorTable(None, matrix)


def drawn_rows(rows: int, count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(count,) distinct rows below `rows`, sorted, in memory that depends on `count` alone."""
    if count >= rows:
        return np.arange(rows)
    draw = np.random.default_rng([seed, 0x5A3B1E])
    if rows < 4 * count:
        return np.sort(draw.permutation(rows)[:count])
    found = np.empty(0, dtype=np.int64)
    while len(found) < count:  # rows that were drawn twice are drawn again
        more = draw.integers(rows, size=count - len(found) + 16)
        found = np.unique(np.concatenate([found, more]))
    return np.sort(draw.permutation(found)[:count])
