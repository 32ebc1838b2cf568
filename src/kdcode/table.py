"""A table of vectors as it comes from a file or a model: symbols and a float matrix, checked once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import CHUNK_ROWS, FloatArray
from kdcode.errors import TableError, UnknownSymbolError
from kdcode.symbols import RowNumbers, StoredSymbols, pack_symbols


@dataclass(frozen=True, eq=False)
class VectorTable:
    """Symbols and their vectors, row by row.

    Args:
        symbols: N distinct strings (a sequence or an array), or None to call the rows "0", "1", ….
        matrix: (N, d) floats or integers, all finite; may be memory-mapped and is then never copied.
        weights: (N,) how much each row counts when codes are learned, such as how often its symbol is used; zero or
            more. All rows count the same where left out.

    Raises:
        TableError: the two do not fit together, or a value is not usable.
    """

    symbols: Sequence[str]
    matrix: npt.NDArray[Any]
    weights: FloatArray | None = None

    def __init__(
        self, symbols: Sequence[str] | None, matrix: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> None:
        # A memory map passes through asarray as it is; float16 and float64 are converted chunk by chunk later.
        array = np.asarray(matrix)
        if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] < 1:
            raise TableError(f"a table needs a matrix of shape (rows, dimension), got shape {array.shape}")
        if array.dtype.kind not in "fiu":
            raise TableError(f"a table needs real numbers, got dtype {array.dtype}")
        named: Sequence[str] = RowNumbers(len(array)) if symbols is None else _as_sequence(symbols)
        if len(named) != len(array):
            raise TableError(f"{len(named)} symbols for {len(array)} rows: there must be one symbol per row")
        object.__setattr__(self, "symbols", named)
        object.__setattr__(self, "matrix", array)
        object.__setattr__(self, "weights", None if weights is None else _checked_weights(weights, len(array)))
        if not isinstance(named, RowNumbers):
            _check_symbols(named)
        for start, chunk in self._float_chunks(CHUNK_ROWS):
            bad = ~np.isfinite(chunk).all(axis=1)
            if bad.any():
                row = start + int(bad.argmax())
                raise TableError(
                    f"row {row} ({named[row]!r}) has a value that is not a finite float32; "
                    "remove the row or repair the table"
                )

    def __len__(self) -> int:
        return len(self.matrix)

    def __getitem__(self, symbol: str) -> FloatArray:
        """The (d,) float32 vector of `symbol`."""
        return np.asarray(self.matrix[self.row_of(symbol)], dtype=np.float32)

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""
        return int(self.matrix.shape[1])

    def row_of(self, symbol: str) -> int:
        """The row number of `symbol`."""
        if isinstance(self.symbols, RowNumbers | StoredSymbols):
            return self.symbols.row_of(symbol)
        row = self._rows.get(symbol)
        if row is None:
            raise UnknownSymbolError(symbol)
        return row

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

    def _float_chunks(self, rows: int) -> Iterator[tuple[int, FloatArray]]:
        for start in range(0, len(self.matrix), rows):
            with np.errstate(over="ignore"):  # what overflows float32 becomes inf and is refused
                yield start, np.asarray(self.matrix[start : start + rows], dtype=np.float32)


def _as_sequence(symbols: Sequence[str]) -> Sequence[str]:
    """Symbols that compare and index as sequences do; arrays of strings become lists."""
    return symbols.tolist() if isinstance(symbols, np.ndarray) else symbols


def _checked_weights(weights: npt.ArrayLike, rows: int) -> FloatArray:
    array = np.asarray(weights, dtype=np.float32)
    if array.shape != (rows,):
        raise TableError(f"weights: expected one number for each of {rows} rows, got shape {array.shape}")
    if not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise TableError("weights: expected finite numbers of zero or more, not all zero")
    return array


def _check_symbols(symbols: Sequence[str]) -> None:
    seen: set[str] = set()
    for row, symbol in enumerate(symbols):
        if not isinstance(symbol, str):
            raise TableError(f"symbol {row} is {type(symbol).__name__} {symbol!r}; symbols must be strings")
        if symbol in seen:
            raise TableError(f"symbol {symbol!r} stands in row {row} and again before it; symbols must be distinct")
        if not symbol.isascii():
            try:
                symbol.encode("utf-8")
            except UnicodeEncodeError as error:
                raise TableError(f"symbol {row} ({symbol!r}) cannot be written as UTF-8: {error.reason}") from None
        seen.add(symbol)
