"""Symbols of any number brought into the sorted form of a .kdc file, in memory that does not grow with their number.

This is an external merge sort: as many symbols as fit are sorted in memory and written to a file, a run; runs are then
merged into one, which is read twice: codes are learned from some of its symbols, and then all are coded.
"""

from __future__ import annotations

import heapq
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from kdcode import _core
from kdcode.bitpack import row_bytes
from kdcode.symbols import END, encoded_symbol, packed_order, start_bits, survey, symbols_text

RUN_SYMBOLS, RUN_BYTES = 1 << 18, 32 << 20
"""How many symbols, and how many bytes of them, are sorted in memory at once."""
_MERGED_RUNS = 64
"""How many runs become one: each takes a file that is open while they are merged."""
_STORED_TOGETHER = 1024
"""Symbols in a piece of a run; a multiple of 8, so that their rows are whole bytes of `order`."""
_PAIRS_TOGETHER = 1 << 16

Ranked = tuple[bytes, int]
"""A symbol as UTF-8, and its row."""


class SymbolFiles(NamedTuple):
    """The four tensors of sorted symbols, each in a file of its own."""

    strings: Path
    blocks: Path
    starts: Path
    order: Path


class SymbolSorter:
    """Takes the symbols of a table in the order of its rows, and gives them back sorted.

    Args:
        folder: where runs are kept; nobody else writes there, and whoever made it removes it.
        run_symbols: how many symbols are sorted in memory at once.
    """

    def __init__(self, folder: Path, run_symbols: int = RUN_SYMBOLS) -> None:
        self.count = 0
        self.start_bytes = 0
        """Bytes of a row of `starts`, once it is written."""
        self._folder = folder
        self._run_symbols = run_symbols
        self._pending: list[Ranked] = []
        self._pending_bytes = 0
        self._levels: list[list[Path]] = [[]]
        """Runs by how often they were merged."""
        self._made = 0
        self._sorted: list[Iterable[Ranked]] = []

    def add(self, symbols: Sequence[str]) -> None:
        """Take the symbols of the next rows.

        Raises:
            TableError: one cannot be stored; it is named with its row.
            OSError: the disk is full.
        """
        for symbol in symbols:
            encoded = encoded_symbol(symbol, self.count)
            self._pending.append((encoded, self.count))
            self._pending_bytes += len(encoded)
            self.count += 1
            if len(self._pending) >= self._run_symbols or self._pending_bytes >= RUN_BYTES:
                self._write_pending()

    def add_sorted(self, ranked: Iterable[Ranked], count: int) -> None:
        """Take the symbols of the next `count` rows, sorted already, with the rows they have; read at the end."""
        self._sorted.append(ranked)
        self.count += count

    def write(self) -> SymbolFiles:
        """Merge all symbols into the files of the four tensors, in the same folder.

        Raises:
            TableError: two rows have the same symbol; it is named with both rows.
            StorageError: symbols that came sorted are not.
            OSError: the disk is full.
        """
        files = SymbolFiles(*(self._folder / f"symbols.{name}" for name in SymbolFiles._fields))
        runs = [_stored(path) for level in self._levels for path in level]
        run = self._store(heapq.merge(sorted(self._pending), *runs, *self._sorted))
        builder, row_before = _core.SymbolBuilder(self.count), -1
        for rows, text in _pieces(run):
            survey(builder, text, rows, row_before)
            row_before = rows[-1]
        files.strings.write_bytes(builder.learn())
        with ExitStack() as stack:
            outputs = [stack.enter_context((self._folder / name).open("wb")) for name in ("heads", "coded", "pairs")]
            order = stack.enter_context(files.order.open("wb"))
            for rows, text in _pieces(run):
                builder.write(text)
                _write_each(outputs, builder.take())
                order.write(packed_order(np.array(rows), self.count).data)
            builder.finish()
            _write_each(outputs, builder.take())
        run.unlink()
        self._join(files)
        return files

    def _join(self, files: SymbolFiles) -> None:
        """Put the blocks behind their heads, and pack where they begin."""
        heads, coded, pairs = (self._folder / name for name in ("heads", "coded", "pairs"))
        head_bytes = heads.stat().st_size
        heads.rename(files.blocks)
        with files.blocks.open("ab") as blocks, coded.open("rb") as rest:
            shutil.copyfileobj(rest, blocks)
        bits = start_bits(files.blocks.stat().st_size)
        self.start_bytes = row_bytes([bits, bits])
        with files.starts.open("wb") as starts, pairs.open("rb") as unpacked:
            while some := unpacked.read(16 * _PAIRS_TOGETHER):
                starts.write(_core.pack_starts(some, head_bytes, bits))
        coded.unlink()
        pairs.unlink()

    def _write_pending(self) -> None:
        self._pending.sort()
        self._levels[0].append(self._store(self._pending))
        self._pending, self._pending_bytes = [], 0
        for number, level in enumerate(self._levels):
            if len(level) < _MERGED_RUNS:
                return
            if number + 1 == len(self._levels):
                self._levels.append([])
            self._levels[number + 1].append(self._store(heapq.merge(*map(_stored, level))))
            for path in level:
                path.unlink()
            level.clear()

    def _store(self, ranked: Iterable[Ranked]) -> Path:
        """Write a run: pieces of how many symbols there are, how many bytes they take, their rows and their text."""
        path = self._folder / f"run-{self._made}"
        self._made += 1
        with path.open("wb") as stream:
            for some in _batched(ranked, _STORED_TOGETHER):
                text = symbols_text(symbol for symbol, _ in some)
                stream.write(np.array([len(some), len(text), *(row for _, row in some)], dtype=np.uint64).data)
                stream.write(text)
        return path


def _pieces(path: Path) -> Iterator[tuple[list[int], bytes]]:
    """What `_store` wrote: rows, and the text of their symbols."""
    with path.open("rb") as stream:
        while sizes := stream.read(16):
            count, length = np.frombuffer(sizes, dtype=np.uint64).tolist()
            rows = np.frombuffer(stream.read(8 * count), dtype=np.uint64).tolist()
            yield rows, stream.read(length)


def _stored(path: Path) -> Iterator[Ranked]:
    """The same, symbol by symbol."""
    for rows, text in _pieces(path):
        yield from zip(text[:-1].split(END), rows, strict=True)


def _write_each(files: Iterable[BinaryIO], contents: Iterable[bytes]) -> None:
    for file, content in zip(files, contents, strict=True):
        file.write(content)


def _batched(ranked: Iterable[Ranked], count: int) -> Iterator[list[Ranked]]:
    """So many at a time, and what is left at the end."""
    left = iter(ranked)
    while some := list(islice(left, count)):
        yield some
