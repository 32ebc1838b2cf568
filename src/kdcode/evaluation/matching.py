"""Which rows of two tables belong together: those with the same symbol or, without symbols, the same number."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kdcode.arrays import CHUNK_ROWS, FloatArray, IntArray
from kdcode.coded import CodedTable
from kdcode.errors import TableError
from kdcode.symbols import RowNumbers, StoredSymbols
from kdcode.table import VectorTable

Table = VectorTable | CodedTable

EXAMPLES = 5
"""How many of the symbols that only one table has are given by name."""

_FLOATS_AT_ONCE = 1 << 22
"""Of each table: chunks of very wide tables have fewer rows."""


@dataclass(frozen=True)
class RowMatch:
    """Which rows of two tables were compared.

    Args:
        rows: how many.
        by_symbol: whether rows of the same symbol were compared, or, without symbols, rows of the same number.
        same_order: whether these rows stand in the same order in both tables.
        only_in_original: how many symbols the copy lacks.
        only_in_copy: how many symbols the original lacks.
        missing: the first few of the symbols that the copy lacks.
        added: the first few of the symbols that the original lacks.
    """

    rows: int
    by_symbol: bool = True
    same_order: bool = True
    only_in_original: int = 0
    only_in_copy: int = 0
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every row of both tables was compared."""
        return not self.only_in_original and not self.only_in_copy


def stored_bytes(table: Table) -> int:
    """Bytes of a table without its symbols: of codes and codec, or of the numbers of a matrix in their own type."""
    return int(table.matrix.nbytes) if isinstance(table, VectorTable) else table.sizes.embedding


class RowPairs:
    """The rows of two tables that belong together, in the order of the original.

    Args:
        original, copy: the tables.
        match: what is said about them.
        original_rows, copy_rows: (n,) row numbers; None for all rows in order.
    """

    def __init__(
        self,
        original: Table,
        copy: Table,
        match: RowMatch,
        original_rows: IntArray | None = None,
        copy_rows: IntArray | None = None,
    ) -> None:
        self.tables = (original, copy)
        self.match = match
        self.original_rows = original_rows
        self._rows = (original_rows, copy_rows)

    def __len__(self) -> int:
        return self.match.rows

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""
        return self.tables[0].embedding_dim

    def place_of(self, row: int) -> int | None:
        """The number of the pair that a row of the original is in, or None."""
        if self.original_rows is None:
            return row
        at = int(np.searchsorted(self.original_rows, row))
        return at if at < len(self.original_rows) and self.original_rows[at] == row else None

    def row_numbers(self, side: int, picked: IntArray) -> IntArray:
        """(n,) rows of some of the pairs in the original (side 0) or in the copy (side 1)."""
        rows = self._rows[side]
        return picked if rows is None else rows[picked]

    def vectors(self, side: int, picked: IntArray | slice) -> FloatArray:
        """(n, d) vectors of some of the pairs, of the original (side 0) or of the copy (side 1)."""
        table, rows = self.tables[side], self._rows[side]
        at = picked if rows is None else rows[picked]
        if isinstance(table, VectorTable):
            return np.asarray(table.matrix[at], dtype=np.float32)
        return table.decode(np.arange(at.start, at.stop) if isinstance(at, slice) else at)

    def slices(self) -> Iterator[slice]:
        """All pairs in order, as many at a time as fit into little memory."""
        at_once = max(256, min(CHUNK_ROWS, _FLOATS_AT_ONCE // self.embedding_dim))
        for start in range(0, len(self), at_once):
            yield slice(start, min(start + at_once, len(self)))


def match_rows(original: Table, copy: Table) -> RowPairs:
    """Pair the rows of two tables.

    Symbols in the same order are compared one by one and not kept; another order takes a dict of the copy's symbols.

    Raises:
        TableError: vectors of different dimensions, no symbol that both have, or, without symbols, different lengths.
    """
    for table in (original, copy):
        table.require_rows()
    if original.embedding_dim != copy.embedding_dim:
        raise TableError(
            f"tables to compare need vectors of the same dimension, got {len(original):,} x {original.embedding_dim:,} "
            f"and {len(copy):,} x {copy.embedding_dim:,}"
        )
    ours, theirs = original.symbols, copy.symbols
    by_symbol = _have_common_names(ours, theirs)
    if not by_symbol and len(ours) != len(theirs):
        which = _without_symbols(ours, theirs)
        raise TableError(
            f"{which} no symbols, so rows are compared by number and there must be as many, got {len(ours):,} and "
            f"{len(theirs):,}; give tables with symbols, such as VectorTable(symbols, matrix)"
        )
    if not by_symbol or _equal(ours, theirs):
        return RowPairs(original, copy, RowMatch(len(ours), by_symbol))
    return _by_symbol(original, copy)


def _by_symbol(original: Table, copy: Table) -> RowPairs:
    row_of = {symbol: row for row, symbol in enumerate(copy.symbols)}
    found = np.fromiter((row_of.get(symbol, -1) for symbol in original.symbols), dtype=np.int64, count=len(original))
    original_rows = np.flatnonzero(found >= 0)
    copy_rows = found[original_rows]
    if not len(copy_rows):
        raise TableError(
            f"the tables have no symbol in common: the original has {_some(original.symbols)}, "
            f"the copy {_some(copy.symbols)}"
        )
    lacking = np.ones(len(copy), dtype=np.bool_)
    lacking[copy_rows] = False
    missing, added = np.flatnonzero(found < 0), np.flatnonzero(lacking)
    match = RowMatch(
        rows=len(copy_rows),
        same_order=bool((np.diff(copy_rows) > 0).all()),
        only_in_original=len(missing),
        only_in_copy=len(added),
        missing=_first(original.symbols, missing),
        added=_first(copy.symbols, added),
    )
    return RowPairs(original, copy, match, original_rows, copy_rows)


def _have_common_names(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether rows can be matched by symbol: both have them, or those of one are row numbers of the other."""
    for numbers, named in ((ours, theirs), (theirs, ours)):
        if isinstance(numbers, RowNumbers):
            return not isinstance(named, RowNumbers) and all(symbol in numbers for symbol in named)
    return True


def _equal(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether two tables have the same symbols in the same order; the compact form is not unpacked for it."""
    if ours is theirs:
        return True
    if len(ours) != len(theirs):
        return False
    if isinstance(ours, StoredSymbols) and isinstance(theirs, StoredSymbols):
        pairs = ((ours.arrays[name], theirs.arrays[name]) for name in ours.arrays)
        if all(np.array_equal(one, other) for one, other in pairs):
            return True  # other bytes may be the same symbols: another writer chooses other strings
    return all(map(operator.eq, ours, theirs))


def _without_symbols(ours: Sequence[str], theirs: Sequence[str]) -> str:
    both = isinstance(ours, RowNumbers) and isinstance(theirs, RowNumbers)
    return "the tables have" if both else f"the {'original' if isinstance(ours, RowNumbers) else 'copy'} has"


def _first(symbols: Sequence[str], rows: npt.NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(symbols[int(row)] for row in rows[:EXAMPLES])


def _some(symbols: Sequence[str]) -> str:
    return ", ".join(map(repr, symbols[:3])) + (", …" if len(symbols) > 3 else "")
