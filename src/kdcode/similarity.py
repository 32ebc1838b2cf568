"""What word vectors are asked about similarity: analogies, the odd one out, ranks. All of it is measured by cosine.

The answers are those of gensim's methods of the same names, computed in passes over a table that hold a chunk of its
rows at a time, and N numbers where all rows are compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from numbers import Real
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from kdcode import search
from kdcode.arrays import DoubleArray, FloatArray, IntArray, as_array, described
from kdcode.errors import NoRowsError, OptionError
from kdcode.search import Neighbor

Item: TypeAlias = "str | int | npt.ArrayLike"
"""What can be compared: a symbol, a row number, or a vector of size d."""

Items: TypeAlias = "Item | Sequence[Item | tuple[Item, float]]"
"""One item, or several, each with a weight where it is a pair."""


class SimilarityQueries(ABC):
    """The questions, for a table that says what a search needs of it."""

    @property
    @abstractmethod
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""

    @property
    @abstractmethod
    def norms(self) -> DoubleArray:
        """(N,) lengths of the vectors."""

    @property
    def queries_at_once(self) -> int:
        """How many queries a search answers in one pass."""
        return search.QUERIES_AT_ONCE

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def vectors_at(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows in [0, N)."""

    @abstractmethod
    def dot_products(self, queries: DoubleArray) -> Iterator[tuple[int, DoubleArray]]:
        """Dot products with (q, d) queries, in order: the first row of a chunk, and (n, q) numbers."""

    def candidates(
        self, queries: DoubleArray, request: search.Request, start: int = 0, end: int = -1
    ) -> list[IntArray] | None:
        """For each of (q, d) queries rows from `start` to before `end`, in order, with its k nearest among them.

        None where only a pass over `dot_products` tells.
        """
        return None

    @abstractmethod
    def symbols_at(self, rows: IntArray) -> list[str]:
        """The symbols of (n,) rows in [0, N)."""

    @abstractmethod
    def rows_of(self, key: Any, *, missing: str = "raise") -> IntArray:  # noqa: ANN401 - see TableMapping
        """The row numbers that a key stands for."""

    def require_rows(self) -> None:
        """Refuse what only rows can tell.

        Raises:
            NoRowsError: this is a codebook.
        """
        if not len(self):
            raise NoRowsError

    def most_similar(
        self,
        positive: Items | None = None,
        negative: Items | None = None,
        topn: int = 10,
        *,
        restrict_vocab: int | None = None,
    ) -> list[Neighbor]:
        """The symbols whose vectors point most nearly in the direction of `positive` minus `negative`.

            table.most_similar(["king", "woman"], ["man"])

        The direction is the sum of the unit vectors of the positive symbols, minus those of the negative ones. A vector
        that is given counts with its own length, as in gensim.

        Args:
            positive: a symbol, a row number or a (d,) vector, or a list of them; in a list, a pair like ("king", 0.5)
                has a weight.
            negative: the same, subtracted; the weight in a pair is taken as it is, so that one to subtract is negative.
            topn: how many; fewer come back from a smaller table, and none for 0.
            restrict_vocab: look only at this many first rows, which in most tables are the most frequent symbols.

        Returns:
            (symbol, cosine) pairs, the most similar first; the symbols that were given are left out.

        Raises:
            UnknownSymbolError: the table does not have one of the symbols; a KeyError.
            OptionError: nothing was given to compare with; a ValueError.
        """
        self.require_rows()
        topn, end = _checked_count("topn", topn, 0), len(self)
        if restrict_vocab is not None:
            end = min(end, _checked_count("restrict_vocab", restrict_vocab, 1))
        weighted = [*_weighted(positive, 1.0), *_weighted(negative, -1.0)]
        if not weighted:
            raise OptionError("most_similar needs a symbol or a vector to compare with, got none")
        given, total = [], np.zeros(self.embedding_dim)
        for item, weight in weighted:
            row, vector = self._vector_of(item)
            if row is not None:
                given.append(row)
                vector = _unit(vector)
            total += weight * vector
        return most_similar_rows(self, total, given, topn, end=end)

    def similarities(self, query: Item) -> DoubleArray:
        """(N,) cosines of all rows, in row order, with a symbol, a row number or a (d,) vector."""
        vector = self._vector_of(query)[1]
        found = np.empty(len(self))
        for start, dots in self.dot_products(vector[None]):
            found[start : start + len(dots)] = dots[:, 0]
        lengths = self.norms * np.linalg.norm(vector)
        return np.divide(found, lengths, out=np.zeros_like(found), where=lengths > 0)

    def similarity(self, first: Item, second: Item) -> float:
        """The cosine between two symbols, row numbers or vectors; 0 where one of them has the length zero."""
        return _cosine(self._vector_of(first)[1], self._vector_of(second)[1])

    def n_similarity(self, first: Sequence[Item], second: Sequence[Item]) -> float:
        """The cosine between the mean vectors of two lists, such as the words of two sentences."""
        if not len(first) or not len(second):
            raise OptionError("n_similarity needs two lists of at least one symbol each, got an empty one")
        sums = [sum(self._vector_of(item)[1] for item in items) for items in (first, second)]
        return _cosine(*(cast(DoubleArray, each) for each in sums))

    def doesnt_match(self, symbols: Sequence[str]) -> str:
        """The symbol that is least similar to the mean of all; of equally similar ones the last."""
        if isinstance(symbols, str) or not len(symbols):
            raise OptionError(f"doesnt_match needs a list of symbols, got {described(symbols)}")
        vectors = [_unit(self._vector_of(symbol)[1]) for symbol in symbols]
        mean = np.sum(vectors, axis=0)
        cosines = [_cosine(vector, mean) for vector in vectors]
        return symbols[len(cosines) - 1 - int(np.argmin(cosines[::-1]))]

    def rank(self, first: Item, second: str | int) -> int:
        """Where `second` stands among the rows most similar to `first`: 1 for the nearest; `first` itself is left out.

        It is 1 where both are the same.
        """
        own, vector = self._vector_of(first)
        other = self._vector_of(second)[0]
        if other is None:
            raise OptionError(f"rank needs a symbol or a row number to find, got {described(second)}")
        cosines = self.similarities(vector)
        nearer = cosines > cosines[other]
        if own is not None:
            nearer[own] = False
        return int(nearer.sum()) + 1 if own != other else 1

    def _vector_of(self, item: Item) -> tuple[int | None, DoubleArray]:
        """The row of an item, None of a vector, and its (d,) numbers."""
        if isinstance(item, str | int | np.integer) and not isinstance(item, bool):
            row = int(self.rows_of(item))
            return row, self.vectors_at(np.array([row]))[0].astype(np.float64)
        vector = search.checked_queries(item, self.embedding_dim)
        if vector.ndim != 1:
            raise OptionError(f"expected one vector of {self.embedding_dim} numbers, got {described(item)}")
        return None, vector.astype(np.float64)


