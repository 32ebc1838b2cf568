"""All rows of packed codes to their scores for queries, of which those that may be among the best are kept."""

from __future__ import annotations

import numpy as np

from kdcode.kernels.packed import (
    BYTES_AFTER,
    GOOD_COUNT,
    LEVELS_COUNT,
    NO_SUCH_CODE,
    NOT_CHECKED,
    ROW_BYTES,
    Array,
    U,
    codes_of,
    is_checked,
    kernel,
    levels_of,
    part,
    shape_of,
    unpack,
)
from kdcode.kernels.vectors import view_of

_SCAN_ROWS = 512
"""Rows that a scan looks at before it asks whether there is room for what it may find."""


@part
def _add_bytes(plan: Array, first: int, end: int, table: Array, sums: Array) -> None:
    """Σ table[position, byte] for rows whose codes are bytes."""
    codes, length = codes_of(plan), plan[3]
    for row in range(first, end):
        byte, place, left = U(row * length), U(0), length
        a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        while left >= 4:
            a += table[place + U(codes[byte])]
            b += table[place + U(256) + U(codes[byte + U(1)])]
            c += table[place + U(512) + U(codes[byte + U(2)])]
            d += table[place + U(768) + U(codes[byte + U(3)])]
            byte, place, left = byte + U(4), place + U(1024), left - 4
        while left > 0:
            a += table[place + U(codes[byte])]
            byte, place, left = byte + U(1), place + U(256), left - 1
        sums[U(row - first)] = (a + b) + (c + d)


@part
def _unpack_rows(plan: Array, first: int, end: int, places: Array) -> int:
    """Where the entries of each row of a table stand, and the level of its scale; the first row that has no code."""
    width, levels, shape = plan[ROW_BYTES], plan[LEVELS_COUNT], shape_of(plan)
    own_raw = np.empty(width + BYTES_AFTER, np.uint8)
    codes, raw = codes_of(plan), view_of(own_raw)
    for row in range(first, end):
        if not unpack(codes, row * width, raw, shape, 1, levels, places[U(row - first)]):
            return row
    return end if own_raw.size else first  # numba frees arrays after they are last mentioned


@part
def _add_entries(places: Array, count: int, length: int, table: Array, levels: Array, sums: Array) -> None:
    """Σ table[place] over the positions of rows, times the scale of the row."""
    for row in range(count):
        a, b = np.float32(0), np.float32(0)
        for position in range(0, length - 1, 2):
            a += table[U(places[U(row), U(position)])]
            b += table[U(places[U(row), U(position + 1)])]
        if length & 1:
            a += table[U(places[U(row), U(length - 1)])]
        sums[U(row)] = a + b
        if levels.size:
            sums[U(row)] *= levels[U(places[U(row), U(length)])]


@part
def _keep(
    sums: Array,
    start: int,
    end: int,
    limits: tuple[float, float],
    factors: Array,
    offsets: Array,
    kept: tuple[Array, Array],
    count: int,
) -> int:
    """Write down the rows from `start` to before `end` whose score may exceed the floor; how many there are then."""
    floor, slack = limits
    found, scores = kept
    for row in range(start, end):
        factor = factors[U(row)] if factors.size else np.float32(1)
        offset = offsets[U(row)] if offsets.size else np.float32(0)
        score = sums[U(row - start)] * factor + offset
        if score + slack * factor > floor:
            found[count], scores[count] = row, score
            count += 1
    return count


@kernel
def scan_rows(
    plan: Array,
    tables: Array,
    slack: Array,
    factors: Array,
    offsets: Array,
    floors: Array,
    first: int,
    stop: int,
    found: Array,
    scores: Array,
    counts: Array,
) -> int:
    """Look at the rows from `first` to before `stop`, and keep those whose score may exceed a floor.

    The score of a row is (Σ table entries · scale) · factor + offset; larger is nearer.

    Args:
        plan: see `packed.PLAN`.
        tables: (q, D·K) float32: what each codeword adds to the dot product with each query.
        slack: (q,) float32: how far a sum may be from the exact dot product.
        factors: (N,) float32, or empty for ones.
        offsets: (N,) float32, or empty for zeros.
        floors: (q,) float32: what scores are compared with.
        first: the first row.
        stop: the row after the last.
        found: (q, room) int64, the rows that are kept, written from `counts` on.
        scores: (q, room) float32, their scores.
        counts: (q,) int64, how many are kept; written to.

    Returns:
        `stop`; or a row before, where there may be no room for more; or a negative number, see `stopped`.
    """
    plan, tables, factors, offsets = view_of(plan), view_of(tables), view_of(factors), view_of(offsets)
    width, length, levels = plan[ROW_BYTES], plan[3], levels_of(plan)
    are_bytes = plan[0] == 8 and plan[2] == 256 and plan[1] == 0
    own_places = np.empty((0 if are_bytes else _SCAN_ROWS, length + 1), np.uint32)
    own_sums = np.empty(_SCAN_ROWS, np.float32)
    places, sums = view_of(own_places), view_of(own_sums)
    start = first
    while start < stop and np.max(counts) + _SCAN_ROWS <= found.shape[1]:
        end = min(stop, start + _SCAN_ROWS)
        if plan[GOOD_COUNT] and not is_checked(plan, start * width, end * width - 1):
            return -(4 * start + 1 + NOT_CHECKED)
        if not are_bytes:
            reached = _unpack_rows(plan, start, end, places)
            if reached < end:
                return -(4 * int(reached) + 1 + NO_SUCH_CODE)
        for query in range(len(tables)):
            if are_bytes:
                _add_bytes(plan, start, end, tables[query], sums)
            else:
                _add_entries(places, end - start, length, tables[query], levels, sums)
            limits = (floors[query], slack[query])
            kept = (view_of(found)[query], view_of(scores)[query])
            counts[query] = _keep(sums, start, end, limits, factors, offsets, kept, counts[query])
        start = end
    return int(start) if own_places.ndim and own_sums.size else 0  # see above
