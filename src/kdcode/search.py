"""Nearest neighbours of one query or of many, found in one pass over a table.

A table hands out its dot products with the queries chunk by chunk: a coded table from sums of D table entries per row,
without composing a vector. Of each chunk only the rows that may be among the k nearest are kept; the vectors of those
that are left at the end give the exact scores. All is float64: no finite float32 vectors are too long or too short.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray, IntArray, as_array, described, rows_at_once
from kdcode.errors import OptionError

METRICS = ("cosine", "dot", "l2")
QUERIES_AT_ONCE = 256
"""The most queries that are answered in one pass over a table."""


class Neighbor(NamedTuple):
    """A symbol and how near it is: cosine or dot product (larger is nearer), or L2 distance (smaller is nearer)."""

    symbol: str
    score: float


class Searchable(Protocol):
    """What a search needs of a table."""

    @property
    def norms(self) -> DoubleArray:
        """(N,) lengths of the vectors."""
        ...

    @property
    def queries_at_once(self) -> int:
        """How many queries to answer in one pass."""
        ...

    def __len__(self) -> int: ...

    def dot_products(self, queries: DoubleArray) -> Iterator[tuple[int, DoubleArray]]:
        """Dot products with (q, d) queries, in order: the first row of a chunk, and (n, q) numbers."""
        ...

    def vectors_at(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows."""
        ...

    def symbols_at(self, rows: IntArray) -> list[str]:
        """The symbols of (n,) rows."""
        ...


def check_request(k: int, metric: str) -> None:
    """Refuse a metric that is not there and a k that is no number of neighbours."""
    if metric not in METRICS:
        raise OptionError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise OptionError(f"k must be at least 1, got {k!r}" if isinstance(k, int) else f"k must be an int, got {k!r}")


def checked_queries(query: Any, dim: int) -> FloatArray:  # noqa: ANN401 - checked here
    """(d,) or (n, d) finite float32 vectors, or a refusal."""
    try:
        given = as_array(query)
    except (TypeError, ValueError):  # lists of several lengths
        given = np.empty(0)
    with np.errstate(over="ignore"):  # what overflows float32 becomes inf and is refused
        vectors = given.astype(np.float32) if given.dtype.kind in "fiu" else np.empty(0, dtype=np.float32)
    if vectors.ndim not in (1, 2) or vectors.shape[-1] != dim:
        hint = "; for a row number give its symbol, table.symbols[row]" if isinstance(query, int | np.integer) else ""
        raise OptionError(
            f"a query is a symbol or a vector of {dim} numbers, or several of them, got {described(query)}{hint}"
        )
    if not np.isfinite(vectors).all():
        raise OptionError("a query has a value that is not a finite float32; expected finite vectors")
    return vectors


def neighbors(
    table: Searchable, queries: FloatArray | DoubleArray, own_rows: IntArray, k: int, metric: str
) -> list[list[Neighbor]]:
    """The k rows nearest to each query, nearest first; of rows that are equally near, the first ones.

    Args:
        table: the table to look in.
        queries: (q, d) finite vectors.
        own_rows: (q,) for each query the row that is left out of its answer, -1 where none is.
        k: how many; fewer come back from a smaller table.
        metric: cosine, dot or l2.
    """
    found: list[list[Neighbor]] = []
    for start in range(0, len(queries), table.queries_at_once):
        some = slice(start, start + table.queries_at_once)
        asked = queries[some].astype(np.float64)
        nearest = _nearest_rows(table, asked, own_rows[some], k, metric)
        found += [_ranked(table, rows, query, metric) for rows, query in zip(nearest, asked, strict=True)]
    return found


def _nearest_rows(table: Searchable, queries: DoubleArray, own_rows: IntArray, k: int, metric: str) -> list[IntArray]:
    """For each query the rows of its k nearest, in row order."""
    rows: list[IntArray] = [np.empty(0, dtype=np.int64) for _ in queries]
    scores: list[DoubleArray] = [np.empty(0) for _ in queries]
    enough = np.full(len(queries), -np.inf)  # what a later row must exceed: of equal ones the first are kept
    for start, dots in table.dot_products(queries):
        near = _nearness(dots, table, slice(start, start + len(dots)), metric)
        own = np.flatnonzero((own_rows >= start) & (own_rows < start + len(dots)))
        near[own_rows[own] - start, own] = -np.inf
        for query in np.flatnonzero(near.max(axis=0) > enough):
            column = near[:, query]
            better = np.flatnonzero(column > enough[query])
            rows[query], scores[query] = _best(
                np.concatenate([rows[query], start + better]), np.concatenate([scores[query], column[better]]), k
            )
            if len(rows[query]) == k:
                enough[query] = scores[query].min()
    return rows


def _best(rows: IntArray, scores: DoubleArray, count: int) -> tuple[IntArray, DoubleArray]:
    """The `count` rows with the largest scores, in row order; of equal ones the first."""
    if len(rows) <= count:
        return rows, scores
    border = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = np.flatnonzero(scores > border)
    kept = np.sort(np.concatenate([above, np.flatnonzero(scores == border)[: count - len(above)]]))
    return rows[kept], scores[kept]


def _nearness(dots: DoubleArray, table: Searchable, rows: slice, metric: str) -> DoubleArray:
    """(n, q) dot products, turned in place into numbers that are larger for nearer rows; for choosing rows only."""
    if metric == "cosine":  # times the length of the query, which is the same for all rows
        norms = table.norms[rows, None]
        dots *= np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    elif metric == "l2":
        dots *= 2
        dots -= table.norms[rows, None] ** 2
    return dots


def _ranked(table: Searchable, rows: IntArray, query: DoubleArray, metric: str) -> list[Neighbor]:
    """Chosen rows with their scores, computed from their vectors, nearest first."""
    scores, at_once = np.empty(len(rows)), rows_at_once(len(query))
    for start in range(0, len(rows), at_once):
        vectors = table.vectors_at(rows[start : start + at_once]).astype(np.float64)
        if metric == "l2":  # the difference itself: ‖v‖² − 2v·q + ‖q‖² loses the digits of a short distance
            found = np.linalg.norm(vectors - query, axis=1)
        elif metric == "dot":
            found = vectors @ query
        else:
            found = _cosines(vectors @ query, np.linalg.norm(vectors, axis=1) * np.linalg.norm(query))
        scores[start : start + at_once] = found
    order = np.argsort(scores if metric == "l2" else -scores, kind="stable")
    names = table.symbols_at(rows[order])
    return [Neighbor(name, float(score)) for name, score in zip(names, scores[order], strict=True)]


def _cosines(dots: DoubleArray, lengths: DoubleArray) -> DoubleArray:
    """Dot products over products of lengths; 0 with a vector of length zero, which has no direction."""
    return np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
