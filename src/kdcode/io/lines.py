"""Text in blocks of lines, in bounded memory; decimal numbers in it; and the rows that are collected from a file."""

from __future__ import annotations

import gzip
import os
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from kdcode import printable
from kdcode.arrays import FloatArray
from kdcode.errors import FormatError
from kdcode.io.format import warn_caller
from kdcode.io.places import Place
from kdcode.io.reader import Progress
from kdcode.limits import MemoryLimit
from kdcode.table import VectorTable

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 21
"""A file with a longer line is not taken for text; 2 MB hold some 200,000 numbers."""

GZIP_MAGIC = b"\x1f\x8b"
_LINE_COST = 100
"""Bytes that each line of a gzipped file adds to what it is charged: many short lines cost time, not memory."""

FLOAT32_END = 2.0**128 - 2.0**103
"""Numbers of this size and beyond round to an infinite float32."""

SYMBOL_BYTES = 200
"""Memory of a symbol beside its text: the object, its number, and its place in a dict, a set and a list."""
_VALUE_BYTES = 8
"""Memory of a number, with the temporary copies of it."""
_SKIPPED_BYTES = 1000
"""What a skipped row is charged. It takes time, not memory, and a small file must not take unlimited time."""

_NUMBER_CHARACTERS = b"0123456789+-.eE"
_SHOWN = 60


def byte_blocks(
    file: Path | Place, on_progress: Progress | None = None, limit: MemoryLimit | None = None, start: int = 0
) -> Iterator[bytes]:
    """The content of a file in blocks of at most `BLOCK_BYTES`, unpacked if it begins like a gzip file.

    Args:
        file: the file.
        on_progress: called after each block.
        limit: how large the content of a gzipped file may be; None for any size.
        start: the byte of the content to begin at.

    Raises:
        FormatError: the gzip data is damaged or ends early.
        FileError: the file cannot be read.
        LimitError: the gzipped file unpacks to more than the limit.
    """
    place = file if isinstance(file, Place) else Place(str(file))
    unpacked = lines = 0
    with place.opened() as raw:
        packed = raw.read(2) == GZIP_MAGIC
        total = raw.seek(0, os.SEEK_END)
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        try:
            stream.seek(start)
            while block := stream.read(BLOCK_BYTES):
                unpacked += len(block)
                if packed and limit is not None:
                    lines += block.count(b"\n")
                    limit.check("the content of the gzipped file", unpacked + _LINE_COST * lines)
                yield block
                if on_progress:
                    on_progress(raw.tell(), total)
        except EOFError:
            raise FormatError(
                f"{place.name}: the gzip data ends early, in the megabyte after {unpacked} unpacked bytes; "
                "the file is truncated, fetch it again"
            ) from None
        except (zlib.error, gzip.BadGzipFile) as error:
            reason = f"the gzip data is damaged after {unpacked} unpacked bytes: {error}"
            raise FormatError(f"{place.name}: {reason}") from None


def line_blocks(
    file: Path | Place,
    on_progress: Progress | None = None,
    limit: MemoryLimit | None = None,
    start: tuple[int, int] = (0, 1),
) -> Iterator[tuple[int, list[bytes]]]:
    r"""The lines of a file without their `\n`, as (number of the first line, lines).

    Only `\n` ends a line: word lists hold characters such as U+0085, which Python's own splitting would break at.

    Args:
        file: the file.
        on_progress: called after each block.
        limit: as in `byte_blocks`.
        start: the byte of the content to begin at, and the number of the line there.
    """
    place, number = start
    rest = bytearray()
    for block in byte_blocks(file, on_progress, limit, place):
        first, *lines = block.split(b"\n")
        rest += first
        if lines:
            last = lines.pop()
            yield number, [bytes(rest), *lines]
            number += 1 + len(lines)
            rest = bytearray(last)
        if len(rest) > MAX_LINE_BYTES:
            name = file.name if isinstance(file, Place) else file
            raise FormatError(f"{name}: line {number} is longer than {MAX_LINE_BYTES} bytes; this is not a text file")
    if rest:
        yield number, [bytes(rest)]


def first_bytes(path: Path, count: int) -> bytes:
    """Up to `count` bytes of the content, unpacked if it is gzipped."""
    return next(byte_blocks(path), b"")[:count]


def shown(text: bytes) -> str:
    """A piece of a file as it appears in a message."""
    cut = text[:_SHOWN].decode("utf-8", errors="replace")
    return repr(cut + "…" if len(text) > _SHOWN else cut)


def is_number(field: bytes) -> bool:
    """Whether `field` is written like a decimal number; `nan`, `1_000` and `0x10` are not."""
    if not field or field.translate(None, _NUMBER_CHARACTERS):
        return False
    try:
        float(field)
    except ValueError:
        return False
    return True


def number_fault(field: bytes) -> str | None:
    """Why `field` is not a float32 number, or None if it is one."""
    if not is_number(field):
        return "expected a finite decimal number"
    return "too large for float32" if abs(float(field)) >= FLOAT32_END else None


