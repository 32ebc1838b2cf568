"""gensim: tables as `KeyedVectors`, all vectors in memory, or decoded when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from numbers import Integral
from os import PathLike
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from kdcode import storage
from kdcode.arrays import DoubleArray, FloatArray
from kdcode.coded import CodedTable
from kdcode.errors import MissingExtraError, OptionError, ReadOnlyError
from kdcode.integrations.decoded_array import DecodedArray
from kdcode.mapping import TableMapping
from kdcode.similarity import most_similar_rows

try:
    from gensim.models import KeyedVectors
except ImportError as error:
    raise MissingExtraError("gensim's KeyedVectors", "gensim") from error

_NO_DIVISION_BY_ZERO = 1e-6  # what gensim adds to the denominator of the multiplicative objective


def keyed_vectors(table: TableMapping) -> KeyedVectors:
    """An ordinary `KeyedVectors` with all vectors of a table in memory, decoded chunk by chunk."""
    vectors = KeyedVectors(table.embedding_dim, len(table), dtype=np.float32)
    start = 0
    for symbols, rows in table.chunks():
        vectors.vectors[start : start + len(rows)] = rows
        vectors.index_to_key[start : start + len(rows)] = symbols
        start += len(rows)
    vectors.key_to_index = {symbol: row for row, symbol in enumerate(vectors.index_to_key)}
    vectors.next_index = start
    return vectors


class CodedKeyedVectors(KeyedVectors):  # type: ignore[misc]  # gensim has no types
    """A `KeyedVectors` that keeps the codes of a table and decodes the vectors that are asked for.

        vectors = CodedKeyedVectors.load("words.kdc")
        vectors.most_similar(positive=["king", "woman"], negative=["man"])

    Every method of gensim that asks something gives what it gives on the decoded vectors; searches compute cosines on
    the codes. Methods that would change vectors or keys raise a `ReadOnlyError`. Attributes of keys, `set_vecattr`, are
    kept in memory and can be set. `vectors` can be indexed as an array; `get_normed_vectors` decodes all rows.

    Args:
        table: a CodedTable, or any other table.
    """

    def __init__(self, table: TableMapping) -> None:
        # Not gensim's own, which makes a matrix.
        self.table = table
        self.vector_size = table.embedding_dim
        self.index_to_key = table.symbols
        self.key_to_index: Mapping[str, int] = _RowsByKey(table)
        self.next_index = len(table)
        self.expandos: dict[str, npt.NDArray[Any]] = {}
        self.mapfile_path = None

    @property
    def vectors(self) -> DecodedArray:
        """The (N, d) vectors, decoded where they are indexed."""
        return DecodedArray(self.table)

    @vectors.setter
    def vectors(self, _: object) -> NoReturn:
        raise _read_only("setting vectors")

    @cached_property
    def norms(self) -> FloatArray:
        """(N,) lengths of the vectors; computed chunk by chunk at first use."""
        return self.table.norms.astype(np.float32)

    def fill_norms(self, force: bool = False) -> None:
        """Does nothing: lengths are computed when they are needed."""

    def get_normed_vectors(self) -> FloatArray:
        """All (N, d) vectors divided by their lengths, in memory."""
        matrix: FloatArray = np.asarray(self.vectors)
        matrix /= self.norms[:, None]
        return matrix

    def __getitem__(self, key_or_keys: Any) -> FloatArray:  # noqa: ANN401 - as in gensim
        """The (d,) vector of a key, or the (n, d) vectors of several."""
        if isinstance(key_or_keys, str | int | np.integer):
            return self.get_vector(key_or_keys)  # type: ignore[no-any-return]
        return self.vectors[np.array([self.get_index(key) for key in key_or_keys], dtype=np.int64)]

    def most_similar(
        self,
        positive: Any = None,  # noqa: ANN401 - as in gensim
        negative: Any = None,  # noqa: ANN401
        topn: int | None = 10,
        clip_start: int = 0,
        clip_end: int | None = None,
        restrict_vocab: int | None = None,
        indexer: Any = None,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 - pairs, or an array where topn is None
        """The keys most similar to the mean of some minus that of others; as gensim's, in one pass over the codes."""
        if isinstance(topn, Integral) and topn < 1:
            return []
        keys, weights = _keys_and_weights(positive, negative)
        mean = self.get_mean_vector(keys, weights, pre_normalize=True, post_normalize=True, ignore_missing=False)
        if indexer is not None and isinstance(topn, int):
            return indexer.most_similar(mean, topn)
        start, end = (0, restrict_vocab) if restrict_vocab else (clip_start, clip_end or len(self))
        start, end, _ = slice(start, end).indices(len(self))
        if not topn:
            return self.table.similarities(mean)[start:end]
        given = [self.get_index(key) for key in keys if not isinstance(key, np.ndarray)]
        found = most_similar_rows(self.table, mean.astype(np.float64), given, topn, start, end)
        return [(symbol, score) for symbol, score in found]

    def most_similar_cosmul(
        self,
        positive: Any = None,  # noqa: ANN401 - as in gensim
        negative: Any = None,  # noqa: ANN401
        topn: int | None = 10,
        restrict_vocab: int | None = None,
    ) -> Any:  # noqa: ANN401 - pairs, or an array where topn is None
        """The keys with the largest product of similarities to some, divided by that to others (3CosMul)."""
        if isinstance(topn, Integral) and topn < 1:
            return []
        positive, negative = _listed(positive), _listed(negative)
        if not positive:
            raise ValueError("cannot compute similarity with no input")
        terms = [key if isinstance(key, np.ndarray) else self.get_vector(key, norm=True) for key in positive + negative]
        scores = np.empty(len(self))
        for start, dots in self.table.dot_products(np.array(terms, dtype=np.float64)):
            lengths = self.table.norms[start : start + len(dots), None]
            cosines = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
            shifted = (1 + cosines) / 2
            above, below = shifted[:, : len(positive)].prod(axis=1), shifted[:, len(positive) :].prod(axis=1)
            scores[start : start + len(dots)] = above / (below + _NO_DIVISION_BY_ZERO)
        scores = scores[:restrict_vocab]
        if not topn:
            return scores
        given = {self.get_index(key) for key in positive + negative if not isinstance(key, np.ndarray)}
        best = [row for row in np.argsort(-scores, kind="stable")[: topn + len(given)] if row not in given][:topn]
        names = self.table.symbols_at(np.array(best, dtype=np.int64))
        return [(name, float(scores[row])) for name, row in zip(names, best, strict=True)]

    def distances(self, word_or_vector: Any, other_words: Iterable[Any] = ()) -> DoubleArray:  # noqa: ANN401
        """(n,) cosine distances from a key or a vector to some keys, or to all where none are given."""
        is_vector = isinstance(word_or_vector, np.ndarray)
        vector = word_or_vector if is_vector else self.get_vector(word_or_vector)
        others = list(other_words)
        if not others:
            return 1 - self.table.similarities(vector)
        return 1 - np.asarray(self.cosine_similarities(vector, self[others]), dtype=np.float64)

    def save(self, fname_or_handle: str | PathLike[str], *args: object, **kwargs: object) -> None:
        """Write the codes to a .kdc file, which `load` opens; attributes of keys are not kept."""
        if not isinstance(self.table, CodedTable):
            raise OptionError(f"only codes are saved as .kdc, got {self.table!r}; kdcode.compress makes some")
        storage.save(self.table, fname_or_handle)

    @classmethod
    def load(cls, fname: str | PathLike[str], mmap: str | None = None) -> CodedKeyedVectors:
        """The vectors of a .kdc file, which stays on the disk and is mapped into memory whatever `mmap` says."""
        return cls(storage.load(fname))

    def __setitem__(self, keys: object, weights: object) -> NoReturn:
        raise _read_only("item assignment")


