"""Code values of transform codes to rows: the loop of `kdcode.codec.transform.range_coder`, one row after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.kernels.packed import kernel, part

Array = npt.NDArray[Any]

_WHOLE, _LEAST, _MASK = 1 << 32, 1 << 24, (1 << 32) - 1


@part
def _room(span: int, renewals: int, length: int, most: int) -> int:
    """How many bits a row of so many bytes still has room for, at most `most`; below 0 where it is too long."""
    left = 8 * (length - renewals) - 33
    while span:
        span >>= 1
        left += 1
    return min(left, most)


@part
def _carry(written: Array, row: int, place: int) -> None:
    while place > 0:
        place -= 1
        if written[row, place] < 255:
            written[row, place] += 1
            return
        written[row, place] = 0


@part
def _put(written: Array, row: int, held: Array) -> None:
    """A byte leaves; `held` has low, range and how many bytes have left."""
    if held[2] < written.shape[1]:
        written[row, held[2]] = held[0] >> 24
    held[2] += 1
    held[0] = held[0] << 8 & _MASK


@part
def _narrow(written: Array, row: int, held: Array, low: int, span: int) -> None:
    held[0] += low
    held[1] = span
    if held[0] >= _WHOLE:
        held[0] -= _WHOLE
        _carry(written, row, min(held[2], written.shape[1]))
    while held[1] < _LEAST:
        held[1] <<= 8
        _put(written, row, held)


@part
def _write_bits(written: Array, row: int, held: Array, value: int, bits: int) -> None:
    """The lowest bits of a value, highest first."""
    for bit in range(bits - 1, -1, -1):
        half = held[1] >> 1
        _narrow(written, row, held, half * (value >> bit & 1), half)


@part
def _write_excess(written: Array, row: int, held: Array, excess: int) -> None:
    value, bits = excess + 1, 0
    while value >> (bits + 1):
        bits += 1
    _write_bits(written, row, held, (1 << (bits + 1)) - 2, bits + 1)
    _write_bits(written, row, held, value, bits)


@part
def _finish(written: Array, row: int, held: Array) -> None:
    """The number in the interval that ends in the most zeros leaves."""
    best = held[0]
    for zeros in range(32, -1, -1):
        rounded = (held[0] + (1 << zeros) - 1) >> zeros << zeros
        if rounded < held[0] + held[1]:
            best = rounded
            break
    held[0] = best
    if held[0] >= _WHOLE:
        held[0] -= _WHOLE
        _carry(written, row, min(held[2], written.shape[1]))
    for _ in range(4):
        _put(written, row, held)


@kernel
def write_levels(
    values: Array,
    numbers: Array,
    classes: Array,
    sides: Array,
    codec: tuple[Array, ...],
    tables: tuple[Array, ...],
    limits: Array,
    written: Array,
    room: Array,
) -> None:
    """Rows of (n, d) code values into (n, bytes) zeros, and (n,) for how many sides they have room.

    Args:
        values: of rows.
        numbers: (n, rows of a block) of centroids, or (n, 0).
        classes: of rows.
        sides: (n,) 0 where none are to be written.
        codec: contexts (classes, d), lengths (classes,), following states.
        tables: first, starts, sizes of `LevelTables`, and starts and sizes of centroids.
        limits: precision, most sides.
        written: takes the bytes.
        room: takes how many sides each row has room for; below 0 where it is too long.
    """
    contexts, lengths, following = codec
    first, starts, sizes, number_starts, number_sizes = tables
    dim = values.shape[1] // max(1, numbers.shape[1])
    held = np.empty(3, np.int64)
    for row in range(len(values)):
        own, state = contexts[classes[row]], 0
        held[0], held[1], held[2] = 0, _WHOLE, 0
        for i in range(values.shape[1]):
            if numbers.shape[1] and i % dim == 0:
                number, unit = numbers[row, i // dim], held[1] >> limits[0]
                _narrow(written, row, held, number_starts[number] * unit, number_sizes[number] * unit)
            value = values[row, i]
            table = 2 * own[i] + (state & 1)
            end = first[table + 1] - first[table] - 1
            at = first[table] + min(value, end)
            unit = held[1] >> limits[0]
            _narrow(written, row, held, starts[at] * unit, sizes[at] * unit)
            if value >= end:
                _write_excess(written, row, held, value - end)
            state = following[state, (value + 1) >> 1 & 1]
        room[row] = _room(held[1], held[2], lengths[classes[row]], limits[1])
        known, count = sides[row], -1
        while known >> (count + 1):
            count += 1
        if count > 0:
            _write_bits(written, row, held, known, count)
        _finish(written, row, held)
