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
from kdcode.cpus import available_cpus
from kdcode.errors import OptionError

METRICS = ("cosine", "dot", "l2")
QUERIES_AT_ONCE = 256
"""The most queries that are answered in one pass over a table."""


class Neighbor(NamedTuple):
    """A symbol and how near it is: cosine or dot product (larger is nearer), or L2 distance (smaller is nearer)."""

    symbol: str
    score: float


class Request(NamedTuple):
    """What is asked: the k nearest by a metric, looked for on so many threads."""

    k: int
    metric: str
    threads: int = 1


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

    def candidates(self, queries: DoubleArray, request: Request) -> list[IntArray] | None:
        """For each of (q, d) queries rows, in order, with its k nearest among them; None where only a pass tells."""
        ...

    def vectors_at(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows."""
        ...

    def symbols_at(self, rows: IntArray) -> list[str]:
        """The symbols of (n,) rows."""
        ...


def checked_request(k: int, metric: str, threads: int | None = None) -> Request:
    """Refuse a metric that is not there, and a k or a number of threads that are none."""
    if metric not in METRICS:
        raise OptionError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    for name, number in {"k": k, "threads": 1 if threads is None else threads}.items():
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise OptionError(f"{name} must be an int, got {number!r}")
        if number < 1:
            raise OptionError(f"{name} must be at least 1, got {number!r}")
    return Request(int(k), metric, threads or available_cpus())


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
    table: Searchable, queries: FloatArray | DoubleArray, own_rows: IntArray, request: Request
) -> list[list[Neighbor]]:
    """The k rows nearest to each query, nearest first; of rows that are equally near, the first ones.

    Args:
        table: the table to look in.
        queries: (q, d) finite vectors.
        own_rows: (q,) for each query the row that is left out of its answer, -1 where none is.
        request: how many, by which metric; fewer come back from a smaller table.
    """
    found: list[list[Neighbor]] = []
    for start in range(0, len(queries), table.queries_at_once):
        some = slice(start, start + table.queries_at_once)
        asked = queries[some].astype(np.float64)
        nearest = table.candidates(asked, request._replace(k=request.k + 1))  # one of which may be left out
        if nearest is None:
            nearest = _nearest_rows(table, asked, own_rows[some], request.k, request.metric)
        found += [_ranked(table, *each, request) for each in zip(nearest, asked, own_rows[some], strict=True)]
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


def _ranked(table: Searchable, rows: IntArray, query: DoubleArray, own: int, request: Request) -> list[Neighbor]:
    """The k nearest of some rows with their scores, computed from their vectors, nearest first."""
    rows = rows[rows != own]
    nearness = exact_nearness(table, rows, query, request.metric)
    order = np.argsort(-nearness, kind="stable")[: request.k]
    scores = -nearness if request.metric == "l2" else nearness
    names = table.symbols_at(rows[order])
    return [Neighbor(name, float(score)) for name, score in zip(names, scores[order], strict=True)]


def exact_nearness(table: Searchable, rows: IntArray, query: DoubleArray, metric: str) -> DoubleArray:
    """(n,) cosines or dot products of (n,) rows with a (d,) query, or L2 distances below zero; larger is nearer."""
    found, at_once = np.empty(len(rows)), rows_at_once(4 * len(query))  # of float64, and of float32 before
    for start in range(0, len(rows), at_once):
        vectors = table.vectors_at(rows[start : start + at_once]).astype(np.float64)
        if metric == "l2":  # the difference itself: ‖v‖² − 2v·q + ‖q‖² loses the digits of a short distance
            near = -np.linalg.norm(vectors - query, axis=1)
        elif metric == "dot":
            near = _dots(vectors, query)
        else:
            near = _cosines(_dots(vectors, query), np.linalg.norm(vectors, axis=1) * np.linalg.norm(query))
        found[start : start + at_once] = near
    return found


def _dots(vectors: DoubleArray, query: DoubleArray) -> DoubleArray:
    """(n,) dot products of (n, d) vectors, equal of equal vectors wherever they stand: those of a BLAS need not be."""
    return np.asarray((vectors * query).sum(axis=1))


def _cosines(dots: DoubleArray, lengths: DoubleArray) -> DoubleArray:
    """Dot products over products of lengths; 0 with a vector of length zero, which has no direction."""
    return np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
