"""Text with one symbol and its numbers per line: what GloVe, word2vec text and fastText share when read.

Lines are parsed a block at a time: the numbers of a whole block are joined and read by numpy in one go. Only when a
block does not come out exactly right is it read again line by line, to say which line is wrong and how.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from kdcode.errors import FormatError
from kdcode.formats.bad_rows import BadRows
from kdcode.formats.blocks import line_blocks
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.row_buffer import RowBuffer
from kdcode.table import FloatArray, VectorTable

SAMPLE_LINES = 100
MAX_FLOAT32 = float(np.finfo(np.float32).max)

_NUMBER_BYTES = b"0123456789+-.eE"
_LINE_END = b" \t\r"  # fastText ends lines with a space, Windows with a carriage return
_SHOWN = 60


@dataclass(frozen=True)
class Header:
    """The first line of word2vec and fastText files.

    Args:
        rows: N.
        dim: d.
    """

    rows: int
    dim: int

    @classmethod
    def parse(cls, line: bytes) -> Header | None:
        """The header that `line` holds, or None if it is not two positive integers."""
        fields = line.split()
        if len(fields) != 2 or not all(field.isdigit() and len(field) <= 18 for field in fields):
            return None
        rows, dim = map(int, fields)
        return cls(rows, dim) if rows and dim else None


def is_number(field: bytes) -> bool:
    """Whether `field` is written like a decimal number; `nan`, `1_000` and `0x10` are not."""
    if not field or field.translate(None, _NUMBER_BYTES):
        return False
    try:
        float(field)
    except ValueError:
        return False
    return True


def trailing_numbers(line: bytes) -> int:
    """How many numbers end the line, its first field not counted."""
    fields = line.rstrip(_LINE_END).split(b" ")
    words = (place for place in range(len(fields) - 1, 0, -1) if not is_number(fields[place]))
    return len(fields) - 1 - next(words, 0)


def shown(text: bytes) -> str:
    """A piece of a file as it appears in a message."""
    cut = text[:_SHOWN].decode("utf-8", errors="replace")
    return repr(cut + "…" if len(text) > _SHOWN else cut)


class TextRows:
    """Symbols and vectors gathered from lines.

    Args:
        dim: numbers per line, d.
        spaces: whether a symbol may hold spaces; its last word may then not be a number.
        bad: what to do with lines that cannot be used.
    """

    def __init__(self, dim: int, *, spaces: bool, bad: BadRows) -> None:
        self._dim = dim
        self._spaces = spaces
        self._bad = bad
        self._lines: dict[str, int] = {}  # symbol -> its line; the order of insertion is the order of rows
        self._vectors = RowBuffer(dim)

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, first: int, lines: list[bytes]) -> None:
        """Take in `lines`, of which the first has number `first`."""
        if not self._add_together(first, lines):
            for number, line in enumerate(lines, first):
                self._add_one(number, line.rstrip(_LINE_END))

    def finish(self) -> VectorTable:
        """The table of everything that was added."""
        return VectorTable(list(self._lines), self._vectors.finish())

    def _add_together(self, first: int, lines: list[bytes]) -> bool:
        """Add all lines if every one of them is right; otherwise none, and False."""
        pairs = [self._split(line.rstrip(_LINE_END)) for line in lines]
        numbers = b" ".join([pair[1] for pair in pairs])
        # Numpy takes tabs for spaces and runs of them for one. With no other characters than these, a field gives one
        # number or, if it is empty, none; so the right total means one number per field.
        if numbers.translate(None, _NUMBER_BYTES + b" "):
            return False
        try:
            symbols = b"\n".join([pair[0] for pair in pairs]).decode("utf-8").split("\n")
            with warnings.catch_warnings():
                warnings.simplefilter("error", DeprecationWarning)  # how older numpy reports unreadable text
                values: FloatArray = np.fromstring(numbers, dtype=np.float32, sep=" ")
        except (ValueError, DeprecationWarning):
            return False
        if values.size != len(lines) * self._dim or not np.isfinite(values).all():
            return False
        fresh = dict(zip(symbols, range(first, first + len(symbols)), strict=True))
        if len(fresh) != len(lines) or "" in fresh or not self._lines.keys().isdisjoint(fresh):
            return False
        self._lines.update(fresh)
        self._vectors.append(values)
        return True

    def _split(self, line: bytes) -> tuple[bytes, bytes]:
        """Symbol and numbers of a line; what does not fit gives numbers that cannot be read."""
        if line.count(b" ") == self._dim:
            symbol, _, numbers = line.partition(b" ")
            return symbol, numbers
        symbol, *fields = line.rsplit(b" ", self._dim)
        if not self._spaces or len(fields) != self._dim or _ends_in_number(symbol):
            return symbol, b"?"
        return symbol, b" ".join(fields)

    def _add_one(self, number: int, line: bytes) -> None:
        fault = self._fault(line)
        if fault is None:
            symbol, *fields = line.rsplit(b" ", self._dim)
            name = symbol.decode("utf-8")
            if name not in self._lines:
                self._lines[name] = number
                self._vectors.append(np.array([float(field) for field in fields], dtype=np.float32))
                return
            fault = f"the symbol {name!r} stands in line {self._lines[name]} already; symbols must be distinct"
        self._bad.found(number, fault)

    def _fault(self, line: bytes) -> str | None:
        """What is wrong with a line taken by itself, or None."""
        if not line:
            return f"the line is empty, expected a symbol and {self._dim} numbers"
        symbol, *fields = line.rsplit(b" ", self._dim)
        if len(fields) < self._dim:
            return f"expected {self._dim} numbers after the symbol, found {len(fields)}, in {shown(line)}"
        if _ends_in_number(symbol) or (b" " in symbol and not self._spaces):
            count = trailing_numbers(line) if self._spaces else line.count(b" ")
            return f"expected {self._dim} numbers after the symbol, found {count}, in {shown(line)}"
        if not symbol:
            return f"expected a symbol before the {self._dim} numbers, found none"
        return utf8_fault(symbol) or _number_fault(symbol, fields)


def utf8_fault(symbol: bytes) -> str | None:
    """Why a symbol cannot be decoded, or None."""
    try:
        symbol.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"the symbol {shown(symbol)} is not UTF-8: byte 0x{symbol[error.start]:02x}, {error.reason}"
    return None


def _number_fault(symbol: bytes, fields: list[bytes]) -> str | None:
    for place, field in enumerate(fields, 1):
        if not is_number(field):
            return f"number {place} of {shown(symbol)} is {shown(field)}, expected a finite decimal number"
        if not _fits_float32(float(field)):
            return f"number {place} of {shown(symbol)} is {shown(field)}, too large for float32"
    return None


def _ends_in_number(symbol: bytes) -> bool:
    return b" " in symbol and is_number(symbol.rpartition(b" ")[2])


def _fits_float32(value: float) -> bool:
    if abs(value) <= MAX_FLOAT32:
        return True
    with np.errstate(over="ignore"):  # a little above the largest float32 still rounds to it
        return math.isfinite(np.float32(value))


def read_with_header(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a text file whose first line is "rows dimension"."""
    blocks = line_blocks(path, on_progress)
    lines = _first_lines(path, blocks)
    header = Header.parse(lines[0])
    if header is None:
        raise FormatError(
            f"{path}: line 1: expected the header 'rows dimension', two positive integers, found {shown(lines[0])}; "
            "a file without a header is read with format='glove'"
        )
    bad = BadRows(path, options.on_bad_line)
    rows = TextRows(header.dim, spaces=False, bad=bad)
    wanted = min(header.rows, options.limit or header.rows)
    for first, block in chain([(2, lines[1:])], blocks):
        if _too_many(first, block, header.rows):
            raise FormatError(
                f"{path}: line {header.rows + 2}: expected the end of the file after the {header.rows} rows "
                "that line 1 promises, found more"
            )
        _add_up_to(rows, first, block[: max(0, header.rows + 2 - first)], wanted)
        if options.limit is not None and len(rows) == wanted:
            break
    read = len(rows) + bad.count
    if read < header.rows and len(rows) < wanted:
        raise FormatError(
            f"{path}: line {read + 2}: the file ends after {read} rows, line 1 promises {header.rows}; "
            "it is truncated (limit= reads the rows that are there)"
        )
    return _finish(path, rows, bad)


