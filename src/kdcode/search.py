"""Nearest neighbours computed on the codes.

A dot product with a query is a sum of D table entries per row; the tables hold the query's dot product with every
codeword. Rows are read in chunks and never kept as vectors. The LSTM is no such sum: its rows are composed chunk by
chunk and dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kdcode.errors import OptionError
from kdcode.table import FloatArray

if TYPE_CHECKING:
    from kdcode.coded import CodedTable

METRICS = ("cosine", "dot", "l2")
_TINY = np.float32(1e-12)


class Neighbor(NamedTuple):
    """A symbol and how near it is: cosine or dot product (larger is nearer), or L2 distance (smaller is nearer)."""

    symbol: str
    score: float


def neighbors(coded: CodedTable, query: str | FloatArray, k: int = 10, *, metric: str = "cosine") -> list[Neighbor]:
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
    vector = coded.decode(own_row) if own_row is not None else np.asarray(query, dtype=np.float32)
    if vector.shape != (coded.embedding_dim,) or not np.isfinite(vector).all():
        raise OptionError(
            f"a query is a symbol or {coded.embedding_dim} finite numbers, got an array of shape {vector.shape}"
        )
    nearness = _nearness(dot_products(coded, vector), vector, coded, metric)
    if own_row is not None:
        nearness[own_row] = -np.inf
    count = min(k, len(coded) - (own_row is not None))
    if count == 0:
        return []
    rows = np.argpartition(-nearness, count - 1)[:count]
    rows = rows[np.lexsort((rows, -nearness[rows]))]
    sign = -1 if metric == "l2" else 1
    return [
        Neighbor(symbol, sign * float(nearness[row])) for symbol, row in zip(coded.symbols_at(rows), rows, strict=True)
    ]


def dot_products(coded: CodedTable, query: FloatArray) -> FloatArray:
    """(N,) dot products of every row with a (d,) query."""
    tables = coded.composition.score_tables(query, coded.codebook.values)
    scores = np.empty(len(coded), dtype=np.float32)
    for start, codes in coded.code_chunks():
        if tables is None:
            scores[start : start + len(codes)] = coded.compose(codes) @ query
        else:
            chunk = tables[0][codes[:, 0]]
            for position in range(1, len(tables)):
                chunk += tables[position][codes[:, position]]
            scores[start : start + len(codes)] = chunk
    return scores


def _nearness(dots: FloatArray, query: FloatArray, coded: CodedTable, metric: str) -> FloatArray:
    """(N,) scores that are larger for nearer rows."""
    if metric == "dot":
        return dots
    if metric == "cosine":
        return np.asarray(dots / np.maximum(coded.norms * np.linalg.norm(query), _TINY), dtype=np.float32)
    squared = coded.norms**2 - 2 * dots + query @ query
    return np.asarray(-np.sqrt(np.maximum(squared, 0)), dtype=np.float32)
