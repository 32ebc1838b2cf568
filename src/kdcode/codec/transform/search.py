"""Rows of transform codes compared with queries by the core, which rotates the queries and never the rows."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import _core
from kdcode.arrays import DoubleArray, FloatArray
from kdcode.codec.transform.rows import BlockRows
from kdcode.row_parts import in_parts

_ROUGH, _PRECISE = 1, 3
"""Planes of int8 numbers that queries are rounded to: to tell which rows may be near, or as precise as float32."""
_NUMBERS_A_CALL = 1 << 24
"""Levels that one call of the core reads: some 20 ms."""
_QUERIES_AT_ONCE = 64
_ONES = _ZEROS = np.empty(0, dtype=np.float32)
_ROWS_FOR_THREADS = 1 << 14
"""Rows that are worth a thread."""


class LevelScanner:
    """Compares rows with queries; see `kdcode.code_scan.Scanner`.

    Args:
        core: the codec.
        rows: of a table.
        queries: (q, d) finite numbers.
    """

    def __init__(self, core: _core.Transform, rows: BlockRows, queries: DoubleArray) -> None:
        self._rows, self._factors, self._offsets, self._extra = rows, _ONES, _ZEROS, 0.0
        self._queries = _core.LevelQueries(core, np.ascontiguousarray(queries), _ROUGH)
        self.queries, self.rows_a_call = len(queries), max(1, _NUMBERS_A_CALL // queries.shape[1])

    def compare_by(self, factors: FloatArray, offsets: FloatArray, extra: float) -> None:
        """Compare rows by (dot product) · factor + offset.

        Args:
            factors: (N,), or empty for ones.
            offsets: (N,), or empty for zeros.
            extra: how far scores may be off for other reasons than their dot products.
        """
        self._factors, self._offsets, self._extra = factors, offsets, extra

    @property
    def slack(self) -> DoubleArray:
        """(q, 2) how far dot products may be off: at least, and for each unit of the magnitudes of a row."""
        return np.array(self._queries.slack())

    def scan(self, first: int, stop: int, floors: FloatArray, kept: tuple[npt.NDArray[Any], ...]) -> int:
        """Look at the rows from `first` to before `stop`; gives the row that is next, and keeps those above a floor.

        Raises:
            StorageError: bytes that stand for no code, or a damaged file.
        """
        self._rows.notice_changes()
        while True:
            first, begin, length = self._queries.scan(
                self._rows.core, self._factors, self._offsets, self._extra, floors, first, stop, *kept
            )
            if not length:
                return first
            self._rows.check_bytes(begin, length)


def scores(core: _core.Transform, rows: BlockRows, queries: npt.NDArray[Any], threads: int = 1) -> FloatArray:
    """(q, N) dot products of (q, d) queries with all rows, as precise as float32; NaN of a query that is not finite.

    Raises:
        StorageError: bytes that stand for no code, or a damaged file.
    """
    asked = np.ascontiguousarray(queries, dtype=np.float64)
    found = np.empty((len(asked), len(rows)), dtype=np.float32)
    at_once = max(1, _NUMBERS_A_CALL // asked.shape[1])

    def fill(first: int, stop: int, stopped: Event) -> None:
        while first < stop and not stopped.is_set():
            first, begin, length = prepared.score(rows.core, first, min(stop, first + at_once), found[some])
            if length:
                rows.check_bytes(begin, length)

    rows.notice_changes()
    for start in range(0, len(asked), _QUERIES_AT_ONCE):
        some = slice(start, start + _QUERIES_AT_ONCE)
        prepared = _core.LevelQueries(core, asked[some], _PRECISE)
        in_parts(fill, range(len(rows)), threads, _ROWS_FOR_THREADS)
    return found
