"""Sorted symbols in blocks of 128, each deflated by itself; the blocks that were asked for last stay inflated."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cached_property
from threading import Lock
from typing import NamedTuple

import numpy as np

from kdcode import bitpack
from kdcode.errors import StorageError
from kdcode.limits import MemoryLimit
from kdcode.stored_array import ArrayInFile

BLOCK_SYMBOLS = 128
MAX_SYMBOL_BYTES = 65_535
END = b"\xff"
"""What follows every symbol; UTF-8 never uses this byte."""

_MAX_BLOCK_BYTES = BLOCK_SYMBOLS * (MAX_SYMBOL_BYTES + 1)
_RAW_DEFLATE = -15
_KEPT_BYTES = 8 << 20
"""What the blocks that are kept may take: all of half a million words; of the largest blocks, only the last is kept."""
_BLOCK_OVERHEAD = 256
"""Bytes that a kept block takes beside its text and its rows."""


class Block(NamedTuple):
    """A block in memory, as it was when it was read and checked.

    Attributes:
        text: 0xFF, and then the symbols, each followed by 0xFF.
        rows: the row of each symbol, packed as in `order`.
    """

    text: bytes
    rows: bytes

    def place_of(self, key: bytes) -> int | None:
        """How many symbols stand before the one with these bytes of UTF-8; None where it is not in the block.

        A list of symbols could be bisected in a microsecond less, and takes seven times the memory.
        """
        start = self.text.find(END + key + END)
        return None if start < 0 else self.text.count(END, 0, start)

    def symbols(self) -> list[bytes]:
        """The symbols as UTF-8."""
        return parted(self.text[1:])


class SymbolBlocks:
    """The blocks of `count` symbols and their rows, checked as they are read.

    Args:
        count: how many symbols there are.
        arrays: `blocks` (bytes,) uint8, the deflated blocks; `ends` (count/128,) uint64, where each of them ends;
            `heads` (bytes,) uint8, the first symbol of each, followed by 0xFF; `order` (count/8, bits) uint8, rank to
            row, eight ranks to a packed row.
        limit: how much memory all symbols may take together, where they come from a file; None where they may take any.
    """

    def __init__(self, count: int, arrays: Mapping[str, ArrayInFile], limit: MemoryLimit | None = None) -> None:
        self._count = count
        self._blocks, self._ends, self._stored_heads, self._order = (
            arrays[name] for name in ("blocks", "ends", "heads", "order")
        )
        self._row_bits = self._order.shape[1]
        self._limit = limit
        self._kept: OrderedDict[int, Block] = OrderedDict()
        """Blocks by number, the one that was asked for last at the end."""
        self._kept_bytes = 0
        self._lock = Lock()

    @cached_property
    def heads(self) -> list[bytes]:
        """The first symbol of each block."""
        text = np.asarray(self._stored_heads).tobytes()
        if not text.endswith(END) or text.count(END) != len(self._ends):
            raise StorageError(f"symbols.heads: expected {len(self._ends)} heads, each followed by 0xFF")
        return parted(text)

    def find(self, key: bytes) -> int | None:
        """The row of the symbol with these bytes of UTF-8, or None. Reads nothing of the file if its block is kept."""
        number = bisect_right(self.heads, key) - 1
        if number < 0:
            return None
        block = self.block(number)
        place = block.place_of(key)
        if place is None:
            return None
        row = bitpack.value_at(block.rows, place, self._row_bits)
        if row >= self._count:
            rank = number * BLOCK_SYMBOLS + place
            raise StorageError(f"symbols.order: rank {rank} points to row {row} of {self._count}")
        return row

    def block(self, number: int) -> Block:
        """A block; those that were asked for last are kept, and several threads may ask at once."""
        with self._lock:
            block = self._kept.get(number)
            if block is not None:
                self._kept.move_to_end(number)
                return block
        packed_rows = slice(number * BLOCK_SYMBOLS // 8, (number + 1) * BLOCK_SYMBOLS // 8)
        block = Block(END + self.inflate(number), self._order[packed_rows].tobytes())
        with self._lock:
            if number not in self._kept:  # no other thread was quicker
                self._kept[number] = block
                self._kept_bytes += _memory_of(block)
            while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= _memory_of(self._kept.popitem(last=False)[1])
        return block

    def texts(self) -> Iterator[bytes]:
        """The text of every block in order.

        Raises:
            LimitError: what was inflated so far is more than all symbols may take.
        """
        reached = 0
        for number in range(len(self._ends)):
            text = self.inflate(number)
            reached += len(text)
            if self._limit is not None:
                self._limit.check(f"symbols.blocks: the text of the symbols up to block {number}", reached)
            yield text

    def inflate(self, number: int) -> bytes:
        """The checked text of a block: as many symbols as it must hold, its head first, each followed by 0xFF.

        Each symbol is valid UTF-8, of a length that is allowed.
        """
        start, end = [0, *self._ends[max(number - 1, 0) : number + 1].tolist()][-2:]
        if not start <= end <= len(self._blocks):
            raise StorageError(f"symbols.ends: block {number} lies outside the stored blocks")
        inflater = zlib.decompressobj(_RAW_DEFLATE)
        try:
            text = inflater.decompress(self._blocks[start:end].tobytes(), _MAX_BLOCK_BYTES)
            text.replace(END, b"\0").decode("utf-8")  # a NUL between them, so that two halves cannot make a character
        except zlib.error as error:
            raise StorageError(f"symbols.blocks: block {number} cannot be inflated: {error}") from None
        except UnicodeDecodeError as error:
            raise StorageError(f"symbols.blocks: block {number} is not UTF-8: {error.reason}") from None
        expected = min(BLOCK_SYMBOLS, self._count - number * BLOCK_SYMBOLS)
        whole = inflater.eof and not inflater.unused_data and text.endswith(END)
        if not whole or text.count(END) != expected:
            raise StorageError(f"symbols.blocks: block {number} does not hold the {expected} symbols it should")
        if not text.startswith(self.heads[number] + END):
            raise StorageError(f"symbols.heads: head {number} is not the first symbol of its block")
        longest = max(map(len, parted(text))) if len(text) > MAX_SYMBOL_BYTES else 0
        if longest > MAX_SYMBOL_BYTES:
            raise StorageError(f"symbols.blocks: block {number} holds a symbol of {longest} bytes")
        return text


def deflate(symbols: list[bytes]) -> bytes:
    """The stored form of a block."""
    deflater = zlib.compressobj(level=9, wbits=_RAW_DEFLATE)
    return deflater.compress(block_text(symbols)) + deflater.flush()


def block_text(symbols: list[bytes]) -> bytes:
    """Symbols one after another, each followed by 0xFF."""
    return b"".join(symbol + END for symbol in symbols)


def parted(text: bytes) -> list[bytes]:
    """Undo `block_text`."""
    return text[:-1].split(END)


def _memory_of(block: Block) -> int:
    return len(block.text) + len(block.rows) + _BLOCK_OVERHEAD
