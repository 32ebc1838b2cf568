"""Symbols of any number brought into the sorted form of a .kdc file, in memory that does not grow with their number.

This is an external merge sort: as many symbols as fit are sorted in memory and written to a file, a run; runs are then
merged, and what comes out of the merge is cut into the blocks that `symbol_blocks` reads.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kdcode.errors import StorageError
from kdcode.symbol_blocks import BLOCK_SYMBOLS, END, block_text, deflate, parted
from kdcode.symbols import encoded_symbol, packed_order, repeated_symbol

RUN_SYMBOLS, RUN_BYTES = 1 << 18, 32 << 20
"""How many symbols, and how many bytes of them, are sorted in memory at once."""
_MERGED_RUNS = 64
"""How many runs become one: each takes a file that is open while they are merged."""
_STORED_TOGETHER = 1024
_ROWS_TOGETHER = 1 << 16

Ranked = tuple[bytes, int]
"""A symbol as UTF-8, and its row."""


class SymbolFiles(NamedTuple):
    """The four tensors of sorted symbols, each in a file of its own."""

    blocks: Path
    ends: Path
    heads: Path
    order: Path


class SymbolSorter:
    """Takes the symbols of a table in the order of its rows, and gives them back sorted.

    Args:
        folder: where runs are kept; nobody else writes there, and whoever made it removes it.
        run_symbols: how many symbols are sorted in memory at once.
    """

    def __init__(self, folder: Path, run_symbols: int = RUN_SYMBOLS) -> None:
        self.count = 0
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
            OSError: the disk is full.
        """
        files = SymbolFiles(*(self._folder / f"symbols.{name}" for name in SymbolFiles._fields))
        runs = [_stored(path) for level in self._levels for path in level]
        merged = _distinct(heapq.merge(sorted(self._pending), *runs, *self._sorted))
        reached = 0
        with (
            files.blocks.open("wb") as blocks,
            files.ends.open("wb") as block_ends,
            files.heads.open("wb") as heads,
            files.order.open("wb") as order,
        ):
            for some in _batched(merged, _ROWS_TOGETHER):
                for block in _batched(some, BLOCK_SYMBOLS):
                    symbols = [symbol for symbol, _ in block]
                    reached += blocks.write(deflate(symbols))
                    block_ends.write(reached.to_bytes(8, "little"))
                    heads.write(symbols[0] + END)
                order.write(packed_order(np.array([row for _, row in some]), self.count).data)
        return files

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
                text = block_text([symbol for symbol, _ in some])
                stream.write(np.array([len(some), len(text), *(row for _, row in some)], dtype=np.uint64).data)
                stream.write(text)
        return path


def _stored(path: Path) -> Iterator[Ranked]:
    """What `_store` wrote."""
    with path.open("rb") as stream:
        while sizes := stream.read(16):
            count, length = np.frombuffer(sizes, dtype=np.uint64).tolist()
            rows = np.frombuffer(stream.read(8 * count), dtype=np.uint64).tolist()
            yield from zip(parted(stream.read(length)), rows, strict=True)


def _batched(ranked: Iterable[Ranked], count: int) -> Iterator[list[Ranked]]:
    """So many at a time, and what is left at the end."""
    left = iter(ranked)
    while some := list(islice(left, count)):
        yield some


def _distinct(ranked: Iterable[Ranked]) -> Iterator[Ranked]:
    """Sorted symbols, refused where one follows itself, or where a file has them in another order."""
    last: Ranked | None = None
    for one in ranked:
        if last is not None and one[0] <= last[0]:
            if one[0] == last[0]:
                raise repeated_symbol(one[0], last[1], one[1])
            raise StorageError(f"symbols.blocks: {one[0].decode('utf-8')!r} is not in its place")
        last = one
        yield one
