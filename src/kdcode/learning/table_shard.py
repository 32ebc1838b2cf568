"""TableShard: the rows of a table that one rank has, read from a source that can be read in parts."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.errors import TableError
from kdcode.io import Reader, open_reader
from kdcode.io.row_weights import RowWeights
from kdcode.learning.identity import KnownTable, TableContent
from kdcode.learning.ranks import Ranks
from kdcode.learning.row_share import RowShare
from kdcode.symbols import RowNumbers, StoredSymbols, pack_symbols
from kdcode.table import VectorTable

OnRows = Callable[[int, int], None]
"""Called with rows read and rows to read."""


class TableShard(KnownTable):
    """One rank's rows of a table; its length is that of the whole table.

    Args:
        table: the rows here.
        share: which rows of the whole table these are.
        symbols: of all rows, on rank 0; None on others.
    """

    def __init__(self, table: VectorTable, share: RowShare, symbols: StoredSymbols | RowNumbers | None) -> None:
        self.table, self.share = table, share
        self._symbols = symbols
        self._content: TableContent | None = None

    @classmethod
    def whole(cls, table: VectorTable) -> TableShard:
        """A whole table, on a rank alone."""
        return cls(table, RowShare.whole(len(table)), None)

    def __len__(self) -> int:
        return self.share.total

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""
        return self.table.embedding_dim

    @property
    def weights(self) -> FloatArray | None:
        """(n,) how much the rows here count."""
        return self.table.weights

    @property
    def norms(self) -> DoubleArray:
        """(n,) lengths of the vectors here."""
        return self.table.norms

    def vectors_at(self, rows: IntArray) -> FloatArray:
        """(m, d) vectors of (m,) rows here."""
        return self.table.vectors_at(rows)

    @property
    def packed_symbols(self) -> StoredSymbols | RowNumbers:
        """The symbols of all rows in their compact form; on rank 0 alone."""
        if self.share.ranks.is_alone:
            return self.table.packed_symbols
        if self._symbols is None:
            raise TableError("only rank 0 has the symbols of all rows")
        return self._symbols

    @property
    def content(self) -> TableContent:
        """What all rows hold, in few bytes; the first use is a collective."""
        if self._content is None:
            self._content = TableContent.of(self.table, self.share)
        return self._content


def read_shard(
    source: Reader | str | PathLike[str],
    ranks: Ranks,
    weights: str | PathLike[str] | None = None,
    on_rows: OnRows | None = None,
) -> TableShard:
    """Read the rows of this rank, and no others, from a file that can be read in parts; a collective.

    Args:
        source: a `Reader`, or the path or URL of an .npy, safetensors or Parquet file, or of a folder of these.
        ranks: among whom rows are shared: see `joined_ranks`.
        weights: a file of row weights; see `kdcode.io.row_weights`. Every rank reads all of it.
        on_rows: called after each piece.

    Raises:
        KdcodeError: on all ranks, where a file cannot be used by one.
    """
    with ranks.together():
        rows = source if isinstance(source, Reader) else open_reader(source)
        share = RowShare.of(len(rows), ranks)
        symbols, matrix = _read(rows, share, on_rows)
        table = VectorTable(symbols, matrix)
        row_weights = None if weights is None else RowWeights.read(weights)
        if row_weights is not None:
            table.weights = row_weights.of_rows(table.symbols, share.first, share.total)
    if row_weights is not None and not ranks.any(bool(np.any(table.weights))):
        raise TableError(f"{weights}: gives no row of {rows.name} a weight above zero")
    named = ranks.values_to_first(symbols)
    packed: StoredSymbols | RowNumbers | None = None
    with ranks.together():
        if ranks.is_first:
            every = None if symbols is None else [symbol for part in named for symbol in part or ()]
            packed = RowNumbers(share.total) if every is None else pack_symbols(every)
    return TableShard(table, share, packed)


def _read(source: Reader, share: RowShare, on_rows: OnRows | None) -> tuple[list[str] | None, FloatArray]:
    """Symbols and (n, d) vectors of a share."""
    matrix = np.empty((share.rows, source.embedding_dim), dtype=np.float32)
    symbols: list[str] | None = [] if source.has_symbols else None
    reached = 0
    for names, vectors in source.chunks(share.first, share.end):
        matrix[reached : reached + len(vectors)] = vectors
        if symbols is not None:
            symbols.extend(names or ())
        reached += len(vectors)
        if on_rows is not None:
            on_rows(reached, share.rows)
    return symbols, matrix
