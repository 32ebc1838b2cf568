"""PlannedTable: what a plan asks of a table."""

from __future__ import annotations

from typing import Protocol

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.symbols import RowNumbers, StoredSymbols


class PlannedTable(Protocol):
    """What a plan asks of a table: sizes, and rows of its choice. A `VectorTable` is one."""

    def __len__(self) -> int: ...

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""

    @property
    def packed_symbols(self) -> StoredSymbols | RowNumbers:
        """The symbols of all rows."""

    @property
    def weights(self) -> FloatArray | None:
        """(N,) how much rows count."""

    @property
    def norms(self) -> DoubleArray:
        """(N,) lengths of the vectors."""

    def vectors_at(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows."""
