"""Rows of packed codes to vectors."""

from __future__ import annotations

import numpy as np

from kdcode.kernels.packed import (
    BYTES_AFTER,
    FIRST_BLOCK,
    GOOD_COUNT,
    MULTIPLIERS,
    MULTIPLIERS_COUNT,
    NO_SUCH_CODE,
    NOT_CHECKED,
    OUT_OF_RANGE,
    PACKED_COUNT,
    ROW_BYTES,
    SCALES,
    ZERO_ROW,
    Array,
    Shape,
    U,
    codes_of,
    is_checked,
    kernel,
    levels_of,
    part,
    shape_of,
    unpack,
)
from kdcode.kernels.vectors import (
    floats_at,
    longs_at,
    number,
    prefetch,
    shorts_at,
    view_of,
    write_eight,
    write_integers_of_16,
    write_integers_of_32,
    write_sum_of_4,
    write_sum_of_8,
    write_sum_of_16,
)

_ROWS_AHEAD = 16
"""How many rows ahead of their use codes are fetched from memory."""


@part
def _write_narrow(
    words: Array, scales: Array, starts: Array, first: int, last: int, out: Array, at: int, width: int
) -> None:
    """Write the sum of the codewords of a few positions or columns, one number after another."""
    for column in range(width):
        total = np.float32(0)
        for position in range(first, last):
            total += scales[U(position)] * number(words[starts[U(position)] + U(column)])
        out[U(at + column)] = total


@part
def _write_block(
    words: Array, scales: Array, starts: Array, first: int, last: int, out: Array, at: int, width: int
) -> None:
    """Write the sum of the codewords of the positions from `first` to before `last`: `width` numbers.

    Sixteen columns are added up at a time. The last ones overlap those before, which gives the same numbers again.
    """
    if width < 4:
        _write_narrow(words, scales, starts, first, last, out, at, width)
        return
    column = 0
    while width - column >= 16:
        write_sum_of_16(words, scales, starts, U(first), U(last), U(column), out, U(at + column))
        column += 16
    if width - column > 8 and width >= 16:
        column = width - 16
        write_sum_of_16(words, scales, starts, U(first), U(last), U(column), out, U(at + column))
        return
    if width - column > 4 and width >= 8:
        column = min(column, width - 8)
        write_sum_of_8(words, scales, starts, U(first), U(last), U(column), out, U(at + column))
        column += 8
    while column < width:
        column = min(column, width - 4)
        write_sum_of_4(words, scales, starts, U(first), U(last), U(column), out, U(at + column))
        column += 4


@part
def _write_integers(
    words: Array, multipliers: Array, starts: Array, block: tuple[int, int, int], unit: float, out: Array, at: int
) -> None:
    """The same for int8 codewords whose scales are multiples of one unit; `block` is first, last and width."""
    first, last, width = block
    column = 0
    while width - column >= 32:
        write_integers_of_32(words, multipliers, starts, U(first), U(last), U(column), unit, out, U(at + column))
        column += 32
    while column < width:
        column = min(column, width - 16)
        write_integers_of_16(words, multipliers, starts, U(first), U(last), U(column), unit, out, U(at + column))
        column += 16


@part
def _are_multiples(plan: Array) -> bool:
    """Whether the scales of each block are what the multipliers say."""
    scales, multipliers = floats_at(plan[SCALES], plan[3]), shorts_at(plan[MULTIPLIERS], plan[MULTIPLIERS_COUNT])
    if multipliers.size == 0:
        return False
    for place in range(FIRST_BLOCK, len(plan), 4):
        first, last = plan[U(place)], plan[U(place + 1)]
        unit = scales[U(first)] / multipliers[U(first)]
        for position in range(first, last):
            scale = scales[U(position)]
            if abs(multipliers[U(position)] * unit - scale) > 1e-6 * scale:
                return False
    return True


@part
def _write_side_by_side(words: Array, scales: Array, starts: Array, shape: Shape, out: Array, at: int) -> None:
    """Write the codewords of a code whose positions have a block each, of up to eight columns.

    Eight are written at a time, where there is room; what is too much is written over by the position after it.
    """
    _, _, _, length, dim, width, _ = shape
    wide, end = width - length * (dim - 1), at + width  # so many blocks have `dim` columns, and the others one less
    for position in range(length):
        columns = dim if position < wide else dim - 1
        if position < length - 1 and at + 8 <= end:
            write_eight(words, starts[U(position)], scales[U(position)], out, U(at))
        else:
            _write_narrow(words, scales, starts, position, position + 1, out, at, columns)
        at += columns


