"""Files of word vectors: GloVe, word2vec text and binary, fastText.

Text has a symbol and its numbers in each line, after a header or without one. It is parsed a block of lines at a time:
numpy reads the joined numbers of a whole block. Only a block that does not come out exactly right is read again line by
line, to say which line is wrong and how.

A binary file has the header "rows dimension", then for each row the symbol, a space and d little-endian float32.
word2vec itself ends every row with a line break, gensim does not; both are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from kdcode.errors import FormatError
from kdcode.io.format import ReadOptions, checked_chunks, fresh_file
from kdcode.io.lines import (
    GZIP_MAGIC,
    RowCollector,
    byte_blocks,
    is_number,
    line_blocks,
    parse_numbers,
    shown,
)
from kdcode.io.reader import Progress
from kdcode.rows import Rows
from kdcode.table import VectorTable

SAMPLE_LINES = 100
_LINE_END = b" \t\r"  # fastText ends lines with a space, Windows with a carriage return

Blocks = Iterable[tuple[int, list[bytes]]]
"""Lines in blocks, each with the number of its first line."""

MAX_SYMBOL_BYTES = 1 << 16
_MAX_HEADER_BYTES = 64
_ROW_COPIES = 3
"""How many copies of a row of a binary file are in memory while it is read: among the blocks, alone, in the table."""
_MAX_DEFLATE_RATIO = 1032  # the most that one byte of gzip can become


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


def read_glove(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
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


def read_headed(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a word2vec text or fastText file; its header must state the number of rows that follow."""
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


