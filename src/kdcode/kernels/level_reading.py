"""Rows of transform codes to code values, or to coordinates.

The loop is that of `kdcode.codec.transform.range_coder`, over the values of a row. Each has to wait for the one before
it, so four rows are read at a time: their waits overlap.

A row is checked while it is read. Wherever its bytes lead, no index leaves an array: places in tables are kept below
their end, and a reader that is past the end of a row finds zeros.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kdcode.kernels.packed import U, kernel, part
from kdcode.kernels.vectors import view_of

Array = npt.NDArray[Any]
Number: TypeAlias = Any
"""An integer of 64 bits."""
Reader = tuple[Number, Number, Number, Number, Number]
"""Its code, its range, where its next byte stands, the state of the trellis, and what is wrong so far."""

TOO_LONG, TOO_MANY, TOO_LARGE, NO_VALUE, NO_CLASS = 1, 2, 4, 8, 16
"""What bytes may be that stand for no code: levels that take more than the row, a level of too many bits, a value that
is not below K, a number beyond all values, a class that there is not."""

PRECISION = 15
"""Frequencies of a table add up to two to the power of this."""
LOOKUP_BITS = 8
"""Leading bits of a place in a table, by which a value is looked up."""
ROWS_TOGETHER = 4
_TOTAL, _KEY = 1 << PRECISION, PRECISION - LOOKUP_BITS
_AHEAD = 4
_BYTES_AFTER = 12
"""Zeros after a row: a reader goes no further."""
_LEAST, _SMALL = 1 << 24, 1 << 16


@part
def _pair(held: Array, at: Number) -> Number:
    return np.int64(held[U(at)]) << 8 | np.int64(held[U(at + 1)])


@part
def _read_bit(
    held: Array, code: Number, span: Number, at: Number, last: Number
) -> tuple[Number, Number, Number, Number]:
    """The reader after one bit, and the bit; 2 where the number is beyond both."""
    span >>= 1
    bit = 0
    if code >= span:
        code -= span
        bit = 1 if code < span else 2
    if span < _LEAST:
        span <<= 8
        code = code << 8 | np.int64(held[U(at)])
        at = min(at + 1, last)
    return code, span, at, bit


@part
def _read_excess(
    held: Array, code: Number, span: Number, at: Number, last: Number, most: Number
) -> tuple[Number, Number, Number, Number, Number]:
    """The reader after an Exp-Golomb code, its value, and what is wrong with it."""
    bits, value, wrong, bit = 0, 1, 0, 1
    while bit:
        code, span, at, bit = _read_bit(held, code, span, at, last)
        if bit == 2:
            return code, span, at, 0, NO_VALUE
        bits += bit
        if bits > most:
            return code, span, at, 0, TOO_MANY
    for _ in range(bits):
        code, span, at, bit = _read_bit(held, code, span, at, last)
        wrong |= NO_VALUE * (bit >> 1)
        value = 2 * value + (bit & 1)
    return code, span, at, value - 1, wrong


@part
def _advanced(
    reader: Reader,
    held: Array,
    last: Number,
    context: Number,
    following: Array,
    tables: tuple[Array, ...],
    limits: Array,
    values: Array,
    points: Array,
    place: Number,
) -> Reader:
    """The reader after one value, which is written, as it is or as what it stands for."""
    code, span, at, state, wrong = reader
    first, entries, lookup, lies, shifts = tables
    table = 2 * context + (state & 1)
    unit = span >> PRECISION
    key: Number = np.int64(np.uint32(code) // np.uint32(unit))
    wrong |= NO_VALUE if key >= _TOTAL else 0
    key = min(key, _TOTAL - 1)
    begin = np.int64(first[U(table)])
    stands = begin + np.int64(lookup[U(table << LOOKUP_BITS | key >> _KEY)])
    after = np.int64(entries[U(stands + 1)] >> np.uint32(16))
    while after <= key:
        stands += 1
        after = np.int64(entries[U(stands + 1)] >> np.uint32(16))
    entry = entries[U(stands)]
    code -= np.int64(entry >> np.uint32(16)) * unit
    span = np.int64(entry & np.uint32(0xFFFF)) * unit
    bits = 8 * (np.int64(span < _LEAST) + np.int64(span < _SMALL))
    code = code << bits | _pair(held, at) >> (16 - bits)
    span <<= bits
    at = min(at + (bits >> 3), last)
    value, point = stands - begin, lies[U(stands)]
    if after == _TOTAL:
        code, span, at, excess, bad = _read_excess(held, code, span, at, last, limits[U(0)])
        value += excess
        wrong |= bad | (TOO_LARGE if value >= limits[U(2)] else 0)
        point = np.float32((value + 1 & -2) - (table & 1)) - shifts[U(table)]
        point = point if value & 1 else -point
    if points.size:
        points[U(place)] = point
    else:
        values[U(place)] = value
    return code, span, at, np.int64(following[U(2 * state + ((value + 1) >> 1 & 1))]), wrong


@part
def _read_number(reader: Reader, held: Array, last: Number, ends: Array, numbers: Array, place: Number) -> Reader:
    """The reader after the number of a centroid, which is written."""
    code, span, at, state, wrong = reader
    unit = span >> PRECISION
    key: Number = np.int64(np.uint32(code) // np.uint32(unit))
    wrong |= NO_VALUE if key >= _TOTAL else 0
    key = min(key, _TOTAL - 1)
    low, high = np.int64(0), np.int64(len(ends) - 1)
    while low < high:
        middle = (low + high) >> 1
        if np.int64(ends[U(middle)]) > key:
            high = middle
        else:
            low = middle + 1
    begin = np.int64(ends[U(low - 1)]) if low else np.int64(0)
    code -= begin * unit
    span = (np.int64(ends[U(low)]) - begin) * unit
    bits = 8 * (np.int64(span < _LEAST) + np.int64(span < _SMALL))
    code = code << bits | _pair(held, at) >> (16 - bits)
    span <<= bits
    numbers[U(place)] = low
    return code, span, min(at + (bits >> 3), last), state, wrong


@part
def _put_numbers(
    numbers: Array, start: Number, count: Number, own: Array, into: Array, found: Array, levels: Number
) -> None:
    """The centroids of up to four blocks of `levels` coordinates, from number `start` on, are written or added."""
    rows = len(numbers) // ROWS_TOGETHER
    dim = levels // max(1, rows)
    for place in range(min(ROWS_TOGETHER, count - start) * rows):
        number = numbers[U(place)]
        if not found.size:
            into[U(start * rows + place)] = number
        else:
            for i in range(dim):
                found[U(start * levels + place * dim + i)] += own[U(number * dim + i)]


@part
def _read_sides(held: Array, reader: Reader, last: Number, left: Number, most: Number) -> tuple[Number, Number, Number]:
    """How many sides a row tells that ends so many bits after the reader, these as bits, and what is wrong with it."""
    code, span, at, _, wrong = reader
    bits, known = 24, 0
    while span >> (bits + 1):
        bits += 1
    room = min(left - 32 + bits, most)
    if room < 0:
        return 0, 0, wrong | TOO_LONG
    for _ in range(room):
        code, span, at, bit = _read_bit(held, code, span, at, last)
        wrong |= NO_VALUE * (bit >> 1)
        known = 2 * known + (bit & 1)
    return room, known, wrong


@part
def _finished(
    reader: Reader,
    held: Array,
    lane: Number,
    lane_bytes: Number,
    own: Number,
    codec: tuple[Array, ...],
    limits: Array,
    sides: Array,
    found: Array,
    row: Number,
) -> Number:
    """What follows the values of a row is read, and its coordinates get their sides and their step."""
    contexts, lengths, _, steps, away = codec
    dim = contexts.shape[1]
    left = 8 * (lengths[U(own)] + lane * lane_bytes + _AHEAD - reader[2])
    room, known, wrong = _read_sides(held, reader, (lane + 1) * lane_bytes - 2, left, limits[U(1)])
    if not found.size:
        sides[U(row)] = 1 << room | known
        return wrong
    for i in range(room):
        side = away[U(contexts[U(own), U(i)])]
        found[U(row * dim + i)] += side if known >> (room - 1 - i) & 1 else -side
    for i in range(row * dim, row * dim + dim):
        found[U(i)] *= steps[U(own)]
    return wrong


@part
def _load(
    packed: Array, row: Number, several: Number, held: Array, at: Number, own: Array, codes: Array, lane: Number
) -> None:
    """The class and the bytes of a row, and the number that it begins with."""
    if several:
        own[U(lane)] = packed[U(row), U(0)]
    for place in range(packed.shape[1] - several):
        held[U(at + place)] = packed[U(row), U(several + place)]
    codes[U(lane)] = _pair(held, at) << 16 | _pair(held, at + 2)


@kernel
def read_rows(
    packed: Array,
    codec: tuple[Array, ...],
    tables: tuple[Array, ...],
    centroids: tuple[Array, Array],
    limits: Array,
    codes_of: tuple[Array, Array, Array],
    found: Array,
) -> Number:
    """Code values, centroids and sides of rows, or their coordinates.

    Args:
        packed: (n, row bytes) uint8; rows begin with their class where there are several.
        codec: contexts (classes, d), lengths (classes,), following states (states · 2,), steps (classes,), sides (T,).
        tables: see `ReadingTables`.
        centroids: (C,) uint32 where the frequencies of each end, and (C · d,) their coordinates; both may be empty.
        limits: most bits of an excess, most sides, K, rows of a block.
        codes_of: (n · d,) takes code values, (n · rows,) numbers of centroids, (n,) sides; empty for coordinates.
        found: (n · d,) float32 takes the coordinates; empty where code values are wanted.

    Returns:
        0, or what is wrong with a row.
    """
    packed, limits, found = view_of(packed), view_of(limits), view_of(found)
    values, into, sides = view_of(codes_of[0]), view_of(codes_of[1]), view_of(codes_of[2])
    codec = (view_of(codec[0]), view_of(codec[1]), view_of(codec[2]), view_of(codec[3]), view_of(codec[4]))
    tables = (view_of(tables[0]), view_of(tables[1]), view_of(tables[2]), view_of(tables[3]), view_of(tables[4]))
    ends, points = view_of(centroids[0]), view_of(centroids[1])
    contexts, lengths, following, _, _ = codec
    count, levels, several = len(packed), contexts.shape[1], np.int64(len(lengths) > 1)
    rows, dim, named = limits[3], levels // limits[3], (limits[3] if len(ends) else 0)
    size = packed.shape[1] - several + _BYTES_AFTER
    own_held, own_classes = np.zeros(ROWS_TOGETHER * size, np.uint8), np.zeros(ROWS_TOGETHER, np.int64)
    own_codes, own_numbers = np.empty(ROWS_TOGETHER, np.int64), np.zeros(ROWS_TOGETHER * named, np.int64)
    held, own, codes, numbers = view_of(own_held), view_of(own_classes), view_of(own_codes), view_of(own_numbers)
    flat, whole, zero, wrong = view_of(contexts.reshape(-1)), np.int64(1 << 32), np.int64(0), np.int64(0)
    for start in range(0, count, ROWS_TOGETHER):
        for lane in range(ROWS_TOGETHER):  # after the last row that one is read again
            _load(packed, min(start + lane, count - 1), several, held, lane * size, own, codes, lane)
            if own[U(lane)] >= len(lengths):
                return NO_CLASS
        a = (codes[U(0)], whole, zero + _AHEAD, zero, zero)
        b = (codes[U(1)], whole, size + _AHEAD, zero, zero)
        c = (codes[U(2)], whole, 2 * size + _AHEAD, zero, zero)
        d = (codes[U(3)], whole, 3 * size + _AHEAD, zero, zero)
        own_a, own_b, own_c, own_d = (own[U(0)] * levels, own[U(1)] * levels, own[U(2)] * levels, own[U(3)] * levels)
        row_b, row_c, row_d = min(start + 1, count - 1), min(start + 2, count - 1), min(start + 3, count - 1)
        row_b, row_c, row_d = row_b * levels, row_c * levels, row_d * levels
        for place in range(rows):
            if named:
                a = _read_number(a, held, size - 2, ends, numbers, place)
                b = _read_number(b, held, 2 * size - 2, ends, numbers, rows + place)
                c = _read_number(c, held, 3 * size - 2, ends, numbers, 2 * rows + place)
                d = _read_number(d, held, 4 * size - 2, ends, numbers, 3 * rows + place)
            for i in range(place * dim, place * dim + dim):
                context = np.int64(flat[U(own_a + i)])
                a = _advanced(a, held, size - 2, context, following, tables, limits, values, found, start * levels + i)
                context = np.int64(flat[U(own_b + i)])
                b = _advanced(b, held, 2 * size - 2, context, following, tables, limits, values, found, row_b + i)
                context = np.int64(flat[U(own_c + i)])
                c = _advanced(c, held, 3 * size - 2, context, following, tables, limits, values, found, row_c + i)
                context = np.int64(flat[U(own_d + i)])
                d = _advanced(d, held, 4 * size - 2, context, following, tables, limits, values, found, row_d + i)
        wrong |= _finished(a, held, 0, size, own[U(0)], codec, limits, sides, found, start)
        if start + 1 < count:
            wrong |= _finished(b, held, 1, size, own[U(1)], codec, limits, sides, found, start + 1)
        if start + 2 < count:
            wrong |= _finished(c, held, 2, size, own[U(2)], codec, limits, sides, found, start + 2)
        if start + 3 < count:
            wrong |= _finished(d, held, 3, size, own[U(3)], codec, limits, sides, found, start + 3)
        _put_numbers(numbers, start, count, points, into, found, levels)
        if wrong:
            break
    is_held = own_held.size and own_classes.size and own_codes.size and own_numbers.size >= 0
    return wrong if is_held else 0  # numba frees arrays after their last use