@part
def _write_row(words: Array, starts: Array, plan: Array, as_integers: bool, out: Array, at: int) -> None:
    """Write the sums of all blocks."""
    shape = shape_of(plan)
    _, _, _, length, dim, _, groups = shape
    scales, multipliers = floats_at(plan[SCALES], length), shorts_at(plan[MULTIPLIERS], plan[MULTIPLIERS_COUNT])
    if groups == length and dim <= 8:
        _write_side_by_side(words, scales, starts, shape, out, at)
        return
    for place in range(FIRST_BLOCK, FIRST_BLOCK + 4 * groups, 4):
        first, last = plan[U(place)], plan[U(place + 1)]
        start, end = plan[U(place + 2)], plan[U(place + 3)]
        if as_integers and end - start >= 16:
            unit = np.float32(scales[U(first)] / multipliers[U(first)])
            _write_integers(words, multipliers, starts, (first, last, end - start), unit, out, at + start)
        else:
            _write_block(words, scales, starts, first, last, out, at + start, end - start)


@part
def _decoded(words: Array, plan: Array, rows: Array, done: int, out: Array) -> int:
    """What `decode_rows` does."""
    words, plan, flat = view_of(words), view_of(plan), view_of(out.reshape(-1))
    codes, levels, shape = codes_of(plan), levels_of(plan), shape_of(plan)
    level_bits, length, codeword_dim, dim = plan[1], plan[3], plan[4], plan[5]
    width, zero_row, as_integers = plan[ROW_BYTES], plan[ZERO_ROW], _are_multiples(plan)
    own_raw, own_starts = np.empty(width + BYTES_AFTER, np.uint8), np.empty(length + 1, np.uintp)
    raw, starts = view_of(own_raw), view_of(own_starts)
    for place in range(done, min(len(rows), done + _ROWS_AHEAD)):
        prefetch(codes, rows[U(place)] * width)
    for place in range(done, len(rows)):
        if place + _ROWS_AHEAD < len(rows):
            prefetch(codes, rows[U(place + _ROWS_AHEAD)] * width)
        row = rows[U(place)]
        if row < 0 or row >= plan[PACKED_COUNT]:
            return -(4 * place + 1 + OUT_OF_RANGE)
        if plan[GOOD_COUNT] and not is_checked(plan, row * width, row * width + width - 1):
            return -(4 * place + 1 + NOT_CHECKED)
        if not unpack(codes, row * width, raw, shape, codeword_dim, levels.size, starts):
            return -(4 * place + 1 + NO_SUCH_CODE)
        if row == zero_row:
            for column in range(dim):
                flat[U(place * dim + column)] = np.float32(0)
            continue
        _write_row(words, starts, plan, as_integers, flat, place * dim)
        if level_bits:
            for column in range(dim):
                flat[U(place * dim + column)] *= levels[starts[U(length)]]
    return len(rows) if own_raw.size and own_starts.size else 0  # numba frees arrays after they are last mentioned


@kernel
def decode_rows(words: Array, plan: Array, rows: Array, done: int, out: Array) -> int:
    """Sums of the codewords of rows, times their scales.

    Args:
        words: (D·K·e,) stored codewords, float16 as uint16.
        plan: see `packed.PLAN`.
        rows: (n,) int64.
        done: how many of them are decoded already.
        out: (n, inner_dim) float32, written to.

    Returns:
        n, or a negative number where it stopped before: see `stopped`.
    """
    return int(_decoded(words, plan, view_of(rows), done, out))


@kernel
def decode_rows_at(words: Array, plan: Array, rows: int, count: int, out: Array) -> int:
    """The same for `count` rows at an address, which a tensor of torch tells quicker than it makes an array."""
    return int(_decoded(words, plan, longs_at(rows, count), 0, out))


@kernel
def multiply_rows(sums: Array, basis: Array, scales: Array, out: Array) -> None:
    """A few (n, inner_dim) rows times the stored (inner_dim, d) basis, whose rows have scales; (n, d) float32 out."""
    for place in range(sums.shape[0]):
        for column in range(basis.shape[1]):
            out[U(place), U(column)] = np.float32(0)
        for coordinate in range(sums.shape[1]):
            factor = sums[U(place), U(coordinate)] * scales[U(coordinate)]
            for column in range(basis.shape[1]):
                out[U(place), U(column)] += factor * number(basis[U(coordinate), U(column)])
