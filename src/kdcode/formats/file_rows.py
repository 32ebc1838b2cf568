"""The rows of a file as they are read: distinct symbols and their vectors; rows that cannot be used."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kdcode import printable
from kdcode.arrays import FloatArray
from kdcode.errors import FormatError
from kdcode.limits import MemoryLimit
from kdcode.table import VectorTable

_SHOWN = 60

SYMBOL_BYTES = 200
"""Memory that a symbol takes beside its text: the object, its number, and its place in a dict, a set and a list."""
_NUMBER_BYTES = 8
"""Memory that a number takes, with the copies that are made of it on the way."""
_SKIPPED_BYTES = 1000
"""What a skipped row counts for: it takes no memory, but time, and a small file must not take that without end."""


class SkippedLinesWarning(UserWarning):
    """Lines of a file were left out because `on_bad_line="skip"` asked for it.

    Args:
        path: the file.
        count: how many lines or rows were left out.
        first: which was the first, and why.
    """

    def __init__(self, path: Path, count: int, first: str) -> None:
        super().__init__(path, count, first)  # what pickle calls the class with again
        self.count = count
        self.first = first

    def __str__(self) -> str:
        path, count, first = self.args
        return printable.shown(f"{path}: skipped {count} bad lines or rows, the first: {first}")


class FileRows:
    """Symbols and vectors gathered one after the other. Nothing is set aside before data has arrived.

    Args:
        path: the file, for messages.
        unit: what a row is called in this format: "line" or "row".
        limit: how much memory all of them may take.
        on_bad_line: whether to "refuse" the file when a row cannot be used, or to "skip" and count the row.
    """

    def __init__(self, path: Path, unit: str, limit: MemoryLimit, on_bad_line: str = "refuse") -> None:
        self.numbers: dict[str, int] = {}
        """The line or row of each symbol, in the order of the table."""
        self.skipped = 0
        self._path, self._unit, self._on_bad_line = path, unit, on_bad_line
        self._first_skipped = ""
        self._values = np.empty(0, dtype=np.float32)
        self._used = 0
        self._limit, self._symbol_bytes = limit, 0

    def __len__(self) -> int:
        return len(self.numbers)

    def refusal(self, number: int, reason: str) -> FormatError:
        """The error that says why row `number` cannot be used."""
        return FormatError(f"{self._path}: {self._unit} {number}: {reason}")

    def reject(self, number: int, reason: str) -> None:
        """Refuse the file because of row `number`, or skip the row, as `on_bad_line` says."""
        if self._on_bad_line == "refuse":
            raise self.refusal(number, reason)
        self.skipped += 1
        self._limit.check(f"{self.skipped} bad {self._unit}s that are skipped", self.skipped * _SKIPPED_BYTES)
        self._first_skipped = self._first_skipped or f"{self._unit} {number}: {reason}"

    def add(self, number: int, symbol: bytes, vector: FloatArray | None = None) -> None:
        """Add row `number`; reject it where its symbol is not UTF-8 or not new, or a number is not finite."""
        try:
            name = symbol.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = f"byte 0x{symbol[error.start]:02x}, {error.reason}"
            self.reject(number, f"the symbol {shown(symbol)} is not UTF-8: {byte}")
            return
        if name in self.numbers:
            place = f"{self._unit} {self.numbers[name]}"
            self.reject(number, f"the symbol {shown(symbol)} stands in {place} already; symbols must be distinct")
            return
        if vector is not None:
            finite = np.isfinite(vector)
            if not finite.all():
                first = int(finite.argmin())
                self.reject(
                    number, f"number {first + 1} of {shown(symbol)} is {vector[first]}, expected a finite number"
                )
                return
            self.add_vectors(vector)
        self._count_symbols(1, len(symbol))
        self.numbers[name] = number

    def add_all(self, numbers: Sequence[int], symbols: list[str], values: FloatArray) -> bool:
        """Add rows by number, with (n, d) or (n * d,) finite values, if every symbol is new; otherwise none, and False.

        Empty symbols and those that are not UTF-8 are for `add` to reject.
        """
        fresh = dict(zip(symbols, numbers, strict=True))
        if len(fresh) != len(symbols) or "" in fresh or not self.numbers.keys().isdisjoint(fresh):
            return False
        self._count_symbols(len(symbols), sum(map(len, symbols)))
        self.numbers.update(fresh)
        self.add_vectors(values)
        return True

    def add_vectors(self, values: FloatArray) -> None:
        """Add (n, d) or (d,) values."""
        end = self._used + values.size
        self._limit.check(f"{end} numbers and {len(self)} symbols", _NUMBER_BYTES * end + self._symbol_bytes)
        if end > self._values.size:
            # Growing in place moves pages instead of copying them; a quarter more keeps the number of moves small.
            self._values.resize(max(end, self._values.size + self._values.size // 4), refcheck=False)
        self._values[self._used : end] = values.reshape(-1)
        self._used = end

    def _count_symbols(self, count: int, text: int) -> None:
        self._symbol_bytes += count * SYMBOL_BYTES + text
        self._limit.check(f"{len(self) + count} symbols", self._symbol_bytes)

    def matrix(self, dim: int) -> FloatArray:
        """The (N, d) vectors; no more can be added afterwards."""
        self._values.resize(self._used, refcheck=False)
        return self._values.reshape(-1, dim)

    def table(self, dim: int) -> VectorTable:
        """The table of all rows. Called by a format's `read` itself, so that a warning points to the user's line."""
        if not self.numbers:
            raise FormatError(f"{self._path}: no usable row was found; {self.skipped} bad {self._unit}s were skipped")
        if self.skipped:
            warnings.warn(SkippedLinesWarning(self._path, self.skipped, self._first_skipped), stacklevel=5)
        return VectorTable(list(self.numbers), self.matrix(dim))


def shown(text: bytes) -> str:
    """A piece of a file as it appears in a message."""
    cut = text[:_SHOWN].decode("utf-8", errors="replace")
    return repr(cut + "…" if len(text) > _SHOWN else cut)