def parse_numbers(joined: bytes, count: int, separator: str) -> FloatArray | None:
    """The (count,) float32 numbers of fields joined by a separator; None unless all are finite numbers.

    Where the separator is a space, fields must not hold any.
    """
    # Numpy takes tabs for spaces and runs of them for one. With no other characters than these, a field between spaces
    # gives one number or, if it is empty, none; so the right total means one number per field. With another separator
    # numpy passes over spaces around a number and stops at an empty field, but takes a field of spaces alone for -1.
    if joined.translate(None, _NUMBER_CHARACTERS + b" " + separator.encode()):
        return None
    if separator != " " and b" " in joined and re.search(f"(?:^|{separator}) *(?:$|{separator})".encode(), joined):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # how older numpy reports unreadable text
            values: FloatArray = np.fromstring(joined, dtype=np.float32, sep=separator)
    except (ValueError, DeprecationWarning):
        return None
    return values if values.size == count and np.isfinite(values).all() else None


class SkippedLinesWarning(UserWarning):
    """Lines of a file were left out because `on_bad_line="skip"` asked for it.

    Args:
        path: the file.
        count: how many lines or rows were left out.
        first: the first of them, and why it was left out.
    """

    def __init__(self, path: Path, count: int, first: str) -> None:
        super().__init__(path, count, first)  # what pickle calls the class with again
        self.count = count
        self.first = first

    def __str__(self) -> str:
        path, count, first = self.args
        return printable.shown(f"{path}: skipped {count} bad lines or rows, the first: {first}")


class RowCollector:
    """Collects symbols and vectors row by row. Memory grows with the data that arrives, not with what a header claims.

    Args:
        path: the file, for messages.
        unit: what messages call a row of this format: "line" or "row".
        limit: how much memory all rows may take.
        on_bad_line: "refuse" the file when a row cannot be used, or "skip" and count the row.
    """

    def __init__(self, path: Path | str, unit: str, limit: MemoryLimit, on_bad_line: str = "refuse") -> None:
        self.numbers: dict[str, int] = {}
        """The line or row of each symbol, in the order of the table."""
        self.skipped = 0
        self._path, self._unit, self._on_bad_line = Path(path), unit, on_bad_line
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
        """Add row `number`; reject it if its symbol is not UTF-8 or not new, or a number is not finite."""
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
            self.add_values(vector)
        self._count_symbols(1, len(symbol))
        self.numbers[name] = number

    def add_fields(self, number: int, symbol: bytes, fields: list[bytes], name: Callable[[int], str]) -> None:
        """Add a row of numbers in decimal; reject it by the `name` of the first field that is not a number."""
        for place, field in enumerate(fields):
            if fault := number_fault(field):
                self.reject(number, f"{name(place)} of {shown(symbol)} is {shown(field)}, {fault}")
                return
        self.add(number, symbol, np.array([float(field) for field in fields], dtype=np.float32))

    def add_all(self, numbers: Sequence[int], symbols: list[str], values: FloatArray) -> bool:
        """Add rows by number, with (n, d) or (n * d,) finite values, if every symbol is new; otherwise none, and False.

        Symbols that are empty or not UTF-8 are for `add` to reject.
        """
        fresh = dict(zip(symbols, numbers, strict=True))
        if len(fresh) != len(symbols) or "" in fresh or not self.numbers.keys().isdisjoint(fresh):
            return False
        self._count_symbols(len(symbols), sum(map(len, symbols)))
        self.numbers.update(fresh)
        self.add_values(values)
        return True

    def add_values(self, values: FloatArray) -> None:
        """Add (n, d) or (d,) values."""
        end = self._used + values.size
        self._limit.check(f"{end} numbers and {len(self)} symbols", _VALUE_BYTES * end + self._symbol_bytes)
        if end > self._values.size:
            # Growing in place moves pages instead of copying them; a quarter more keeps the number of moves small.
            self._values.resize(max(end, self._values.size + self._values.size // 4), refcheck=False)
        self._values[self._used : end] = values.reshape(-1)
        self._used = end

    def _count_symbols(self, count: int, text: int) -> None:
        self._symbol_bytes += count * SYMBOL_BYTES + text
        self._limit.check(f"{len(self) + count} symbols", self._symbol_bytes)

    def table(self, dim: int) -> VectorTable:
        """The table of all rows; no more can be added afterwards."""
        if not self.numbers:
            raise FormatError(f"{self._path}: no usable row was found; {self.skipped} bad {self._unit}s were skipped")
        if self.skipped:
            warn_caller(SkippedLinesWarning(self._path, self.skipped, self._first_skipped))
        return VectorTable(list(self.numbers), self.matrix(dim))

    def matrix(self, dim: int) -> FloatArray:
        """The (N, d) values; no more can be added afterwards."""
        self._values.resize(self._used, refcheck=False)
        return self._values.reshape(-1, dim)
