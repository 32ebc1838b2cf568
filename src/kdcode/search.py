"""Nearest neighbours computed on the codes.

A dot product with a query is a sum of D table entries per row; the tables hold the query's dot product with every
codeword. Rows are read in chunks and never kept as vectors; only the chosen ones are composed, for their exact scores.
The LSTM is no such sum: its rows are composed chunk by chunk and dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode.arrays import CHUNK_ROWS, FloatArray, IntArray
from kdcode.codec.codec import checked_vectors
from kdcode.errors import OptionError

if TYPE_CHECKING:
    from kdcode.coded import CodedTable

METRICS = ("cosine", "dot", "l2")
_TINY = np.float32(1e-12)


class Neighbor(NamedTuple):
    """A symbol and how near it is: cosine or dot product (larger is nearer), or L2 distance (smaller is nearer)."""

    symbol: str
    score: float


def neighbors(coded: CodedTable, query: str | npt.ArrayLike, k: int = 10, *, metric: str = "cosine") -> list[Neighbor]:
    """The k rows nearest to a query, nearest first.

    Args:
        coded: the table to look in.
        query: a symbol, which is left out of its own answer, or a (d,) vector.
        k: how many; fewer come back from a smaller table.
        metric: cosine, dot or l2.
    """
    if metric not in METRICS:
        raise OptionError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if k < 1:
        raise OptionError(f"k must be at least 1, got {k}")
    own_row = coded.row_of(query) if isinstance(query, str) else None
    vector = checked_vectors(coded.decode(own_row) if own_row is not None else query, coded.embedding_dim)
    if vector.ndim != 1:
        raise OptionError(f"a query is a symbol or one vector, got an array of shape {vector.shape}")
    nearness = _nearness(dot_products(coded, vector), vector, coded, metric)
    if own_row is not None:
        nearness[own_row] = -np.inf
    count = min(k, len(coded) - (own_row is not None))
    if count == 0:
        return []
    # Of rows that are equally near, the first ones: argpartition alone would leave the choice to chance.
    border = np.partition(nearness, len(nearness) - count)[len(nearness) - count]
    rows = np.flatnonzero(nearness >= border)
    rows = np.sort(rows[np.argsort(-nearness[rows], kind="stable")][:count])
    scores = _scores(coded, rows, vector, metric)
    nearest_first = np.argsort(scores if metric == "l2" else -scores, kind="stable")
    names = coded.symbols_at(rows[nearest_first])
    return [Neighbor(name, float(score)) for name, score in zip(names, scores[nearest_first], strict=True)]


def dot_products(coded: CodedTable, query: FloatArray) -> FloatArray:
    """(N,) dot products of every row with a (d,) query."""
    tables = coded.codec.score_tables(query)
    scores = np.empty(len(coded), dtype=np.float32)
    for start, codes in coded.code_chunks():
        if tables is None:
            found = coded.codec.decode(codes) @ query
        else:
            found = tables[0][codes[:, 0]]
            for position in range(1, len(tables)):
                found += tables[position][codes[:, position]]
            found *= coded.codec.row_scales(codes)
        scores[start : start + len(codes)] = found
    return scores


def _nearness(dots: FloatArray, query: FloatArray, coded: CodedTable, metric: str) -> FloatArray:
    """(N,) numbers that are larger for nearer rows; enough to choose rows by, not to report."""
    if metric == "dot":
        return dots
    if metric == "cosine":
        return np.asarray(dots / np.maximum(coded.norms * np.linalg.norm(query), _TINY), dtype=np.float32)
    return np.asarray(2 * dots - coded.norms**2, dtype=np.float32)


def _scores(coded: CodedTable, rows: IntArray, query: FloatArray, metric: str) -> FloatArray:
    """(n,) scores of the chosen rows, computed from their vectors."""
    scores = np.empty(len(rows), dtype=np.float32)
    for start in range(0, len(rows), CHUNK_ROWS):
        vectors = coded.decode(rows[start : start + CHUNK_ROWS])
        if metric == "l2":  # the difference itself: ‖v‖² − 2v·q + ‖q‖² loses the digits of a short distance
            found = np.linalg.norm(vectors - query, axis=1)
        elif metric == "dot":
            found = vectors @ query
        else:
            found = vectors @ query / np.maximum(np.linalg.norm(vectors, axis=1) * np.linalg.norm(query), _TINY)
        scores[start : start + CHUNK_ROWS] = found
    return scores