def most_similar_rows(
    table: SimilarityQueries, direction: DoubleArray, given: Iterable[int], topn: int, start: int = 0, end: int = -1
) -> list[Neighbor]:
    """The rows from `start` to before `end` with the largest cosines with a direction, but for the rows given."""
    left_out = sorted(set(given))
    end = len(table) if end < 0 else end
    if topn < 1 or end <= start:
        return []
    part = _RowRange(table, start, end)
    own = np.full(1, -1)
    request = search.checked_request(min(topn, len(table)) + len(left_out), "cosine")
    found = search.neighbors(part, direction[None], own, request)
    names = set(table.symbols_at(np.array(left_out, dtype=np.int64)))
    return [near for near in found[0] if near.symbol not in names][:topn]


class _RowRange:
    """Some rows of a table that follow one another, searched alone."""

    def __init__(self, table: SimilarityQueries, start: int, end: int) -> None:
        self._table, self._start, self._end = table, start, end

    @property
    def norms(self) -> DoubleArray:
        return self._table.norms[self._start : self._end]

    @property
    def queries_at_once(self) -> int:
        return self._table.queries_at_once

    def __len__(self) -> int:
        return self._end - self._start

    def dot_products(self, queries: DoubleArray) -> Iterator[tuple[int, DoubleArray]]:
        for start, dots in self._table.dot_products(queries):
            if start >= self._end:
                return
            if start + len(dots) > self._start:
                skipped = max(0, self._start - start)
                yield start + skipped - self._start, dots[skipped : self._end - start]

    def candidates(self, queries: DoubleArray, request: search.Request) -> list[IntArray] | None:
        found = self._table.candidates(queries, request, self._start, self._end)
        return None if found is None else [rows - self._start for rows in found]

    def vectors_at(self, rows: IntArray) -> FloatArray:
        return self._table.vectors_at(rows + self._start)

    def symbols_at(self, rows: IntArray) -> list[str]:
        return self._table.symbols_at(rows + self._start)


def _weighted(items: Any, weight: float) -> list[tuple[Any, float]]:  # noqa: ANN401 - checked here
    """Items with their weights; those that have none get `weight`."""
    if items is None:
        return []
    if isinstance(items, str | int | np.integer):
        return [(items, weight)]
    if not isinstance(items, list | tuple):
        array = as_array(items)
        if array.ndim not in (1, 2):
            raise OptionError(f"expected symbols, row numbers or vectors, one or a list, got {described(items)}")
        items = [array] if array.ndim == 1 and array.dtype.kind == "f" else list(array)
    return [(each[0], float(each[1])) if _is_pair(each) else (each, weight) for each in items]


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Real)


def _checked_count(name: str, value: object, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise OptionError(f"{name} must be an integer of at least {low}, got {value!r}")
    return int(value)


def _unit(vector: DoubleArray) -> DoubleArray:
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else vector


def _cosine(first: DoubleArray, second: DoubleArray) -> float:
    """The cosine of two vectors, exactly 1 of a vector with itself."""
    lengths = np.sqrt((first @ first) * (second @ second))
    return float(np.clip(first @ second / lengths, -1, 1)) if lengths > 0 else 0.0
