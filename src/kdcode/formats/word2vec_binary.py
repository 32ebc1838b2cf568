"""word2vec binary: the header "rows dimension", then for each row `symbol`, a space and d little-endian float32.

word2vec itself ends every row with a line break, gensim does not; both are read. Gzipped files are read as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kdcode.errors import FormatError
from kdcode.formats import writing
from kdcode.formats.bad_rows import BadRows
from kdcode.formats.blocks import byte_blocks, is_gzip
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.row_buffer import RowBuffer
from kdcode.formats.text_rows import Header, shown, utf8_fault
from kdcode.table import VectorTable

if TYPE_CHECKING:
    from kdcode.evaluation.reconstruction import Rows

MAX_SYMBOL_BYTES = 1 << 16
_MAX_HEADER_BYTES = 64
_MAX_DEFLATE_RATIO = 1032  # the most that one byte of gzip can become


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a word2vec binary file. Rows are numbered from 1 in messages."""
    window = _Window(byte_blocks(path, on_progress))
    header = _header(path, window)
    bad = BadRows(path, options.on_bad_line, unit="row")
    places: dict[str, int] = {}
    vectors = RowBuffer(header.dim)
    wanted = min(header.rows, options.limit or header.rows)
    for number in range(1, header.rows + 1):
        symbol, data = _row(path, window, number, header)
        vector = np.frombuffer(data, dtype="<f4")
        fault = _fault(symbol, vector, places)
        if fault is not None:
            bad.found(number, fault)
            continue
        places[symbol.decode("utf-8")] = number
        vectors.append(vector)
        if len(places) == wanted:
            break
    _check_end(path, window, header, number)
    if not places:
        raise FormatError(f"{path}: no usable row was found; {bad.count} bad rows were skipped")
    bad.warn(calls_deep=1)
    return VectorTable(list(places), vectors.finish())


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

    def has(self, count: int) -> bool:
        """Whether `count` more bytes can be taken; fetches them."""
        while len(self._held) - self._start < count:
            block = next(self._blocks, None)
            if block is None:
                return False
            self._held = self._held[self._start :] + block
            self._start = 0
        return True

    def take(self, count: int) -> bytes:
        """The next `count` bytes, which `has` has promised."""
        self._start += count
        return self._held[self._start - count : self._start]

    def take_until(self, end: bytes, limit: int) -> bytes | None:
        """The bytes before the next `end`, which is passed over; None if it is not among the next `limit` bytes."""
        place = self._held.find(end, self._start, self._start + limit)
        if place < 0:
            self.has(limit)
            place = self._held.find(end, self._start, self._start + limit)
            if place < 0:
                return None
        found = self._held[self._start : place]
        self._start = place + 1
        return found


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


def _row(path: Path, window: _Window, number: int, header: Header) -> tuple[bytes, bytes]:
    symbol = window.take_until(b" ", MAX_SYMBOL_BYTES)
    if symbol is None:
        if window.has(MAX_SYMBOL_BYTES):
            raise FormatError(
                f"{path}: row {number}: expected a symbol and a space, found no space in {MAX_SYMBOL_BYTES} bytes; "
                f"the dimension {header.dim} of the header may be wrong"
            )
        raise _truncated(path, number, header)
    if not window.has(4 * header.dim):
        raise _truncated(path, number, header)
    return symbol.lstrip(b"\n"), window.take(4 * header.dim)


def _truncated(path: Path, number: int, header: Header) -> FormatError:
    return FormatError(
        f"{path}: row {number}: the file ends inside this row, the header promises {header.rows} rows of "
        f"{header.dim} numbers; it is truncated (limit= reads the rows that are there)"
    )


def _check_end(path: Path, window: _Window, header: Header, last: int) -> None:
    """Refuse bytes after the last row; there is nothing to check when reading stopped early."""
    if last < header.rows:
        return
    if window.has(1) and (window.take(1) != b"\n" or window.has(1)):
        raise FormatError(
            f"{path}: row {header.rows + 1}: expected the end of the file after the {header.rows} rows "
            "that the header promises, found more"
        )


def _fault(symbol: bytes, vector: np.ndarray[tuple[int], np.dtype[np.float32]], places: dict[str, int]) -> str | None:
    """What is wrong with a row, or None."""
    if not symbol:
        return "expected a symbol before the numbers, found none"
    if fault := utf8_fault(symbol):
        return fault
    name = symbol.decode("utf-8")
    if name in places:
        return f"the symbol {name!r} stands in row {places[name]} already; symbols must be distinct"
    if not np.isfinite(vector).all():
        place = int(np.isfinite(vector).argmin())
        return f"number {place + 1} of {name!r} is {vector[place]}, expected a finite number"
    return None


def _symbol_fault(symbol: str) -> str | None:
    fault = writing.plain_symbol_fault(symbol)
    if fault is None and len(symbol.encode("utf-8")) >= MAX_SYMBOL_BYTES:
        return f"takes more than {MAX_SYMBOL_BYTES - 1} bytes"
    return fault
