"""Sorted symbols in blocks of 128, each deflated by itself; a few blocks that were asked for stay inflated."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from threading import Lock

import numpy as np

from kdcode.errors import StorageError
from kdcode.limits import MemoryLimit
from kdcode.stored_array import ArrayInFile

BLOCK_SYMBOLS = 128
MAX_SYMBOL_BYTES = 65_535
END = b"\xff"
"""What follows every symbol; UTF-8 never uses this byte."""

_MAX_BLOCK_BYTES = BLOCK_SYMBOLS * (MAX_SYMBOL_BYTES + 1)
_RAW_DEFLATE = -15
_CACHED_BYTES = 4 << 20
"""What the inflated blocks that are kept may take: hundreds of usual ones; of the largest, only the last is kept."""
_SYMBOL_OVERHEAD = 64
"""Bytes that a symbol takes beside its text."""


class SymbolBlocks:
    """The blocks of `count` symbols, checked as they are inflated.

    Args:
        count: how many symbols there are.
        arrays: `blocks` (bytes,) uint8, the deflated blocks; `ends` (count/128,) uint64, where each of them ends;
            `heads` (bytes,) uint8, the first symbol of each, followed by 0xFF.
        limit: how much memory all symbols may take together, where they come from a file; None where they may take any.
    """

    def __init__(self, count: int, arrays: Mapping[str, ArrayInFile], limit: MemoryLimit | None = None) -> None:
        self._count = count
        self._blocks, self._ends, self._stored_heads = (arrays[name] for name in ("blocks", "ends", "heads"))
        self._limit = limit
        self._kept: dict[int, list[bytes]] = {}
        self._kept_bytes = 0
        self._lock = Lock()

    @cached_property
    def heads(self) -> list[bytes]:
        """The first symbol of each block."""
        text = np.asarray(self._stored_heads).tobytes()
        if not text.endswith(END) or text.count(END) != len(self._ends):
            raise StorageError(f"symbols.heads: expected {len(self._ends)} heads, each followed by 0xFF")
        return _parted(text)

    def block(self, number: int) -> list[bytes]:
        """The symbols of a block; the last few that were asked for stay inflated."""
        symbols = self._kept.get(number)
        if symbols is None:
            symbols = self.symbols_in(number, self.inflate(number))
            self._keep(number, symbols)
        return symbols

    def symbols_in(self, number: int, text: bytes) -> list[bytes]:
        """The symbols of a block whose text is known."""
        symbols = _parted(text)
        if symbols[0] != self.heads[number]:
            raise StorageError(f"symbols.heads: head {number} is not the first symbol of its block")
        longest = max(map(len, symbols))
        if longest > MAX_SYMBOL_BYTES:
            raise StorageError(f"symbols.blocks: block {number} holds a symbol of {longest} bytes")
        return symbols

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
        """The checked text of a block: as many symbols as it must hold, each valid UTF-8 and followed by 0xFF."""
        start, end = (int(self._ends[number - 1]) if number else 0), int(self._ends[number])
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
        return text

    def _keep(self, number: int, symbols: list[bytes]) -> None:
        """Keep a block inflated, and forget the oldest ones that there is no room for beside it."""
        with self._lock:
            if number in self._kept:  # another thread was quicker
                return
            self._kept[number] = symbols
            self._kept_bytes += _memory_of(symbols)
            while self._kept_bytes > _CACHED_BYTES and len(self._kept) > 1:
                self._kept_bytes -= _memory_of(self._kept.pop(next(iter(self._kept))))


def deflate(symbols: list[bytes]) -> bytes:
    """The stored form of a block."""
    deflater = zlib.compressobj(level=9, wbits=_RAW_DEFLATE)
    return deflater.compress(block_text(symbols)) + deflater.flush()


def block_text(symbols: list[bytes]) -> bytes:
    """Symbols one after another, each followed by 0xFF."""
    return b"".join(symbol + END for symbol in symbols)


def _parted(text: bytes) -> list[bytes]:
    return text[:-1].split(END)


def _memory_of(symbols: list[bytes]) -> int:
    return sum(map(len, symbols)) + _SYMBOL_OVERHEAD * len(symbols)
