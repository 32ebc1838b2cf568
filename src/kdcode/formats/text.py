"""Text with one symbol and its numbers per line: GloVe, and with a header before the rows word2vec text and fastText.

Lines are parsed a block at a time: the numbers of a whole block are joined and read by numpy in one go. Only when a
block does not come out exactly right is it read again line by line, to say which line is wrong and how.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from kdcode.errors import FormatError
from kdcode.formats import writing
from kdcode.formats.blocks import line_blocks
from kdcode.formats.file_rows import FileRows, shown
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.numbers import is_number, number_fault, parsed
from kdcode.rows import Rows
from kdcode.table import VectorTable

SAMPLE_LINES = 100
_LINE_END = b" \t\r"  # fastText ends lines with a space, Windows with a carriage return

Blocks = Iterable[tuple[int, list[bytes]]]
"""Lines in blocks, each with the number of its first line."""


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


def read_without_header(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a GloVe file, which starts with its first row; symbols may hold spaces.

    The dimension is the one that most of the first 100 lines have.
    """
    blocks = line_blocks(path, on_progress, options.memory_limit(path))
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
    rows = TextRows(path, options, dim, spaces=True)
    rows.add_blocks(chain([(1, lines)], blocks), options.limit)
    return rows.table(dim)


def read_with_header(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a word2vec text or fastText file, whose rows must be as many as its header says."""
    blocks = line_blocks(path, on_progress, options.memory_limit(path))
    lines = _first_lines(path, blocks)
    header = Header.parse(lines[0])
    if header is None:
        raise FormatError(
            f"{path}: line 1: expected the header 'rows dimension', two positive integers, found {shown(lines[0])}; "
            "a file without a header is read with format='glove'"
        )
    rows = TextRows(path, options, header.dim, spaces=False)
    wanted = options.limit and min(options.limit, header.rows)
    rows.add_blocks(_promised(path, header, chain([(2, lines[1:])], blocks)), wanted)
    read = len(rows) + rows.skipped
    if read < header.rows and len(rows) != wanted:
        raise FormatError(
            f"{path}: line {read + 2}: the file ends after {read} rows, line 1 promises {header.rows}; "
            "it is truncated (limit= reads the rows that are there)"
        )
    return rows.table(header.dim)


def write_without_header(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a GloVe file."""
    _write(rows, path, on_progress, header=b"")


def write_with_header(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a word2vec text or fastText file."""
    _write(rows, path, on_progress, header=f"{len(rows)} {rows.embedding_dim}\n".encode())


def trailing_numbers(line: bytes, delimiter: bytes = b" ") -> int:
    """How many numbers end the line, its first field not counted."""
    fields = line.rstrip(_LINE_END).split(delimiter)
    words = (place for place in range(len(fields) - 1, 0, -1) if not is_number(fields[place].strip(b" ")))
    return len(fields) - 1 - next(words, 0)


def guess_dimension(lines: list[bytes], delimiter: bytes = b" ") -> int:
    """The most common count of numbers at the end of the lines; 0 if there are none.

    Counting from the right is exact even for symbols with spaces. Of equally common counts the smaller one wins.
    """
    counts = [trailing_numbers(line, delimiter) for line in lines]
    return max(sorted(set(counts)), key=counts.count)


def symbol_fault(symbol: str, *, spaces: bool = False) -> str | None:
    """Why a symbol would not come back from a row that it begins, or None; `spaces` are those that it may hold."""
    if not symbol:
        return "is empty, and this format has no place for that"
    if "\n" in symbol:
        return "holds a line break, which ends a row in this format"
    if " " in symbol and not spaces:
        return "holds a space, which ends a symbol in this format"
    if " " in symbol and is_number(symbol.rpartition(" ")[2].encode("utf-8")):
        # Read from the right, "area 51" would be the symbol "area" with one number too many.
        return "ends in a space and a number, which would be read as part of the vector"
    return None


class TextRows(FileRows):
    """Rows gathered from lines.

    Args:
        path: the file, for messages.
        options: how it is read.
        dim: numbers per line, d.
        spaces: whether a symbol may hold spaces; its last word may then not be a number.
    """

    def __init__(self, path: Path, options: ReadOptions, dim: int, *, spaces: bool) -> None:
        super().__init__(path, "line", options.memory_limit(path), options.on_bad_line)
        self._dim = dim
        self._spaces = spaces

    def add_blocks(self, blocks: Blocks, limit: int | None) -> None:
        """Add lines until there are `limit` rows; bad lines that are skipped do not count."""
        for first, lines in blocks:
            start = 0
            while start < len(lines) and len(self) != limit:
                end = len(lines) if limit is None else start + limit - len(self)
                self._add(first + start, lines[start:end])
                start = end
            if len(self) == limit:
                return

    def _add(self, first: int, lines: list[bytes]) -> None:
        if not self._add_together(first, lines):
            for number, line in enumerate(lines, first):
                self._add_one(number, line.rstrip(_LINE_END))

    def _add_together(self, first: int, lines: list[bytes]) -> bool:
        """Add all lines if every one of them is right; otherwise none, and False."""
        pairs = [self._split(line.rstrip(_LINE_END)) for line in lines]
        numbers = b" ".join([pair[1] for pair in pairs])
        values = parsed(numbers, len(lines) * self._dim, " ")
        if values is None:
            return False
        try:
            symbols = b"\n".join([pair[0] for pair in pairs]).decode("utf-8").split("\n")
        except UnicodeDecodeError:
            return False
        return self.add_all(range(first, first + len(lines)), symbols, values)

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
        symbol, *fields = line.rsplit(b" ", self._dim)
        if fault := self._fault(line, symbol, fields):
            self.reject(number, fault)
        else:
            self.add(number, symbol, np.array([float(field) for field in fields], dtype=np.float32))

    def _fault(self, line: bytes, symbol: bytes, fields: list[bytes]) -> str | None:
        """What is wrong with the numbers of a line, or None."""
        if not line:
            return f"the line is empty, expected a symbol and {self._dim} numbers"
        count = len(fields)
        if _ends_in_number(symbol) or (b" " in symbol and not self._spaces):
            count = trailing_numbers(line) if self._spaces else line.count(b" ")
        if count != self._dim:
            return f"expected {self._dim} numbers after the symbol, found {count}, in {shown(line)}"
        if not symbol:
            return f"expected a symbol before the {self._dim} numbers, found none"
        for place, field in enumerate(fields, 1):
            if fault := number_fault(field):
                return f"number {place} of {shown(symbol)} is {shown(field)}, {fault}"
        return None


def _first_lines(path: Path, blocks: Iterator[tuple[int, list[bytes]]]) -> list[bytes]:
    first = next(blocks, None)
    if first is None:
        raise FormatError(f"{path}: the file is empty, expected at least one row")
    return first[1]


def _promised(path: Path, header: Header, blocks: Blocks) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of the rows that the header promises; any but blank ones after them are refused."""
    for first, lines in blocks:
        rows = lines[: max(0, header.rows + 2 - first)]  # row 1 stands in line 2
        if any(line.strip() for line in lines[len(rows) :]):
            raise FormatError(
                f"{path}: line {header.rows + 2}: expected the end of the file after the {header.rows} rows "
                "that line 1 promises, found more"
            )
        yield first, rows


def _ends_in_number(symbol: bytes) -> bool:
    return b" " in symbol and is_number(symbol.rpartition(b" ")[2])


def _write(rows: Rows, path: Path, on_progress: Progress | None, *, header: bytes) -> None:
    """Write one line per row. Numbers have the fewest digits that give back the same float32."""
    with writing.fresh_file(path) as stream:
        stream.write(header)
        fault = partial(symbol_fault, spaces=not header)
        for symbols, vectors in writing.checked_chunks(rows, path, fault, on_progress):
            numbers = vectors.astype("U32").tolist()
            lines = (f"{symbol} {' '.join(row)}\n" for symbol, row in zip(symbols, numbers, strict=True))
            stream.write("".join(lines).encode("utf-8"))
