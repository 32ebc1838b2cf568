"""Rows of int8 in memory, each with a scale: a quarter of the bytes of float32, multiplied with queries by the core."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import _core
from kdcode.arrays import FloatArray
from kdcode.row_parts import in_parts

_LARGEST = 127
_NUMBERS_A_CALL = 1 << 28
_QUERIES_AT_ONCE = 64
_ROWS_FOR_THREADS = 1 << 14
"""Rows that are worth a thread."""


def int8_rows(vectors: FloatArray) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """(n, d) finite vectors rounded to (n, d) int8 numbers times (n,) scales."""
    scales = (np.abs(vectors).max(axis=1, initial=0) / np.float32(_LARGEST)).astype(np.float32)
    numbers = np.divide(vectors, scales[:, None], out=np.zeros_like(vectors), where=scales[:, None] > 0)
    return np.rint(numbers).clip(-_LARGEST, _LARGEST).astype(np.int8), scales


def int8_scores(
    numbers: npt.NDArray[np.int8], scales: FloatArray, queries: npt.NDArray[Any], threads: int = 1
) -> FloatArray:
    """(q, N) dot products of (q, d) finite queries with (N, d) int8 rows times (N,) scales, as precise as float32."""
    asked, rows = np.ascontiguousarray(queries, dtype=np.float64), len(numbers)
    found = np.empty((len(asked), rows), dtype=np.float32)

    def fill(first: int, stop: int, stopped: Event) -> None:
        at_once = max(1, _NUMBERS_A_CALL // (numbers.shape[1] * min(len(asked), _QUERIES_AT_ONCE)))
        for start in range(first, stop, at_once):
            for query in range(0, len(asked) if not stopped.is_set() else 0, _QUERIES_AT_ONCE):
                some = slice(query, query + _QUERIES_AT_ONCE)
                _core.score_int8(numbers, scales, asked[some], start, min(stop, start + at_once), found[some])

    in_parts(fill, range(rows), threads, _ROWS_FOR_THREADS)
    return found