def _read_only(what: str) -> ReadOnlyError:
    return ReadOnlyError(
        f"{what}: coded vectors cannot be changed; make ordinary ones with vectors.table.to_keyed_vectors() and change "
        "these"
    )


def _refusing(name: str) -> Any:  # noqa: ANN401 - a method
    def method(self: CodedKeyedVectors, *args: object, **kwargs: object) -> NoReturn:
        raise _read_only(name)

    method.__name__ = name
    method.__doc__ = "Refused: coded vectors cannot be changed."
    return method


CHANGING = (
    "add_vector",
    "add_vectors",
    "intersect_word2vec_format",
    "resize_vectors",
    "sort_by_descending_frequency",
    "unit_normalize_all",
)
"""The methods of gensim that change vectors or keys."""

for _name in CHANGING:
    setattr(CodedKeyedVectors, _name, _refusing(_name))


class _RowsByKey(Mapping[str, int]):
    """What gensim calls `key_to_index`: the row of each symbol, looked up in the table."""

    def __init__(self, table: TableMapping) -> None:
        self._table = table

    def __getitem__(self, key: str) -> int:
        rows = self._table.rows_of([key], missing="skip") if isinstance(key, str) else ()
        if not len(rows):
            raise KeyError(key)
        return int(rows[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def _listed(items: Any) -> list[Any]:  # noqa: ANN401 - as in gensim
    """One key or vector, or several, as a list."""
    if items is None:
        return []
    is_one = isinstance(items, str | int | np.integer) or (isinstance(items, np.ndarray) and items.ndim == 1)
    return [items] if is_one else list(items)


def _keys_and_weights(positive: Any, negative: Any) -> tuple[list[Any], FloatArray]:  # noqa: ANN401 - as in gensim
    """Keys and vectors with their weights: 1 and -1, or those of pairs."""
    keys: list[Any] = []
    weights: list[float] = []
    for items, weight in ((_listed(positive), 1.0), (_listed(negative), -1.0)):
        for item in items:
            is_plain = isinstance(item, str | int | np.integer | np.ndarray)
            key, own = (item, weight) if is_plain else _pair(item)
            keys.append(key)
            weights.append(own)
    return keys, np.array(weights, dtype=np.float32)


def _pair(item: Sequence[Any]) -> tuple[Any, float]:
    key, weight = item
    return key, float(weight)
