"""CodeScan: the rows of a coded table that may be nearest to queries, found on the codes by the core.

The dot product of a row with a query is a sum of D entries of a table, one for each codeword, so no vector is composed.
Sums are float32, and off by no more than a bound that is known beforehand. Rows are kept as long as they may be among
the k nearest within this bound; whoever asks decodes those few and compares them exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kdcode import _core
from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec import Codec, CodewordCodec, CodewordRows

_ROOM = 1 << 13
"""Rows of each query that are kept before it is looked which of them are not needed any more."""
_ROUNDING_OF_SQUARES = 2.0**-21
"""How far float32 may be off in −‖v‖²/2 and in its sum with a dot product, for vectors of length 1."""
_TINY, _HUGE = 1e-20, 1e15
"""Errors of dot products with which scores have room in float32."""
_FEWEST_ROWS = 1 << 12
_ADDED_AT_ONCE = 1 << 26
"""Numbers of tables that are added up in one call of the core: about 0.03 seconds."""
_ROWS_FOR_THREADS = 1 << 16
"""Rows that are worth a thread."""

Exact = Callable[[int, IntArray], DoubleArray]
"""Called with the number of a query and rows; gives their exact scores, which are larger for nearer rows."""


_NONE = np.empty(0, dtype=np.float32)


class Scores(NamedTuple):
    """How near rows are: (dot product) · factor + offset, larger is nearer.

    Args:
        in_core: what the core compares rows by: tables of what each codeword adds, slack, factors and offsets.
        slack: (q,) how far the dot product that a table adds up to may be from the exact one.
        factors: (N,), or empty for ones.
    """

    in_core: _core.Scores
    slack: FloatArray
    factors: FloatArray


class HasCodec(Protocol):
    """What scores are made from."""

    codec: Codec

    @property
    def norms(self) -> DoubleArray:
        """(N,) lengths of the vectors."""
        ...


class RowScores:
    """Makes `Scores` of queries; keeps what they need of the lengths of all rows.

    Args:
        table: the table, which is asked for its lengths when they are first needed.
    """

    def __init__(self, table: HasCodec) -> None:
        self._table = table

    def of(self, queries: DoubleArray, metric: str) -> Scores | None:
        """How near rows are to (q, d) queries; None where float32 has no room for it."""
        codec = self._table.codec
        if not isinstance(codec, CodewordCodec) or codec.may_overflow:
            return None
        tables = codec.score_tables(queries.T)
        if tables is None:
            return None
        slack = codec.rounding_of_dots(np.abs(queries))
        if metric == "l2":
            slack += _ROUNDING_OF_SQUARES * float(self._table.norms.max()) ** 2
        if not ((slack > _TINY) & (slack < _HUGE)).all():
            return None
        flat = np.ascontiguousarray(tables.reshape(-1, len(queries)).T, dtype=np.float32)
        factors = self.inverse_norms if metric == "cosine" else _NONE
        offsets, own = self.half_squares if metric == "l2" else _NONE, slack.astype(np.float32)
        return Scores(_core.Scores(flat, own, factors, offsets), own, factors)

    @cached_property
    def inverse_norms(self) -> FloatArray:
        """(N,) what makes a dot product a cosine, times the length of the query; 0 for a vector without direction."""
        norms = self._table.norms
        return np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0).astype(np.float32)

    @cached_property
    def half_squares(self) -> FloatArray:
        """(N,) −‖v‖²/2: added to a dot product, it makes it larger for nearer rows."""
        return np.asarray(self._table.norms**2 / -2, dtype=np.float32)


class _Kept(NamedTuple):
    """Rows that are kept for each query: (q, room) rows and scores, of which the first `counts` count."""

    rows: npt.NDArray[np.int64]
    scores: FloatArray
    counts: npt.NDArray[np.int64]


class CodeScan:
    """Looks for the k nearest rows of queries.

    Args:
        rows: the codes and what reads them.
        scores: what rows are compared by.
        exact: the exact scores of rows, which decide where a great many are equally near.
        k: how many rows of each query are wanted.
    """

    def __init__(self, rows: CodewordRows, scores: Scores, exact: Exact, k: int) -> None:
        self._rows, self._scores, self._exact, self._k = rows, scores, exact, k
        self._is_stopped = False

    def candidates(self, start: int, end: int, threads: int = 1) -> list[IntArray]:
        """For each query some of the rows from `start` to before `end`, in order, with its k nearest among them."""
        parts = max(1, min(threads, (end - start) // _ROWS_FOR_THREADS))
        edges = np.linspace(start, end, parts + 1).astype(int).tolist()
        if parts == 1:
            return self._scanned(start, end)
        with ThreadPoolExecutor(parts - 1) as pool:
            try:
                others = pool.map(self._scanned, edges[1:-1], edges[2:])
                found = [self._scanned(*edges[:2]), *others]  # the first part by this thread
            except BaseException:  # Ctrl-C too
                self._is_stopped = True
                raise
        return [np.concatenate(rows) for rows in zip(*found, strict=True)]

    def _scanned(self, start: int, end: int) -> list[IntArray]:
        """For each query its candidates among the rows from `start` to before `end`."""
        count, k = len(self._scores.slack), min(self._k, end - start)
        kept = _Kept(
            np.empty((count, k + _ROOM), np.int64), np.empty((count, k + _ROOM), np.float32), np.zeros(count, np.int64)
        )
        floors = np.full(count, -np.inf, dtype=np.float32)
        step = max(_FEWEST_ROWS, _ADDED_AT_ONCE // (count * self._rows.code_length))
        reached = start
        while reached < end and not self._is_stopped:
            reached = self._rows.scan(reached, min(end, reached + step), self._scores.in_core, floors, kept)
            for query in range(count):
                floors[query] = self._pruned(query, kept, floors[query])
        return [rows[:length].copy() for rows, length in zip(kept.rows, kept.counts, strict=True)]

    def _pruned(self, query: int, kept: _Kept, floor: np.float32) -> np.float32:
        """Forget the rows of a query that cannot be among its k nearest; what a later row must exceed."""
        length = kept.counts[query]
        if length <= self._k:
            return floor
        rows, scores = kept.rows[query, :length], kept.scores[query, :length]
        slack = self._scores.slack[query] * (self._scores.factors[rows] if len(self._scores.factors) else 1)
        lowest = np.partition(scores - slack, length - self._k)[length - self._k]
        chosen = np.flatnonzero(scores + slack >= lowest)
        if len(chosen) > self._k + _ROOM // 2:  # equally near, but for the slack
            order = np.argsort(-self._exact(query, rows[chosen]), kind="stable")
            chosen = np.sort(chosen[order[: self._k]])
        kept.rows[query, : len(chosen)], kept.scores[query, : len(chosen)] = rows[chosen], scores[chosen]
        kept.counts[query] = len(chosen)
        return np.float32(lowest)