def read_without_header(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a text file that starts with its first row; symbols may hold spaces."""
    blocks = line_blocks(path, on_progress)
    lines = _first_lines(path, blocks)
    dim = guess_dimension(lines[:SAMPLE_LINES])
    if not dim:
        raise FormatError(
            f"{path}: line 1: expected a symbol and numbers with single spaces between, found {shown(lines[0])}"
        )
    if dim > 1 and (header := Header.parse(lines[0])):
        raise FormatError(
            f"{path}: line 1: expected a symbol and {dim} numbers, found a header of word2vec or fastText "
            f"({header.rows} rows of {header.dim}); use format='word2vec-text'"
        )
    bad = BadRows(path, options.on_bad_line)
    rows = TextRows(dim, spaces=True, bad=bad)
    for first, block in chain([(1, lines)], blocks):
        _add_up_to(rows, first, block, options.limit)
        if len(rows) == options.limit:
            break
    return _finish(path, rows, bad)


def guess_dimension(lines: list[bytes]) -> int:
    """The most common count of numbers at the end of the lines; 0 if there are none.

    Counting from the right is exact even for symbols with spaces. Of equally common counts the smaller one wins.
    """
    counts = [trailing_numbers(line) for line in lines]
    return max(sorted(set(counts)), key=counts.count)


def _first_lines(path: Path, blocks: Iterator[tuple[int, list[bytes]]]) -> list[bytes]:
    first = next(blocks, None)
    if first is None:
        raise FormatError(f"{path}: the file is empty, expected at least one row")
    return first[1]


def _too_many(first: int, lines: list[bytes], promised: int) -> bool:
    excess = first + len(lines) - 2 - promised  # rows of this block beyond the promise; row 1 stands in line 2
    return excess > 0 and any(line.strip() for line in lines[-excess:])


def _add_up_to(rows: TextRows, first: int, lines: list[bytes], limit: int | None) -> None:
    """Add lines until there are `limit` rows; bad lines that are skipped do not count."""
    while lines and (limit is None or len(rows) < limit):
        room = len(lines) if limit is None else limit - len(rows)
        rows.add(first, lines[:room])
        first, lines = first + room, lines[room:]


def _finish(path: Path, rows: TextRows, bad: BadRows) -> VectorTable:
    if not len(rows):
        raise FormatError(f"{path}: no usable row was found; {bad.count} bad lines were skipped")
    bad.warn(calls_deep=3)
    return rows.finish()
