"""TableMapping: what VectorTable and CodedTable have in common: rows looked up as in a mapping, and neighbours."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from importlib import import_module
from typing import Any, TypeAlias, TypedDict, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from kdcode import search
from kdcode.arrays import CHUNK_ROWS, DoubleArray, FloatArray, IntArray, as_array, described
from kdcode.errors import OptionError, RowError, UnknownSymbolError, UnknownSymbolsError
from kdcode.search import Neighbor
from kdcode.similarity import SimilarityQueries
from kdcode.symbols import RowNumbers, StoredSymbols, checked_rows, suggestion

Key: TypeAlias = "str | Sequence[str] | slice | npt.ArrayLike"
"""What stands in brackets: a symbol, symbols, a row number, row numbers, a slice of rows, or a mask of N booleans."""

_MISSING = ("raise", "skip")
_SUGGESTED = 20
"""Missing symbols for which other spellings are looked up."""


class SearchOptions(TypedDict, total=False):
    """The keywords of `neighbors`."""

    metric: str
    missing: str
    threads: int | None


class TableMapping(SimilarityQueries, Mapping[str, FloatArray]):
    """A read-only mapping of N symbols to vectors of size d, in row order.

    `table["king"]` is a (d,) vector, `table[["king", "queen"]]` a (2, d) matrix. Symbols are strings, so integers are
    row numbers: `table[3]`, `table[-1]` for the last, `table[10:20]`, `table[[3, 1]]`, an integer array of any shape,
    or a mask of N booleans. What comes back is float32 and a copy. Iteration, `in`, `len`, `get`, `keys`, `values` and
    `items` are those of a dict. Two tables are equal only if they are the same object.
    """

    symbols: Sequence[str]

    @abstractmethod
    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[tuple[Sequence[str], FloatArray]]:
        """Pieces of the table in order: up to `rows` symbols and their vectors."""

    @abstractmethod
    def _find(self, symbol: str) -> int | None:
        """The row of `symbol`, or None."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __iter__(self) -> Iterator[str]:
        return iter(self.symbols)

    def __contains__(self, symbol: object) -> bool:
        return isinstance(symbol, str) and self._find(symbol) is not None

    def values(self) -> ValuesView[FloatArray]:
        """All (d,) vectors in row order, read chunk by chunk."""
        return _Values(self)

    def items(self) -> ItemsView[str, FloatArray]:
        """All symbols with their (d,) vectors in row order, read chunk by chunk."""
        return _Items(self)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The (N, d) matrix: what `numpy.asarray(table)` gives."""
        return np.array(self.vectors_at(np.arange(len(self))), dtype=dtype, copy=copy)

    def __getitem__(self, key: Key) -> FloatArray:
        """Vectors as float32: (d,) of a symbol or a row number, (n, d) of several; see the class for what a key may be.

        Raises:
            UnknownSymbolError: the table has no such symbol; a KeyError.
            RowError: a row number lies outside the table; an IndexError.
        """
        rows = self.rows_of(key)
        return self.vectors_at(rows.reshape(-1)).reshape(*rows.shape, self.embedding_dim)

    def row_of(self, symbol: str) -> int:
        """The row number of `symbol`.

        Raises:
            UnknownSymbolError: there is none; the message suggests another spelling that the table has.
        """
        if not isinstance(symbol, str):
            raise OptionError(f"a symbol is a string, got {symbol!r}; table[{symbol!r}] takes row numbers")
        row = self._find(symbol)
        if row is None:
            self.require_rows()
            raise UnknownSymbolError(symbol, suggestion(symbol, self))
        return row

    def rows_of(self, key: Key, *, missing: str = "raise") -> IntArray:
        """The row numbers that a key in brackets stands for.

        Args:
            key: a symbol, a list of symbols, a row number, row numbers, a slice of rows, or a mask of N booleans.
            missing: what happens to symbols that the table does not have: "raise" an error that lists them, or "skip"
                them.

        Returns:
            integers in [0, N): one without a shape for a single symbol or row, else of the shape of the key.
        """
        if missing not in _MISSING:
            raise OptionError(f"missing must be one of {', '.join(_MISSING)}, got {missing!r}")
        if isinstance(key, str):
            return np.asarray(self.row_of(key))
        self.require_rows()
        if isinstance(key, slice):
            return self._slice(key)
        if isinstance(key, tuple):
            raise OptionError(f"one key is expected, got {len(key)}; several rows or symbols are a list: table[[…]]")
        symbols = _symbols_in(key)
        return self._rows_of_numbers(key) if symbols is None else self._rows_of_symbols(symbols, missing)

    def symbols_at(self, rows: IntArray) -> list[str]:
        """The symbols of (n,) rows in [0, N)."""
        at = getattr(self.symbols, "at", None)  # quicker than one by one where symbols are stored in blocks
        picked = [int(row) for row in rows]
        if at is not None:
            return cast("list[str]", at(picked))
        return [self.symbols[row] for row in checked_rows(np.array(picked, dtype=np.int64), len(self))]

    @overload
    def neighbors(self, query: str, k: int = 10, **how: Unpack[SearchOptions]) -> list[Neighbor]: ...
    @overload
    def neighbors(self, query: list[str], k: int = 10, **how: Unpack[SearchOptions]) -> list[list[Neighbor]]: ...
    @overload
    def neighbors(self, query: npt.ArrayLike, k: int = 10, **how: Unpack[SearchOptions]) -> list[Any]: ...
    def neighbors(
        self,
        query: str | list[str] | npt.ArrayLike,
        k: int = 10,
        *,
        metric: str = "cosine",
        missing: str = "raise",
        threads: int | None = None,
    ) -> list[Any]:
        """The symbols nearest to a symbol or a vector, nearest first; or those of several, found in one pass.

        Args:
            query: a symbol, which is left out of its own answer, or a (d,) vector; or a list of symbols, or (n, d)
                vectors.
            k: how many; fewer come back from a smaller table. Of equally near rows the first ones are taken.
            metric: "cosine", "dot" (both: larger is nearer) or "l2" (distance: smaller is nearer).
            missing: what happens to symbols that the table does not have: "raise" an error that lists them, or "skip"
                them, which leaves an empty list in their place.
            threads: on how many threads a large table is searched; on all CPUs if None.

        Returns:
            `Neighbor(symbol, score)` for one query; a list of such lists, one for each query, for several.
        """
        self.require_rows()
        request = search.checked_request(k, metric, threads)
        symbols = [query] if isinstance(query, str) else _symbols_in(query)
        if symbols is None:
            vectors = search.checked_queries(query, self.embedding_dim)
            found = search.neighbors(self, np.atleast_2d(vectors), np.full(len(np.atleast_2d(vectors)), -1), request)
            return found[0] if vectors.ndim == 1 else found
        known = [symbol for symbol in symbols if missing != "skip" or symbol in self]
        rows = self.rows_of(known, missing=missing)
        answers = dict(zip(known, search.neighbors(self, self.vectors_at(rows), rows, request), strict=True))
        return answers.get(query, []) if isinstance(query, str) else [answers.get(symbol, []) for symbol in symbols]

    def to_keyed_vectors(self, *, expanded: bool = True) -> Any:  # noqa: ANN401 - a class of gensim
        """The table as gensim's `KeyedVectors`.

        Args:
            expanded: whether all vectors are decoded into memory, which gives an ordinary `KeyedVectors`. Otherwise it
                is a `CodedKeyedVectors`, which is read-only, answers the same questions and keeps the codes.

        Raises:
            MissingExtraError: gensim is not installed.
        """
        self.require_rows()
        # Resolved when it is called, as the names of kdcode are: a table needs numpy alone.
        gensim_vectors = import_module("kdcode.integrations.gensim_vectors")
        return gensim_vectors.keyed_vectors(self) if expanded else gensim_vectors.CodedKeyedVectors(self)

    def to_faiss(self, metric: str = "dot") -> Any:  # noqa: ANN401 - a class of faiss
        """The table as a faiss index: of a coded table one with the same codes, of others an `IndexFlat`.

        Ids are row numbers: `table.symbols_at(ids)` are their symbols. `index.search` and `index.reconstruct` give what
        they would give over the decoded vectors, but for rounding. See `kdcode.integrations.faiss_index`.

        Args:
            metric: "dot" (larger is nearer) or "l2" (faiss gives the squares of distances; smaller is nearer).

        Raises:
            MissingExtraError: faiss is not installed.
            OptionError: faiss has no such metric, or the table has LSTM codes or row scales, which faiss cannot take.
        """
        self.require_rows()
        return import_module("kdcode.integrations.faiss_index").faiss_index(self, metric)

    def _rows_of_symbols(self, symbols: Iterable[str], missing: str) -> IntArray:
        listed = list(symbols)
        if isinstance(self.symbols, StoredSymbols):
            rows = self.symbols.find_each(listed)
        else:
            rows = [self._find(symbol) for symbol in listed]
        absent = [symbol for symbol, row in zip(listed, rows, strict=True) if row is None]
        if absent and missing == "raise":
            pairs = [
                (symbol, suggestion(symbol, self) if number < _SUGGESTED else None)
                for number, symbol in enumerate(dict.fromkeys(absent))
            ]
            raise UnknownSymbolError(*pairs[0]) if len(pairs) == 1 else UnknownSymbolsError(pairs)
        return np.array([row for row in rows if row is not None], dtype=np.int64)

    def _rows_of_numbers(self, key: npt.ArrayLike) -> IntArray:
        """The rows that integers or booleans stand for."""
        try:
            array = as_array(key)
        except ValueError:  # lists of several lengths
            array = np.empty(1)
        if array.dtype == bool and array.ndim:
            if array.shape != (len(self),):
                raise RowError(f"a mask needs one boolean for each of {len(self)} rows, got shape {array.shape}")
            return np.flatnonzero(array)
        if array.dtype.kind not in "iu":
            raise OptionError(f"expected symbols (strings) or row numbers (integers), got {described(key)}")
        return checked_rows(array, len(self), negative=True)

    def _selected(self, key: Key, missing: str) -> tuple[list[str] | None, IntArray]:
        """The symbols and (n,) rows of a selection; None for symbols that are still the row numbers."""
        rows = np.atleast_1d(self.rows_of(key, missing=missing))
        if rows.ndim != 1 or not len(rows):
            raise OptionError(f"a selection needs a list of at least one row, got shape {rows.shape}")
        again = np.setdiff1d(np.arange(len(rows)), np.unique(rows, return_index=True)[1])
        if len(again):
            raise OptionError(f"row {rows[again[0]]} ({self.symbols[rows[again[0]]]!r}) is selected more than once")
        is_beginning = isinstance(self.symbols, RowNumbers) and np.array_equal(rows, np.arange(len(rows)))
        return None if is_beginning else self.symbols_at(rows), rows

    def _slice(self, key: slice) -> IntArray:
        try:
            return np.arange(*key.indices(len(self)))
        except TypeError:
            raise OptionError(f"a slice takes row numbers, got {key.start!r}:{key.stop!r}") from None


class _Values(ValuesView[FloatArray]):
    def __init__(self, table: TableMapping) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[FloatArray]:
        return (vector for _, vectors in self._table.chunks() for vector in vectors)


class _Items(ItemsView[str, FloatArray]):
    def __init__(self, table: TableMapping) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[tuple[str, FloatArray]]:
        return (pair for symbols, vectors in self._table.chunks() for pair in zip(symbols, vectors, strict=True))


def new_rows(table: TableMapping, rows: Mapping[str, npt.ArrayLike], at: str) -> tuple[list[str], FloatArray]:
    """Symbols and (n, d) vectors that are to be added to a table, checked; a number stands for d equal ones."""
    if at not in ("start", "end"):
        raise OptionError(f"at must be start or end, got {at!r}")
    if not isinstance(rows, Mapping) or not rows:
        raise OptionError(f"rows to add are a dict of symbol to vector, as in {{'<pad>': 0}}, got {described(rows)}")
    vectors = np.empty((len(rows), table.embedding_dim), dtype=np.float32)
    for number, (symbol, vector) in enumerate(rows.items()):
        if symbol in table:
            raise OptionError(f"the table has {symbol!r} already, in row {table.row_of(symbol)}; take another symbol")
        given = as_array(vector)
        if given.dtype.kind not in "fiu" or given.shape not in ((), (table.embedding_dim,)):
            raise OptionError(
                f"the vector of {symbol!r} must have {table.embedding_dim} numbers, or be one number for all of them, "
                f"got {described(vector)}"
            )
        vectors[number] = given
    return list(rows), vectors


def joined(array: npt.NDArray[Any], added: npt.NDArray[Any], at: str) -> npt.NDArray[Any]:
    """An array with rows added at its start or its end."""
    return np.concatenate([added, array] if at == "start" else [array, added])


def lengths(vectors: FloatArray) -> DoubleArray:
    """(n,) lengths of (n, d) vectors; squared in float64, which no float32 is too large or too small for."""
    squares: DoubleArray = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return np.sqrt(squares)


def _symbols_in(key: object) -> list[str] | None:
    """The symbols of a list or array of them; None where it is of numbers."""
    values = key if isinstance(key, list | tuple) else as_array(key)  # an array drops NULs at the end of strings
    if isinstance(values, np.ndarray):
        values = values.tolist() if values.ndim == 1 and (values.dtype.kind in "UTO" or not values.size) else [None]
    if values and not any(isinstance(symbol, str) for symbol in values):
        return None
    for symbol in values:
        if not isinstance(symbol, str):
            raise OptionError(f"expected symbols alone or numbers alone, got {symbol!r:.60} among symbols")
    return list(values)
