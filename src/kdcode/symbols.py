"""Symbols as they are kept in a .kdc file: sorted, deflated in blocks, found without a dict of all of them.

The distinct symbols, as UTF-8, are sorted by their bytes and cut into blocks of 128. A block is its symbols, each
followed by the byte 0xFF, which UTF-8 never uses, compressed with raw deflate. The first symbol of every block stands
in `heads`, so that a lookup is one binary search over N/128 heads, and one search in the text of a block, which is
inflated unless it was kept. `order` gives the row of each rank. benchmarks/symbol_index.py has the measurements behind
this choice.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import CHUNK_ROWS, IntArray
from kdcode.errors import RowError, StorageError, TableError, UnknownSymbolError
from kdcode.limits import MemoryLimit
from kdcode.stored_array import ArrayInFile
from kdcode.symbol_blocks import BLOCK_SYMBOLS, END, MAX_SYMBOL_BYTES, SymbolBlocks, block_text, deflate, parted

_ROW_BYTES = 32
"""Bytes that a row number takes as an integer of Python."""


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
        arrays: `blocks` (bytes,) uint8; `ends` (N/128,) uint64, where each block ends in `blocks`; `heads` (bytes,)
            uint8; `order` (N/8, bits) uint8, rank to row, eight ranks to a packed row.
        limit: how much memory all symbols may take together, where they come from a file; None where they may take any.
    """

    def __init__(self, count: int, arrays: Mapping[str, ArrayInFile], limit: MemoryLimit | None = None) -> None:
        super().__init__(count)
        self.arrays: dict[str, ArrayInFile] = dict(arrays)
        self.limit = limit
        _check_shapes(count, self.arrays)
        self._blocks = SymbolBlocks(count, self.arrays, limit)
        self._index: dict[str, int] | None = None

    @classmethod
    def build(cls, symbols: Sequence[str]) -> StoredSymbols:
        """Sort and compress `symbols`.

        Raises:
            TableError: there are none, one appears twice, or one is longer than 65,535 bytes.
        """
        encoded = [encoded_symbol(symbol, row) for row, symbol in enumerate(symbols)]
        order = np.array(sorted(range(len(encoded)), key=encoded.__getitem__), dtype=np.uint32)
        ranked = [encoded[row] for row in order]
        if not ranked:
            raise TableError("a table needs at least one symbol, got none")
        for rank, (before, after) in enumerate(pairwise(ranked)):
            if before == after:
                raise repeated_symbol(before, int(order[rank]), int(order[rank + 1]))
        blocks = [deflate(ranked[start : start + BLOCK_SYMBOLS]) for start in range(0, len(ranked), BLOCK_SYMBOLS)]
        arrays: dict[str, npt.NDArray[Any]] = {
            "blocks": np.frombuffer(b"".join(blocks), dtype=np.uint8),
            "ends": np.cumsum([len(block) for block in blocks], dtype=np.uint64),
            "heads": np.frombuffer(block_text(ranked[::BLOCK_SYMBOLS]), dtype=np.uint8),
            "order": packed_order(order, len(order)),
        }
        return cls(len(encoded), arrays)

    @property
    def nbytes(self) -> int:
        """Bytes that the symbols and their index take in a file."""
        return sum(array.nbytes for array in self.arrays.values())

    def __reduce__(self) -> tuple[type[StoredSymbols], tuple[int, dict[str, ArrayInFile], MemoryLimit | None]]:
        return StoredSymbols, (self._count, self.arrays, self.limit)  # a copy starts with nothing in memory

    def __iter__(self) -> Iterator[str]:
        # Neighbouring rows lie in far blocks: all are inflated once, side by side, instead of one for every row.
        blocks = list(self._blocks.texts())
        ends = np.empty(self._count, dtype=np.int32)  # where each symbol ends in its block
        for number, block in enumerate(blocks):
            found = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == END[0])
            ends[number * BLOCK_SYMBOLS : (number + 1) * BLOCK_SYMBOLS] = found
        for ranks in np.array_split(self._rank_of_row, -(-self._count // CHUNK_ROWS)):
            starts = np.where(ranks % BLOCK_SYMBOLS > 0, ends[ranks.astype(np.int64) - 1] + 1, 0)
            places = ((ranks // BLOCK_SYMBOLS).tolist(), starts.tolist(), ends[ranks].tolist())
            for number, start, end in zip(*places, strict=True):
                yield blocks[number][start:end].decode("utf-8")

    def _at(self, rows: IntArray) -> list[str]:
        ranks = self._rank_of_row[rows]
        found = [""] * len(ranks)
        last, symbols = -1, [b""]
        for place in np.argsort(ranks):  # block after block, each of which is asked for once
            number, within = divmod(int(ranks[place]), BLOCK_SYMBOLS)
            if number != last:
                last, symbols = number, self._blocks.block(number).symbols()
            found[place] = symbols[within].decode("utf-8")
        return found

    def verify(self) -> None:
        """Inflate everything and check it against the format specification.

        Raises:
            StorageError: symbols out of order, heads that do not fit, or an `order` that is no permutation.
        """
        if not np.array_equal(np.sort(self._row_of_rank()), np.arange(self._count)):
            raise StorageError("symbols.order: the rows are not a permutation of 0 … N−1")
        before: bytes | None = None
        for number, block in enumerate(self._blocks.texts()):
            for symbol in parted(block):
                if before is not None and symbol <= before:
                    raise StorageError(f"symbols.blocks: block {number} is not sorted, or repeats a symbol")
                before = symbol

    def find(self, symbol: str) -> int | None:
        """The row of `symbol`, or None."""
        if self._index is not None:
            return self._index.get(symbol)
        try:
            key = symbol.encode("utf-8")
        except UnicodeEncodeError:
            return None
        return self._blocks.find(key)

    def find_each(self, symbols: Sequence[str]) -> list[int | None]:
        """The row of each of several symbols, or None; no block is inflated twice for them."""
        if self._index is not None:
            return list(map(self._index.get, symbols))
        found: list[int | None] = [None] * len(symbols)
        for place in sorted(range(len(symbols)), key=symbols.__getitem__):  # strings sort as their UTF-8 does
            found[place] = self.find(symbols[place])
        return found

    def index_in_memory(self) -> None:
        """Put all symbols into a dict, which `find` uses from then on.

        Raises:
            LimitError: it takes more memory than the file that the symbols come from may take.
            StorageError: the symbols do not follow the format specification.
        """
        if self._index is not None:
            return
        rows, index, text_bytes = self._checked_row_of_rank(), dict[str, int](), 0
        for number, block in enumerate(self._blocks.texts()):
            symbols = [symbol.decode("utf-8") for symbol in parted(block)]
            first = number * BLOCK_SYMBOLS
            index.update(zip(symbols, rows[first : first + BLOCK_SYMBOLS].tolist(), strict=True))
            text_bytes += sum(map(sys.getsizeof, symbols))
            if self.limit is not None:
                taken = text_bytes + sys.getsizeof(index) + _ROW_BYTES * len(index)
                self.limit.check(f"symbols.blocks: a dict of the symbols up to block {number}", taken)
        if len(index) < self._count:
            raise StorageError("symbols.blocks: a symbol appears twice")
        self._index = index

    def ranked(self) -> Iterator[tuple[bytes, int]]:
        """All symbols as UTF-8, sorted, each with its row; block after block, so that it takes no memory to speak of.

        Raises:
            StorageError: the symbols do not follow the format specification.
        """
        bits = self.arrays["order"].shape[1]
        for number in range(len(self.arrays["ends"])):
            packed = self.arrays["order"][number * BLOCK_SYMBOLS // 8 : (number + 1) * BLOCK_SYMBOLS // 8]
            rows = bitpack.unpack(packed, [bits] * 8).reshape(-1).tolist()
            if max(rows) >= self._count:
                raise StorageError(f"symbols.order: a rank points to row {max(rows)} of {self._count}")
            yield from zip(parted(self._blocks.inflate(number)), rows, strict=False)  # the last block may be short

    def _row_of_rank(self) -> IntArray:
        order = np.asarray(self.arrays["order"])
        return bitpack.unpack(order, [order.shape[1]] * 8).reshape(-1)[: self._count]

    def _checked_row_of_rank(self) -> IntArray:
        rows = self._row_of_rank()
        if int(rows.max()) >= self._count:
            raise StorageError(f"symbols.order: a rank points to row {rows.max()} of {self._count}")
        return rows

    @cached_property
    def _rank_of_row(self) -> IntArray:
        # Only one direction is stored. The other costs a scatter over N integers at first use (0.1 s for 10 million).
        ranks = np.zeros(self._count, dtype=np.uint32)
        ranks[self._checked_row_of_rank()] = np.arange(self._count, dtype=np.uint32)
        return ranks


def suggestion(symbol: str, known: Container[str]) -> str | None:
    """Another spelling of a symbol that is known, if there is one."""
    variants = (symbol.lower(), symbol.capitalize(), symbol.upper(), symbol.strip())
    return next((variant for variant in variants if variant in known), None)


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
    blocks = -(-count // BLOCK_SYMBOLS)
    expected = {
        "blocks": (np.uint8, (arrays["blocks"].size,)),
        "ends": (np.uint64, (blocks,)),
        "heads": (np.uint8, (arrays["heads"].size,)),
        "order": (np.uint8, (-(-count // 8), bitpack.bits_for(count))),
    }
    for name, (dtype, shape) in expected.items():
        array = arrays[name]
        if array.dtype != dtype or array.shape != shape:
            raise StorageError(
                f"symbols.{name}: expected {np.dtype(dtype).name} of shape {shape} for {count} symbols, "
                f"got {array.dtype} of shape {array.shape}"
            )
    if int(arrays["ends"][-1]) != arrays["blocks"].size:
        raise StorageError("symbols.ends: the last block does not end where the blocks end")
