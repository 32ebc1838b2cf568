"""word2vec binary: the header "rows dimension", then for each row `symbol`, a space and d little-endian float32.

word2vec itself ends every row with a line break, gensim does not; both are read. Gzipped files are read as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kdcode.errors import FormatError
from kdcode.formats import text, writing
from kdcode.formats.blocks import byte_blocks, is_gzip
from kdcode.formats.file_rows import FileRows, shown
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.text import Header
from kdcode.rows import Rows
from kdcode.table import VectorTable

MAX_SYMBOL_BYTES = 1 << 16
_MAX_HEADER_BYTES = 64
_ROW_COPIES = 3
"""How often a row stands in memory while it is read: among the blocks, alone, and in the table."""
_MAX_DEFLATE_RATIO = 1032  # the most that one byte of gzip can become


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a word2vec binary file. Rows are numbered from 1 in messages."""
    limit = options.memory_limit(path)
    window = _Window(byte_blocks(path, on_progress, limit))
    header = _header(path, window)
    limit.check(f"a row of {header.dim} numbers", _ROW_COPIES * 4 * header.dim)
    rows = FileRows(path, "row", limit, options.on_bad_line)
    for number in range(1, header.rows + 1):
        _add_row(rows, number, window, header)
        if len(rows) == options.limit:
            break
    if number == header.rows and window.take(2) not in (b"", b"\n"):
        raise rows.refusal(
            number + 1, f"expected the end of the file after the {number} rows that the header promises, found more"
        )
    return rows.table(header.dim)


def write(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a word2vec binary file, with a line break after each row as word2vec does."""
    with writing.fresh_file(path) as stream:
        stream.write(f"{len(rows)} {rows.embedding_dim}\n".encode())
        for symbols, vectors in writing.checked_chunks(rows, path, _symbol_fault, on_progress):
            data = np.ascontiguousarray(vectors, dtype="<f4")
            pairs = zip(symbols, data, strict=True)
            stream.write(b"".join(symbol.encode("utf-8") + b" " + row.tobytes() + b"\n" for symbol, row in pairs))


class _Window:
    """A forward-moving view of a stream of blocks.

    Args:
        blocks: the stream.
    """

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
        """The bytes before the next `end`, which is passed over; None if it is not among the next `limit` bytes."""
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
        """Hold `count` bytes, where there are as many; each byte is copied once, however many blocks that takes."""
        if len(self._held) - self._start >= count:
            return
        pieces = [self._held[self._start :]]
        missing = count - len(pieces[0])
        while missing > 0 and (block := next(self._blocks, None)):
            pieces.append(block)
            missing -= len(block)
        self._held, self._start = b"".join(pieces), 0


def _header(path: Path, window: _Window) -> Header:
    line = window.take_until(b"\n", _MAX_HEADER_BYTES)
    header = None if line is None else Header.parse(line)
    if header is None:
        found = "no line" if line is None else shown(line)
        raise FormatError(f"{path}: line 1: expected the header 'rows dimension', two positive integers, found {found}")
    size = path.stat().st_size
    most = size * _MAX_DEFLATE_RATIO if is_gzip(path) else size
    least = header.rows * (4 * header.dim + 2)  # a symbol of one byte and its space
    if least > most:
        raise FormatError(
            f"{path}: line 1: the header promises {header.rows} rows of {header.dim} numbers, which take at least "
            f"{least} bytes, but the file has {size}; it is truncated or not word2vec binary"
        )
    return header


def _add_row(rows: FileRows, number: int, window: _Window, header: Header) -> None:
    symbol = window.take_until(b" ", MAX_SYMBOL_BYTES)
    if symbol is None and len(window.take(MAX_SYMBOL_BYTES)) == MAX_SYMBOL_BYTES:
        raise rows.refusal(
            number,
            f"expected a symbol and a space, found no space in {MAX_SYMBOL_BYTES} bytes; "
            f"the dimension {header.dim} of the header may be wrong",
        )
    vector = window.take(4 * header.dim)
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


def _symbol_fault(symbol: str) -> str | None:
    fault = text.symbol_fault(symbol)
    if fault is None and len(symbol.encode("utf-8")) >= MAX_SYMBOL_BYTES:
        return f"takes more than {MAX_SYMBOL_BYTES - 1} bytes"
    return fault