def write_glove(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a GloVe file."""
    _write(rows, path, on_progress, header=b"")


def write_headed(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a word2vec text or fastText file."""
    _write(rows, path, on_progress, header=f"{len(rows)} {rows.embedding_dim}\n".encode())


def trailing_numbers(line: bytes, delimiter: bytes = b" ") -> int:
    """How many numbers the line ends with; its first field is not counted."""
    fields = line.rstrip(_LINE_END).split(delimiter)
    words = (place for place in range(len(fields) - 1, 0, -1) if not is_number(fields[place].strip(b" ")))
    return len(fields) - 1 - next(words, 0)


def guess_dimension(lines: list[bytes], delimiter: bytes = b" ") -> int:
    """The most common count of numbers at the end of the lines, the smaller one of equals; 0 if there are none.

    Counting from the right is exact even for symbols with spaces.
    """
    counts = [trailing_numbers(line, delimiter) for line in lines]
    return max(sorted(set(counts)), key=counts.count)


def symbol_fault(symbol: str, *, spaces: bool = False) -> str | None:
    """Why a row cannot begin with this symbol and be read again, or None; `spaces` says whether it may hold any."""
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


class TextRows(RowCollector):
    """Collects rows from lines.

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
        """Add all lines if each is valid; otherwise add none and return False."""
        pairs = [self._split(line.rstrip(_LINE_END)) for line in lines]
        numbers = b" ".join([pair[1] for pair in pairs])
        values = parse_numbers(numbers, len(lines) * self._dim, " ")
        if values is None:
            return False
        try:
            symbols = b"\n".join([pair[0] for pair in pairs]).decode("utf-8").split("\n")
        except UnicodeDecodeError:
            return False
        return self.add_all(range(first, first + len(lines)), symbols, values)

    def _split(self, line: bytes) -> tuple[bytes, bytes]:
        """The symbol and the numbers of a line; b"?" for the numbers of a line of another shape."""
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
            self.add_fields(number, symbol, fields, lambda place: f"number {place + 1}")

    def _fault(self, line: bytes, symbol: bytes, fields: list[bytes]) -> str | None:
        """What is wrong with the shape of a line, or None."""
        if not line:
            return f"the line is empty, expected a symbol and {self._dim} numbers"
        count = len(fields)
        if _ends_in_number(symbol) or (b" " in symbol and not self._spaces):
            count = trailing_numbers(line) if self._spaces else line.count(b" ")
        if count != self._dim:
            return f"expected {self._dim} numbers after the symbol, found {count}, in {shown(line)}"
        if not symbol:
            return f"expected a symbol before the {self._dim} numbers, found none"
        return None


def _first_lines(path: Path, blocks: Iterator[tuple[int, list[bytes]]]) -> list[bytes]:
    first = next(blocks, None)
    if first is None:
        raise FormatError(f"{path}: the file is empty, expected at least one row")
    return first[1]


def _promised(path: Path, header: Header, blocks: Blocks) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of the rows that the header promises; more lines are refused unless they are blank."""
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
    with fresh_file(path) as stream:
        stream.write(header)
        fault = partial(symbol_fault, spaces=not header)
        for symbols, vectors in checked_chunks(rows, path, fault, on_progress):
            numbers = vectors.astype("U32").tolist()
            lines = (f"{symbol} {' '.join(row)}\n" for symbol, row in zip(symbols, numbers, strict=True))
            stream.write("".join(lines).encode("utf-8"))


def read_binary(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a word2vec binary file. Messages number its rows from 1."""
    limit = options.memory_limit(path)
    content = _Content(byte_blocks(path, on_progress, limit))
    header = _binary_header(path, content)
    limit.check(f"a row of {header.dim} numbers", _ROW_COPIES * 4 * header.dim)
    rows = RowCollector(path, "row", limit, options.on_bad_line)
    for number in range(1, header.rows + 1):
        _add_binary_row(rows, number, content, header)
        if len(rows) == options.limit:
            break
    if number == header.rows and content.take(2) not in (b"", b"\n"):
        raise rows.refusal(
            number + 1, f"expected the end of the file after the {number} rows that the header promises, found more"
        )
    return rows.table(header.dim)


def write_binary(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a word2vec binary file, with a line break after each row as word2vec does."""
    with fresh_file(path) as stream:
        stream.write(f"{len(rows)} {rows.embedding_dim}\n".encode())
        for symbols, vectors in checked_chunks(rows, path, _binary_symbol_fault, on_progress):
            data = np.ascontiguousarray(vectors, dtype="<f4")
            pairs = zip(symbols, data, strict=True)
            stream.write(b"".join(symbol.encode("utf-8") + b" " + row.tobytes() + b"\n" for symbol, row in pairs))


class _Content:
    """The bytes of a file in order, from its blocks."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._held = b""
        self._start = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes, or the fewer that are left."""
        self._fetch(count)
        taken = self._held[self._start : self._start + count]
        self._start += len(taken)
        return taken

    def take_until(self, end: bytes, limit: int) -> bytes | None:
        """The bytes before the next `end`, which is consumed too; None if it is not among the next `limit` bytes."""
        place = self._held.find(end, self._start, self._start + limit)
        if place < 0:
            self._fetch(limit)
            place = self._held.find(end, self._start, self._start + limit)
            if place < 0:
                return None
        found = self._held[self._start : place]
        self._start = place + 1
        return found

    def _fetch(self, count: int) -> None:
        """Hold `count` bytes if there are as many; each byte is copied once, over any number of blocks."""
        missing = count - (len(self._held) - self._start)
        if missing <= 0:
            return
        pieces = [self._held[self._start :]]
        while missing > 0 and (block := next(self._blocks, None)):
            pieces.append(block)
            missing -= len(block)
        self._held, self._start = b"".join(pieces), 0


def _binary_header(path: Path, content: _Content) -> Header:
    line = content.take_until(b"\n", _MAX_HEADER_BYTES)
    header = None if line is None else Header.parse(line)
    if header is None:
        found = "no line" if line is None else shown(line)
        raise FormatError(f"{path}: line 1: expected the header 'rows dimension', two positive integers, found {found}")
    with path.open("rb") as stream:
        is_packed = stream.read(2) == GZIP_MAGIC
    size = path.stat().st_size
    least = header.rows * (4 * header.dim + 2)  # a symbol of one byte and its space
    if least > (size * _MAX_DEFLATE_RATIO if is_packed else size):
        raise FormatError(
            f"{path}: line 1: the header promises {header.rows} rows of {header.dim} numbers, which take at least "
            f"{least} bytes, but the file has {size}; it is truncated or not word2vec binary"
        )
    return header


def _add_binary_row(rows: RowCollector, number: int, content: _Content, header: Header) -> None:
    symbol = content.take_until(b" ", MAX_SYMBOL_BYTES)
    if symbol is None and len(content.take(MAX_SYMBOL_BYTES)) == MAX_SYMBOL_BYTES:
        raise rows.refusal(
            number,
            f"expected a symbol and a space, found no space in {MAX_SYMBOL_BYTES} bytes; "
            f"the dimension {header.dim} of the header may be wrong",
        )
    vector = content.take(4 * header.dim)
    if symbol is None or len(vector) < 4 * header.dim:
        raise rows.refusal(
            number,
            f"the file ends inside this row, the header promises {header.rows} rows of {header.dim} numbers; "
            "it is truncated (limit= reads the rows that are there)",
        )
    name = symbol.lstrip(b"\n")
    if name:
        rows.add(number, name, np.frombuffer(vector, dtype="<f4"))
    else:
        rows.reject(number, "expected a symbol before the numbers, found none")


def _binary_symbol_fault(symbol: str) -> str | None:
    fault = symbol_fault(symbol)
    if fault is None and len(symbol.encode("utf-8")) >= MAX_SYMBOL_BYTES:
        return f"takes more than {MAX_SYMBOL_BYTES - 1} bytes"
    return fault
