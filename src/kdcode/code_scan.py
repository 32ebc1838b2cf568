"""CodeScan: the rows of a coded table that may be nearest to queries, found on the codes by the core.

No vector is composed. With codewords, the dot product of a row with a query is a sum of D entries of a table; with
transform codes, it is that of the levels of the row with the rotated query. Both are off by no more than a bound that
is known. Rows are kept as long as they may be among the k nearest within this bound; whoever asks decodes those few and
compares them exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Event
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kdcode import _core
from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec import Codec, CodewordCodec, CodewordRows, RowDecoder, TransformRowDecoder
from kdcode.row_parts import in_parts

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


class Kept(NamedTuple):
    """Rows that are kept for each query, of which the first `counts` count.

    Args:
        rows: (q, room).
        lows: (q, room) what their scores are not below,
        highs: and not above.
        counts: (q,).
    """

    rows: npt.NDArray[np.int64]
    lows: FloatArray
    highs: FloatArray
    counts: npt.NDArray[np.int64]


class Scanner(Protocol):
    """Compares rows with queries: their score is (dot product) · factor + offset, larger is nearer."""

    @property
    def queries(self) -> int:
        """How many."""
        ...

    @property
    def rows_a_call(self) -> int:
        """Rows that one call should look at: some 10 ms."""
        ...

    def scan(self, first: int, stop: int, floors: FloatArray, kept: Kept) -> int:
        """Keep those of the rows from `first` to before `stop` whose score may exceed the (q,) floors.

        Returns:
            the row that is next: one before `stop` where there may be no room for more.
        """
        ...


class CodewordScanner:
    """Adds up entries of tables.

    Args:
        rows: the codes and what reads them.
        in_core: what they are compared by.
        slack: (q,) how far the dot product that a table adds up to may be from the exact one.
    """

    def __init__(self, rows: CodewordRows, in_core: _core.Scores, slack: FloatArray) -> None:
        self._rows, self._scores, self.slack, self.queries = rows, in_core, slack, len(slack)

    @property
    def rows_a_call(self) -> int:
        """Rows whose tables are added up in one call."""
        return max(_FEWEST_ROWS, _ADDED_AT_ONCE // (self.queries * self._rows.code_length))

    def scan(self, first: int, stop: int, floors: FloatArray, kept: Kept) -> int:
        """See `CodewordRows.scan`."""
        return self._rows.scan(first, stop, self._scores, floors, kept)


class HasCodec(Protocol):
    """What scores are made from."""

    codec: Codec

    @property
    def norms(self) -> DoubleArray:
        """(N,) lengths of the vectors."""
        ...


class RowScores:
    """Makes scanners of queries; keeps what they need of the lengths of all rows.

    Args:
        table: the table, which is asked for its lengths when they are first needed.
        rows: what decodes its rows.
    """

    def __init__(self, table: HasCodec, rows: RowDecoder) -> None:
        self._table, self._rows = table, rows

    def scanner(self, queries: DoubleArray, metric: str) -> Scanner | None:
        """What compares rows with (q, d) queries; None where float32 has no room for it, or rows are LSTM codes."""
        codec = self._table.codec
        if codec.may_overflow:
            return None
        extra = _ROUNDING_OF_SQUARES * float(self._table.norms.max()) ** 2 if metric == "l2" else 0.0
        if isinstance(self._rows, TransformRowDecoder):
            with_levels = self._rows.scanner(queries)
            if not _has_room(with_levels.slack[:, 0] + extra):
                return None
            with_levels.compare_by(*self._factors_and_offsets(metric), extra)
            return with_levels
        tables = codec.score_tables(queries.T) if isinstance(codec, CodewordCodec) else None
        if tables is None or not isinstance(codec, CodewordCodec) or not isinstance(self._rows, CodewordRows):
            return None
        slack = codec.rounding_of_dots(np.abs(queries)) + extra
        if not _has_room(slack):
            return None
        flat = np.ascontiguousarray(tables.reshape(-1, len(queries)).T, dtype=np.float32)
        own = slack.astype(np.float32)
        return CodewordScanner(self._rows, _core.Scores(flat, own, *self._factors_and_offsets(metric)), own)

    def _factors_and_offsets(self, metric: str) -> tuple[FloatArray, FloatArray]:
        return self.inverse_norms if metric == "cosine" else _NONE, self.half_squares if metric == "l2" else _NONE

    @cached_property
    def inverse_norms(self) -> FloatArray:
        """(N,) what makes a dot product a cosine, times the length of the query; 0 for a vector without direction."""
        norms = self._table.norms
        return np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0).astype(np.float32)

    @cached_property
    def half_squares(self) -> FloatArray:
        """(N,) −‖v‖²/2: added to a dot product, it makes it larger for nearer rows."""
        return np.asarray(self._table.norms**2 / -2, dtype=np.float32)


class CodeScan:
    """Looks for the k nearest rows of queries.

    Args:
        scanner: what compares rows with the queries.
        exact: the exact scores of rows, which decide where a great many are equally near.
        k: how many rows of each query are wanted.
    """

    def __init__(self, scanner: Scanner, exact: Exact, k: int) -> None:
        self._scanner, self._exact, self._k = scanner, exact, k

    def candidates(self, start: int, end: int, threads: int = 1) -> list[IntArray]:
        """For each query some of the rows from `start` to before `end`, in order, with its k nearest among them."""
        found = in_parts(self._scanned, range(start, end), threads, _ROWS_FOR_THREADS)
        return [np.concatenate(rows) for rows in zip(*found, strict=True)]

    def _scanned(self, start: int, end: int, stopped: Event) -> list[IntArray]:
        """For each query its candidates among the rows from `start` to before `end`."""
        count, room = self._scanner.queries, min(self._k, end - start) + _ROOM
        lows, highs = np.empty((2, count, room), np.float32)
        kept = Kept(np.empty((count, room), np.int64), lows, highs, np.zeros(count, np.int64))
        floors = np.full(count, -np.inf, dtype=np.float32)
        reached, step = start, self._scanner.rows_a_call
        while reached < end and not stopped.is_set():
            reached = self._scanner.scan(reached, min(end, reached + step), floors, kept)
            for query in range(count):
                floors[query] = self._pruned(query, kept, floors[query])
        return [rows[:length].copy() for rows, length in zip(kept.rows, kept.counts, strict=True)]

    def _pruned(self, query: int, kept: Kept, floor: np.float32) -> np.float32:
        """Forget the rows of a query that cannot be among its k nearest; what a later row must exceed."""
        length = kept.counts[query]
        if length <= self._k:
            return floor
        rows, lows, highs = kept.rows[query, :length], kept.lows[query, :length], kept.highs[query, :length]
        lowest = np.partition(lows, length - self._k)[length - self._k]
        chosen = np.flatnonzero(highs >= lowest)
        if len(chosen) > self._k + _ROOM // 2:  # equally near, but for the slack
            order = np.argsort(-self._exact(query, rows[chosen]), kind="stable")
            chosen = np.sort(chosen[order[: self._k]])
        for each in kept[:3]:
            each[query, : len(chosen)] = each[query, chosen]
        kept.counts[query] = len(chosen)
        return np.float32(lowest)


def _has_room(slack: npt.NDArray[np.floating]) -> bool:
    """Whether float32 has room for scores with this much slack."""
    return bool(((slack > _TINY) & (slack < _HUGE)).all())
