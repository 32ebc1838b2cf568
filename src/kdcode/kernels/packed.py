"""Rows of packed codes: their bits, and whether they may be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from kdcode.kernels.vectors import bytes_at, floats_at

OUT_OF_RANGE, NOT_CHECKED, NO_SUCH_CODE = 1, 2, 3
"""Why a kernel stopped before it was done."""

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
"""The first seven numbers of a plan: the shape of a codec."""

PLAN = (
    *("position_bits", "level_bits", "codebook_size", "code_length", "codeword_dim", "inner_dim", "groups"),
    *("file_start", "block_bytes", "zero_row"),
    *("packed", "packed_count", "row_bytes", "good", "good_count", "scales"),
    *("multipliers", "multipliers_count", "levels", "levels_count"),
)
"""What the numbers of a plan are: all that kernels have to know of a codec and its codes.

The shape of the codec; where packed codes begin in their file, and the bytes of one of its blocks; the row whose vector
is zero, -1 where none is; then where arrays are in memory, and how many numbers they have: one array that says so is
quicker to hand over than many arrays. Whoever makes a plan holds the arrays. They are:

    packed       (N·row bytes,) uint8
    good         for each block of the file that `packed` lies in, whether it matches its digest; none where all do
    scales       (D,) float32, of each position
    multipliers  (D,) int16 that the scales of a block are to each other as, where words are int8 and their sums, times
                 these, have room in 16 bits; else none
    levels       (2^level bits,) float32, of row scales; none where rows have no scales

After these numbers stand those of each block: its positions, from and to, and its columns, from and to.
"""
FIRST_BLOCK = len(PLAN)
"""Where the blocks begin in a plan."""
FILE_START, BLOCK_BYTES, ZERO_ROW, PACKED, PACKED_COUNT, ROW_BYTES, GOOD, GOOD_COUNT, SCALES, *_REST = range(
    7, FIRST_BLOCK
)
MULTIPLIERS, MULTIPLIERS_COUNT, LEVELS, LEVELS_COUNT = _REST

BYTES_AFTER = 8
"""Bytes after the last row of a buffer, which may be read and are masked off."""

U = np.uintp


_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, and keep the result on disk where there is a folder to write to."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return njit(**_OPTIONS)(function)


def part(function: Callable[..., Any]) -> Any:
    """A part of kernels. It is compiled into them: a call would hand over the seven fields of every array."""
    return njit(forceinline=True, **_OPTIONS)(function)


def stopped(result: int) -> tuple[int, int]:
    """What a negative result of a kernel means: the place where it stopped, and why."""
    return divmod(-result - 1, 4)


@part
def shape_of(plan: Array) -> Shape:
    """The first seven numbers of a plan."""
    return (plan[0], plan[1], plan[2], plan[3], plan[4], plan[5], plan[6])


@part
def codes_of(plan: Array) -> Any:
    """The packed codes."""
    return bytes_at(plan[PACKED], plan[PACKED_COUNT] * plan[ROW_BYTES])


@part
def levels_of(plan: Array) -> Any:
    """The levels of row scales."""
    return floats_at(plan[LEVELS], plan[LEVELS_COUNT])


@part
def unpack(codes: Array, at: int, raw: Array, shape: Shape, step: int, levels: int, places: Array) -> bool:
    """Where the codewords of a row stand among all, times `step`, and after them the level of its scale.

    Args:
        codes: the bytes of all rows.
        at: where the row begins.
        raw: as many bytes as a row has, and `BYTES_AFTER` more, to work with.
        shape: see `Shape`.
        step: by how much places are apart.
        levels: how many levels there are.
        places: (D + 1,) written to.

    Returns:
        whether every position has a value below K, and the scale of the row a level.
    """
    bits, level_bits, size, length, _, _, _ = shape
    if bits == 8 and size == 256 and level_bits == 0:
        for position in range(length):
            places[U(position)] = (U(position) * U(256) + U(codes[U(at + position)])) * U(step)
        return True
    if bits == 4 and size == 16 and level_bits == 0:
        for position in range(length):
            value = codes[U(at + (position >> 1))] >> np.uint8(4 * (position & 1)) & np.uint8(15)
            places[U(position)] = (U(position) * U(16) + U(value)) * U(step)
        return True
    for byte in range(len(raw) - BYTES_AFTER):
        raw[U(byte)] = codes[U(at + byte)]
    for position in range(length):
        value = bits_at(raw, position * bits, bits)
        if value >= np.uint64(size):
            return False
        places[U(position)] = (U(position) * U(size) + value) * U(step)
    if level_bits == 0:
        return True
    level = bits_at(raw, length * bits, level_bits)
    places[U(length)] = level
    return bool(level < np.uint64(levels))


@part
def bits_at(raw: Array, place: int, bits: int) -> np.uint64:
    """The number in so many bits, 1 to 32, from bit `place` on."""
    first = U(place >> 3)
    word = np.uint64(raw[first]) | np.uint64(raw[first + U(1)]) << np.uint64(8)
    if bits > 9:
        word |= np.uint64(raw[first + U(2)]) << np.uint64(16)
    if bits > 17:
        word |= np.uint64(raw[first + U(3)]) << np.uint64(24) | np.uint64(raw[first + U(4)]) << np.uint64(32)
    return word >> np.uint64(place & 7) & (np.uint64(1) << np.uint64(bits)) - np.uint64(1)


@part
def is_checked(plan: Array, first: int, last: int) -> bool:
    """Whether the blocks of the file that bytes `first` to `last` of the codes lie in match their digests, for sure."""
    good, start, block_bytes = bytes_at(plan[GOOD], plan[GOOD_COUNT]), plan[FILE_START], plan[BLOCK_BYTES]
    for block in range((start + first) // block_bytes, (start + last) // block_bytes + 1):
        if not good[U(block)]:
            return False
    return True
