"""A table of vectors as it comes from a file or a model: symbols and a float matrix, checked once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import CHUNK_ROWS, DoubleArray, FloatArray, IntArray, rows_at_once
from kdcode.errors import TableError
from kdcode.mapping import Key, TableMapping, joined, lengths, new_rows
from kdcode.symbols import RowNumbers, StoredSymbols, pack_symbols


class VectorTable(TableMapping):
    """Symbols and their vectors, row by row; a read-only mapping, see `TableMapping`.

    Args:
        symbols: N distinct strings (a sequence or an array), or None to call the rows "0", "1", ….
        matrix: (N, d) floats or integers, all finite; may be memory-mapped and is then never copied.
        weights: (N,) how much each row counts when codes are learned, such as how often its symbol is used; zero or
            more. All rows count the same where left out.

    Raises:
        TableError: the two do not fit together, or a value is not usable.
    """

    def __init__(
        self, symbols: Sequence[str] | None, matrix: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> None:
        # A memory map passes through asarray as it is; float16 and float64 are converted chunk by chunk later.
        array = np.asarray(matrix)
        if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] < 1:
            raise TableError(f"a table needs a matrix of shape (rows, dimension), got shape {array.shape}")
        if array.dtype.kind not in "fiu":
            raise TableError(
                f"a table needs real numbers, floats or integers, got dtype {array.dtype}; "
                "convert them first, as in matrix.astype(numpy.float32)"
            )
        named: Sequence[str] = RowNumbers(len(array)) if symbols is None else _as_sequence(symbols)
        if len(named) != len(array):
            raise TableError(f"{len(named)} symbols for {len(array)} rows: there must be one symbol per row")
        self.symbols = named
        self.matrix: npt.NDArray[Any] = array
        self.weights = None if weights is None else _checked_weights(weights, len(array))
        if not isinstance(named, RowNumbers):
            _check_symbols(named)
        for start, chunk in self._float_chunks(CHUNK_ROWS):
            bad = ~np.isfinite(chunk).all(axis=1)
            if bad.any():
                row = start + int(bad.argmax())
                raise TableError(
                    f"row {row} ({named[row]!r:.80}) has a value that is not a finite float32; "
                    "remove the row or repair the table"
                )

    def __len__(self) -> int:
        return len(self.matrix)

    def __repr__(self) -> str:
        return f"<VectorTable: {len(self)} symbols, {self.embedding_dim} dimensions, {self.matrix.dtype}>"

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""
        return int(self.matrix.shape[1])

    @cached_property
    def norms(self) -> DoubleArray:
        """(N,) lengths of the vectors; computed chunk by chunk at first use."""
        return np.concatenate([lengths(chunk) for _, chunk in self._float_chunks(CHUNK_ROWS)])

    def vectors_at(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows in [0, N)."""
        return self.matrix[rows].astype(np.float32, copy=False)

    def dot_products(self, queries: DoubleArray) -> Iterator[tuple[int, DoubleArray]]:
        """Dot products with (q, d) queries, in order: the first row of a chunk, and (n, q) numbers."""
        for start, chunk in self._float_chunks(rows_at_once(max(queries.shape))):
            yield start, chunk.astype(np.float64) @ queries.T

    def select(self, key: Key, *, missing: str = "raise") -> VectorTable:
        """The table of some rows, in the order given.

        Args:
            key: a list of symbols or row numbers, a slice of rows, or a mask; as in brackets.
            missing: what happens to symbols that the table does not have: "raise" an error that lists them, or "skip"
                them.
        """
        symbols, rows = self._selected(key, missing)
        return VectorTable(symbols, self.matrix[rows], None if self.weights is None else self.weights[rows])

    def with_rows(self, rows: Mapping[str, npt.ArrayLike], *, at: str = "end") -> VectorTable:
        """A copy of the table with more rows, such as `{"<pad>": 0, "<unk>": table.matrix.mean(axis=0)}`.

        Args:
            rows: symbols and their vectors; a number stands for a vector of d equal numbers.
            at: "end", where all rows keep their numbers, or "start", where each moves up by as many as are added.
                Symbols stay what they are, and so do the names "0", "1", … of a table without.

        Rows that are added to a table with weights count as much as its mean row.
        """
        symbols, vectors = new_rows(self, rows, at)
        dtype = self.matrix.dtype if self.matrix.dtype.kind == "f" else np.dtype(np.float32)
        with np.errstate(over="ignore"):  # what is too large for the type becomes inf and is refused
            added = vectors.astype(dtype)
        weights = None
        if self.weights is not None:
            weights = joined(self.weights, np.full(len(added), self.weights.mean()), at)
        named = [*symbols, *self.symbols] if at == "start" else [*self.symbols, *symbols]
        return VectorTable(named, joined(self.matrix.astype(dtype, copy=False), added, at), weights)

    def head(self, rows: int) -> VectorTable:
        """The first `rows` rows, sharing memory with this table."""
        if rows < 1:
            raise TableError(f"head needs at least 1 row, got {rows}")
        if rows >= len(self):
            return self
        symbols = None if isinstance(self.symbols, RowNumbers) else self.symbols[:rows]
        return VectorTable(symbols, self.matrix[:rows], None if self.weights is None else self.weights[:rows])

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[tuple[Sequence[str], FloatArray]]:
        """Pieces of the table in order: up to `rows` symbols and their (rows, d) float32 vectors."""
        for start, chunk in self._float_chunks(rows):
            yield self.symbols[start : start + rows], chunk

    @cached_property
    def packed_symbols(self) -> StoredSymbols | RowNumbers:
        """The symbols in the compact form of a .kdc file; made once, at first use."""
        return pack_symbols(self.symbols)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {symbol: row for row, symbol in enumerate(self.symbols)}

    def _find(self, symbol: str) -> int | None:
        if isinstance(self.symbols, RowNumbers | StoredSymbols):
            return self.symbols.find(symbol)
        return self._rows.get(symbol)

    def _float_chunks(self, rows: int) -> Iterator[tuple[int, FloatArray]]:
        for start in range(0, len(self.matrix), rows):
            with np.errstate(over="ignore", invalid="ignore"):  # what is inf or NaN as float32 is refused
                chunk = np.asarray(self.matrix[start : start + rows], dtype=np.float32)
            yield start, chunk


def _as_sequence(symbols: Sequence[str]) -> Sequence[str]:
    """Symbols that compare and index as sequences do; arrays of strings become lists."""
    return symbols.tolist() if isinstance(symbols, np.ndarray) else symbols


def _checked_weights(weights: npt.ArrayLike, rows: int) -> FloatArray:
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes inf and is refused
        array = np.asarray(weights, dtype=np.float32)
    if array.shape != (rows,):
        raise TableError(f"weights: expected one number for each of {rows} rows, got shape {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise TableError("weights: expected finite float32 numbers of zero or more, not all of them zero")
    return array


def _check_symbols(symbols: Sequence[str]) -> None:
    seen: set[str] = set()
    for row, symbol in enumerate(symbols):
        if not isinstance(symbol, str):
            raise TableError(f"symbol {row} is {type(symbol).__name__} {symbol!r}; symbols must be strings")
        if symbol in seen:
            raise TableError(f"symbol {symbol!r:.80} stands in row {row} and again before it; symbols must be distinct")
        if not symbol.isascii():
            try:
                symbol.encode("utf-8")
            except UnicodeEncodeError as error:
                raise TableError(f"symbol {row} ({symbol!r:.80}) cannot be written as UTF-8: {error.reason}") from None
        seen.add(symbol)
