"""Symbols as they are kept in a .kdc file: sorted, coded in blocks of 32, found without unpacking them.

A symbol is how many bytes it shares with the one before, and strings that are frequent in these symbols, both in prefix
codes. docs/format.md has the form, core/symbols.cpp reads and writes it; benchmarks/symbol_index.py is why.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from string import ascii_lowercase
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from kdcode import _core, bitpack
from kdcode.arrays import CHUNK_ROWS, IntArray
from kdcode.errors import RowError, StorageError, TableError, UnknownSymbolError
from kdcode.limits import MemoryLimit
from kdcode.stored_array import ArrayInFile, StoredArray

BLOCK_SYMBOLS = 32
MAX_SYMBOL_BYTES = 65_535
END = b"\xff"
"""What follows a symbol in text; UTF-8 never uses this byte."""

_LONGEST_TYPO = 24
"""Characters of a symbol up to which spellings that are one letter away are looked up."""
_BLOCKS_READ = 16
"""Blocks that are unpacked together: symbols of 64 KiB, which a file of a few bytes can hold, take 32 MiB of them."""
_BLOCKS_VERIFIED = 1 << 12
"""Blocks that the core verifies in some hundredths of a second."""


class _Symbols(Sequence[str]):
    """N distinct strings in row order; its kinds know how to find them.

    Args:
        count: N.
    """

    def __init__(self, count: int) -> None:
        self._count = count

    @abstractmethod
    def _at(self, rows: IntArray) -> list[str]:
        """The symbols of rows that are there."""

    @abstractmethod
    def find(self, symbol: str) -> int | None:
        """The row of `symbol`, or None."""

    def at(self, rows: Iterable[int]) -> list[str]:
        """The symbols of several rows."""
        return self._at(checked_rows(np.fromiter(rows, dtype=np.int64), self._count))

    def row_of(self, symbol: str) -> int:
        """The row of `symbol`.

        Raises:
            UnknownSymbolError: there is none; the message suggests another spelling that exists.
        """
        row = self.find(symbol)
        if row is None:
            raise UnknownSymbolError(symbol, suggestion(symbol, self))
        return row

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        picked = range(self._count)[row]
        return self.at([picked])[0] if isinstance(picked, int) else self.at(picked)

    def __contains__(self, symbol: object) -> bool:
        return isinstance(symbol, str) and self.find(symbol) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(other) == len(self) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"<{self._count} symbols: {shown}{', …' if self._count > 3 else ''}>"


class RowNumbers(_Symbols):
    """The symbols of a table that has none: row i is called str(i). Holds no memory, and takes no bytes of a file."""

    nbytes = 0

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self._count))

    def __eq__(self, other: object) -> bool:
        return len(other) == len(self) if isinstance(other, RowNumbers) else super().__eq__(other)

    __hash__ = None

    def _at(self, rows: IntArray) -> list[str]:
        return [str(row) for row in rows.tolist()]

    def find(self, symbol: str) -> int | None:
        """The row of `symbol`, or None."""
        if symbol.isascii() and symbol.isdecimal() and len(symbol) <= 19:
            row = int(symbol)
            if row < self._count and str(row) == symbol:
                return row
        return None


class StoredSymbols(_Symbols):
    """N distinct strings in row order, held in their compact form.

    Args:
        count: N.
        arrays: of uint8: `strings` (bytes,), the prefix codes; `blocks` (bytes,), the heads of all blocks and the
            blocks; `starts` (N/32 + 1, bytes), where each head and block begins; `order` (N/8, bits), rank to row.
        limit: how much memory all symbols may take together, where they come from a file; None where they may take any.
    """

    def __init__(self, count: int, arrays: Mapping[str, ArrayInFile], limit: MemoryLimit | None = None) -> None:
        super().__init__(count)
        self.arrays: dict[str, ArrayInFile] = dict(arrays)
        self.limit = limit
        _check_shapes(count, self.arrays)

    @classmethod
    def build(cls, symbols: Sequence[str]) -> StoredSymbols:
        """Sort and code `symbols`.

        Raises:
            TableError: there are none, one appears twice, or one is longer than 65,535 bytes.
        """
        if not symbols:
            raise TableError("a table needs at least one symbol, got none")
        encoded = [encoded_symbol(symbol, row) for row, symbol in enumerate(symbols)]
        order = sorted(range(len(encoded)), key=encoded.__getitem__)
        parts = [slice(start, start + CHUNK_ROWS) for start in range(0, len(order), CHUNK_ROWS)]
        texts = [symbols_text([encoded[row] for row in order[part]]) for part in parts]
        builder, row_before = _core.SymbolBuilder(len(encoded)), -1
        for part, text in zip(parts, texts, strict=True):
            survey(builder, text, order[part], row_before)
            row_before = order[part][-1]
        strings = builder.learn()
        for text in texts:
            builder.write(text)
        builder.finish()
        heads, blocks, starts = builder.take()
        width = start_bits(len(heads) + len(blocks))
        contents = {
            "strings": strings,
            "blocks": heads + blocks,
            "starts": _core.pack_starts(starts, len(heads), width),
        }
        arrays = {name: np.frombuffer(content, dtype=np.uint8) for name, content in contents.items()}
        arrays["starts"] = arrays["starts"].reshape(-1, bitpack.row_bytes([width, width]))
        return cls(len(encoded), {**arrays, "order": packed_order(np.array(order), len(order))})

    @property
    def nbytes(self) -> int:
        """Bytes that the symbols and their index take in a file."""
        return sum(array.nbytes for array in self.arrays.values())

    def __reduce__(self) -> tuple[type[StoredSymbols], tuple[int, dict[str, ArrayInFile], MemoryLimit | None]]:
        return StoredSymbols, (self._count, self.arrays, self.limit)  # a copy starts with nothing in memory

    def __iter__(self) -> Iterator[str]:
        reached, together = 0, _BLOCKS_READ * BLOCK_SYMBOLS
        for start in range(0, self._count, together):
            symbols = self._at(np.arange(start, min(start + together, self._count)))
            if self.limit is not None:
                reached += sum(map(len, symbols))
                self.limit.check(f"symbols.blocks: the text of the first {start + len(symbols)} symbols", reached)
            yield from symbols

    def _at(self, rows: IntArray) -> list[str]:
        ranks = self._rank_of_row[rows].astype(np.int64)
        parts = (ranks[start : start + CHUNK_ROWS] for start in range(0, len(ranks), CHUNK_ROWS))
        return [symbol for part in parts for symbol in self._sorted.at(part)]

    def verify(self) -> None:
        """Read everything and check it against the format specification.

        Raises:
            StorageError: something is not as it must be.
        """
        blocks, seen = -(-self._count // BLOCK_SYMBOLS), np.zeros(-(-self._count // 8), dtype=np.uint8)
        for first in range(0, blocks, _BLOCKS_VERIFIED):
            self._sorted.verify(first, min(first + _BLOCKS_VERIFIED, blocks), seen)

    def find(self, symbol: str) -> int | None:
        """The row of `symbol`, or None."""
        return self._sorted.find(symbol)

    def find_each(self, symbols: Sequence[str]) -> list[int | None]:
        """The row of each of several symbols, or None."""
        return list(map(self._sorted.find, symbols))

    def ranked(self) -> Iterator[tuple[bytes, int]]:
        """All symbols as UTF-8, sorted, each with its row; some blocks at a time, so that it takes little memory.

        Raises:
            StorageError: the symbols do not follow the format specification.
        """
        bits, blocks = self.arrays["order"].shape[1], -(-self._count // BLOCK_SYMBOLS)
        for first in range(0, blocks, _BLOCKS_READ):
            end = min(first + _BLOCKS_READ, blocks)
            packed = self.arrays["order"][first * BLOCK_SYMBOLS // 8 : end * BLOCK_SYMBOLS // 8]
            rows = self._checked(bitpack.unpack(packed, [bits] * 8).reshape(-1)).tolist()
            symbols = self._sorted.text(first, end)[:-1].split(END)
            yield from zip(symbols, rows, strict=False)  # the last packed row of the order may hold more

    @cached_property
    def _sorted(self) -> _core.Symbols:
        arrays = [self.arrays[name] for name in ("blocks", "starts", "order")]
        plain = [array.in_place()[0] if isinstance(array, StoredArray) else array for array in arrays]
        flat = [np.ascontiguousarray(array).reshape(-1) for array in plain]
        symbols = _core.Symbols(self._count, np.asarray(self.arrays["strings"]).tobytes(), *flat)
        stored = [array for array in arrays if isinstance(array, StoredArray)]
        if stored:  # all three: they are in one file
            checks, starts = stored[0].checks, [array.start for array in stored]
            notice, stamp = checks.notice_changes, checks.content.stamp
            symbols.watch(checks.good.view(np.uint8), starts[0], starts[1], starts[2], checks.check, notice, stamp)
        return symbols

    @cached_property
    def _rank_of_row(self) -> IntArray:
        # Only one direction is stored. The other costs a scatter over N integers at first use (0.1 s for 10 million).
        order = np.asarray(self.arrays["order"])
        rows = self._checked(bitpack.unpack(order, [order.shape[1]] * 8).reshape(-1)[: self._count])
        ranks = np.zeros(self._count, dtype=np.uint32)
        ranks[rows] = np.arange(self._count, dtype=np.uint32)
        return ranks

    def _checked(self, rows: npt.NDArray[np.unsignedinteger[Any]]) -> npt.NDArray[np.unsignedinteger[Any]]:
        if int(rows.max()) >= self._count:
            raise StorageError(f"symbols.order: a rank points to row {rows.max()} of {self._count}")
        return rows


def suggestion(symbol: str, known: Container[str]) -> str | None:
    """Another spelling of a symbol that is known, if there is one: in other case, or with one letter changed."""
    variants = (symbol.lower(), symbol.capitalize(), symbol.upper(), symbol.strip())
    typos = _one_edit_away(symbol) if len(symbol) <= _LONGEST_TYPO else ()
    return next((variant for variant in chain(variants, typos) if variant in known), None)


def _one_edit_away(symbol: str) -> Iterator[str]:
    """Symbols with one letter less, two neighbours swapped, one letter more, or one other letter."""
    parts = [(symbol[:place], symbol[place:]) for place in range(len(symbol) + 1)]
    yield from (left + right[1:] for left, right in parts if right and left + right[1:])
    yield from (left + right[1] + right[0] + right[2:] for left, right in parts if len(right) > 1)
    yield from (left + letter + right for left, right in parts for letter in ascii_lowercase)
    yield from (left + letter + right[1:] for left, right in parts if right for letter in ascii_lowercase)


def checked_rows(rows: IntArray, count: int, *, negative: bool = False) -> npt.NDArray[np.int64]:
    """Row numbers of a table of `count` rows; those below zero count from its end where `negative` says so.

    Raises:
        RowError: the first that lies outside the table is named.
    """
    first = -count if negative else 0
    outside = (rows < first) | (rows >= count)
    if outside.any():
        row = rows.reshape(-1)[int(outside.argmax())]
        raise RowError(f"row {row} is out of range: the table has {count} rows, 0 to {count - 1}")
    found = rows.astype(np.int64)
    return np.where(found < 0, found + count, found) if negative else found


def pack_symbols(symbols: Sequence[str]) -> StoredSymbols | RowNumbers:
    """Symbols in their compact form; those that have it already, and row numbers, stay as they are."""
    return symbols if isinstance(symbols, StoredSymbols | RowNumbers) else StoredSymbols.build(symbols)


def encoded_symbol(symbol: str, row: int) -> bytes:
    """The UTF-8 of a symbol, or a refusal that names its row."""
    try:
        encoded = symbol.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TableError(f"symbol {row} ({symbol!r}) cannot be written as UTF-8: {error.reason}") from None
    except AttributeError:
        raise TableError(f"symbol {row} is {type(symbol).__name__} {symbol!r}; symbols must be strings") from None
    if len(encoded) > MAX_SYMBOL_BYTES:
        raise TableError(f"symbol {row} takes {len(encoded)} bytes, at most {MAX_SYMBOL_BYTES} can be stored")
    return encoded


def symbols_text(symbols: Iterable[bytes]) -> bytes:
    """Symbols one after another, each followed by 0xFF."""
    return b"".join([symbol + END for symbol in symbols])


def survey(builder: _core.SymbolBuilder, text: bytes, rows: Sequence[int], row_before: int) -> None:
    """Let a builder see the next sorted symbols, as text, for the first time.

    Args:
        builder: of all symbols.
        text: see `symbols_text`.
        rows: their rows.
        row_before: the row of the symbol before them.

    Raises:
        TableError: a symbol follows itself.
        StorageError: a symbol is not in its place, or not UTF-8, in a file that they come from.
    """
    found = builder.survey(text)
    if found is None:
        return
    fault, place = found
    symbol = text.split(END, place + 1)[place]
    if fault == "repeated":
        raise repeated_symbol(symbol, rows[place - 1] if place else row_before, rows[place])
    wrong = "not in its place" if fault == "unsorted" else fault
    raise StorageError(f"symbols.blocks: {symbol[:100].decode('utf-8', 'replace')!r} is {wrong}")


def start_bits(block_bytes: int) -> int:
    """Bits of an offset into `blocks`."""
    return bitpack.bits_for(block_bytes + 1)


def packed_order(rows: IntArray, count: int) -> npt.NDArray[np.uint8]:
    """Rows of a table of `count`, by rank, as `order` has them: eight to a packed row, the last one filled with 0."""
    padded = np.zeros(-(-len(rows) // 8) * 8, dtype=np.uint32)
    padded[: len(rows)] = rows
    return bitpack.pack(padded.reshape(-1, 8), [bitpack.bits_for(count)] * 8)


def repeated_symbol(symbol: bytes, *rows: int) -> TableError:
    """The refusal of a symbol that two rows have."""
    first, second = sorted(rows)
    return TableError(
        f"symbol {symbol.decode('utf-8')!r} appears twice, in rows {first} and {second}; symbols must be distinct"
    )


def _check_shapes(count: int, arrays: Mapping[str, ArrayInFile]) -> None:
    width = start_bits(arrays["blocks"].size)
    expected = {
        "strings": (arrays["strings"].size,),
        "blocks": (arrays["blocks"].size,),
        "starts": (-(-count // BLOCK_SYMBOLS) + 1, bitpack.row_bytes([width, width])),
        "order": (-(-count // 8), bitpack.bits_for(count)),
    }
    for name, shape in expected.items():
        array = arrays[name]
        if array.dtype != np.uint8 or array.shape != shape:
            raise StorageError(
                f"symbols.{name}: expected uint8 of shape {shape} for {count} symbols, "
                f"got {array.dtype} of shape {array.shape}"
            )
