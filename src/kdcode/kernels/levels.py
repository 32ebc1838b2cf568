"""Levels of transform codes: reading and writing rows, and the search for the best levels of a row.

The loops are those of `kdcode.codec.transform`, one row after another; what they compute is said there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.kernels.packed import kernel, part

Array = npt.NDArray[Any]

_WHOLE, _LEAST, _MASK = 1 << 32, 1 << 24, (1 << 32) - 1
_FAR = 1e30
TOO_LONG, TOO_MANY = 1, 2
"""What a reader gives where the levels of a row take more than its bytes, or a level more bits than any may have."""


@part
def _next_byte(rows: Array, row: int, place: int) -> int:
    return np.int64(rows[row, place]) if place < rows.shape[1] else np.int64(0)


@part
def _room(span: int, renewals: int, length: int, most: int) -> int:
    """How many bits a row of so many bytes still has room for, at most `most`; below 0 where it is too long."""
    left = 8 * (length - renewals) - 33
    while span:
        span >>= 1
        left += 1
    return min(left, most)


@part
def _read_bit(rows: Array, row: int, held: Array) -> int:
    """One bit; `held` has the code, the range and the place of the reader."""
    held[1] >>= 1
    bit = 0
    if held[0] >= held[1]:
        held[0] -= held[1]
        bit = 1
    if held[1] < _LEAST:
        held[1] <<= 8
        held[0] = held[0] << 8 | _next_byte(rows, row, held[2])
        held[2] += 1
    return bit


@part
def _read_excess(rows: Array, row: int, held: Array, most: int) -> int:
    """An Exp-Golomb code; -1 where it has too many bits."""
    bits, value = 0, 1
    while _read_bit(rows, row, held):
        bits += 1
        if bits > most:
            return -1
    for _ in range(bits):
        value = 2 * value + _read_bit(rows, row, held)
    return value - 1


@kernel
def read_levels(
    rows: Array,
    classes: Array,
    codec: tuple[Array, ...],
    tables: tuple[Array, ...],
    limits: Array,
    values: Array,
    sides: Array,
) -> int:
    """Code values and sides of rows; `TOO_LONG` or `TOO_MANY` where bytes stand for no code.

    Args:
        rows: (n, bytes) uint8.
        classes: (n,) of rows.
        codec: contexts (classes, d), lengths (classes,), following states.
        tables: first, starts, sizes, lookup of `LevelTables`.
        limits: precision, bits of a lookup, most bits of an excess, most sides.
        values: (n, d) takes the code values.
        sides: (n,) takes the sides.
    """
    contexts, lengths, following = codec
    first, starts, sizes, lookup = tables
    precision, shift, most = limits[0], limits[0] - limits[1], limits[2]
    last_place = (1 << precision) - 1
    held = np.empty(3, np.int64)
    for row in range(len(rows)):
        own = contexts[classes[row]]
        code = np.int64(0)
        for place in range(4):
            code = code << 8 | _next_byte(rows, row, place)
        span, at, state = np.int64(_WHOLE), 4, 0
        for i in range(contexts.shape[1]):
            table = 2 * own[i] + (state & 1)
            unit = span >> precision
            place = np.int64(np.uint32(code) // np.uint32(unit)) if unit <= _MASK else code // unit
            place = min(place, last_place)
            begin = first[table]
            found = np.int64(lookup[table, place >> shift])
            end = first[table + 1] - begin - 1
            while found < end and starts[begin + found + 1] <= place:
                found += 1
            code -= starts[begin + found] * unit
            span = sizes[begin + found] * unit
            while span < _LEAST:
                span <<= 8
                code = code << 8 | _next_byte(rows, row, at)
                at += 1
            if found == end:
                held[0], held[1], held[2] = code, span, at
                excess = _read_excess(rows, row, held, most)
                if excess < 0:
                    return TOO_MANY
                found += excess
                code, span, at = held[0], held[1], held[2]
            values[row, i] = found
            state = following[state, (found + 1) >> 1 & 1]
        room = _room(span, at - 4, lengths[classes[row]], limits[3])
        if room < 0:
            return TOO_LONG
        held[0], held[1], held[2] = code, span, at
        known = 1
        for _ in range(room):
            known = 2 * known + _read_bit(rows, row, held)
        sides[row] = known
    return 0


@kernel
def coordinates_of(values: Array, classes: Array, sides: Array, codec: tuple[Array, ...], found: Array) -> None:
    """(n, d) float32 coordinates of (n, d) code values, (n,) classes and (n,) sides.

    `codec` has contexts (classes, d), shifts (2T,), distances of sides (T,), following states, steps (classes,).
    """
    contexts, shifts, away, following, steps = codec
    for row in range(len(values)):
        own, step, state = contexts[classes[row]], steps[classes[row]], 0
        for i in range(values.shape[1]):
            value = values[row, i]
            size = (value + 1) >> 1
            quantizer = state & 1
            if size == 0:
                found[row, i] = np.float32(0)
            else:
                lies = np.float32(2 * size - quantizer) - shifts[2 * own[i] + quantizer]
                found[row, i] = (lies if value & 1 else -lies) * step
            state = following[state, size & 1]
        known, count = sides[row], -1
        while known >> (count + 1):
            count += 1
        for i in range(count):
            side = away[own[i]] * step
            found[row, i] += side if known >> (count - 1 - i) & 1 else -side


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
        classes: of rows.
        sides: (n,) 0 where none are to be written.
        codec: contexts (classes, d), lengths (classes,), following states.
        tables: first, starts, sizes, lookup of `LevelTables`.
        limits: precision, bits of a lookup, most bits of an excess, most sides.
        written: takes the bytes.
        room: takes how many sides each row has room for; below 0 where it is too long.
    """
    contexts, lengths, following = codec
    first, starts, sizes, _ = tables
    held = np.empty(3, np.int64)
    for row in range(len(values)):
        own, state = contexts[classes[row]], 0
        held[0], held[1], held[2] = 0, _WHOLE, 0
        for i in range(values.shape[1]):
            value = values[row, i]
            table = 2 * own[i] + (state & 1)
            end = first[table + 1] - first[table] - 1
            at = first[table] + min(value, end)
            unit = held[1] >> limits[0]
            _narrow(written, row, held, starts[at] * unit, sizes[at] * unit)
            if value >= end:
                _write_excess(written, row, held, value - end)
            state = following[state, (value + 1) >> 1 & 1]
        room[row] = _room(held[1], held[2], lengths[classes[row]], limits[3])
        known, count = sides[row], -1
        while known >> (count + 1):
            count += 1
        if count > 0:
            _write_bits(written, row, held, known, count)
        _finish(written, row, held)
