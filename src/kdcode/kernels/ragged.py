"""Rows of different lengths, found by their classes and copied to where all are equally long."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.kernels.packed import NOT_CHECKED, U, kernel, part
from kdcode.kernels.vectors import view_of

Array = npt.NDArray[Any]

DOES_NOT_FIT = 1
"""Why a copy stopped before it was done, beside `NOT_CHECKED`: a row that is not there, or whose bytes are not."""


@part
def _are_good(good: Array, place: Array, number: int, first: int, end: int) -> bool:
    """Whether the blocks match their digests, for sure, that bytes `first` to before `end` of an array lie in.

    `place` has the bytes of a block, and where each array begins in its file; -1 for one that is in memory.
    """
    start, block = place[U(1 + number)], place[U(0)]
    if start < 0 or first >= end:
        return True
    for at in range((start + first) // block, (start + end - 1) // block + 1):
        if not good[U(at)]:
            return False
    return True


@part
def _group(classes: Array, at: int, bits: int) -> np.uint64:
    """The classes of eight rows, as one number."""
    word = np.uint64(0)
    for byte in range(bits):
        word |= np.uint64(classes[U(at + byte)]) << np.uint64(8 * byte)
    return word


@kernel
def copy_rows(  # noqa: PLR0911 - as many as there are reasons to stop
    rows: Array,
    done: int,
    arrays: tuple[Array, ...],
    goods: tuple[Array, ...],
    place: Array,
    lengths: Array,
    out: Array,
) -> int:
    """Copy rows to (n, row bytes) zeros: the class, and the bytes.

    Args:
        rows: (n,) int64.
        done: how many of them are copied already.
        arrays: codes (bytes,), row_classes (groups · bits,), row_starts (blocks,); see `RaggedRows`.
        goods: of each array, for each block of its file, whether it matches its digest.
        place: the bytes of a block, where each array begins in its file, how many rows there are, the bits of a class,
            and how many rows lie between one start and the next.
        lengths: (2^bits,) bytes of a row by class; a number beyond all rows for a class that there is not.
        out: written to.

    Returns:
        n, or a negative number where it stopped before: see `stopped`.
    """
    codes, classes, starts = view_of(arrays[0]), view_of(arrays[1]), view_of(arrays[2])
    good, good_classes, good_starts = view_of(goods[0]), view_of(goods[1]), view_of(goods[2])
    rows, place, lengths, out = view_of(rows), view_of(place), view_of(lengths), view_of(out)
    count, bits, between = place[U(4)], place[U(5)], place[U(6)]
    mask, end, before = np.uint64((1 << bits) - 1), np.int64(0), np.int64(-2)
    for number in range(done, len(rows)):
        row = rows[U(number)]
        if row < 0 or row >= count:
            return -(4 * number + 1 + DOES_NOT_FIT)
        block, own_group = row // between, (row >> 3) * bits
        if row != before + 1 or row % between == 0:
            first_group = block * (between >> 3) * bits
            is_good = _are_good(good_starts, place, 2, 8 * block, 8 * block + 8)
            if not is_good or not _are_good(good_classes, place, 1, first_group, own_group + bits):
                return -(4 * number + 1 + NOT_CHECKED)
            if starts[U(block)] > np.uint64(len(codes)):
                return -(4 * number + 1 + DOES_NOT_FIT)
            end = np.int64(starts[U(block)])
            for at in range(first_group, own_group, bits):
                word = _group(classes, at, bits)
                for _ in range(8):
                    end += lengths[U(word & mask)]
                    word >>= np.uint64(bits)
            word = _group(classes, own_group, bits)
            for _ in range(row & 7):
                end += lengths[U(word & mask)]
                word >>= np.uint64(bits)
        elif not _are_good(good_classes, place, 1, own_group, own_group + bits):
            return -(4 * number + 1 + NOT_CHECKED)
        own = _group(classes, own_group, bits) >> np.uint64((row & 7) * bits) & mask
        begin, length = end, lengths[U(own)]
        end += length
        if end > len(codes):
            return -(4 * number + 1 + DOES_NOT_FIT)
        if not _are_good(good, place, 0, begin, end):
            return -(4 * number + 1 + NOT_CHECKED)
        out[U(number), U(0)] = np.uint8(own)
        for byte in range(length):
            out[U(number), U(1 + byte)] = codes[U(begin + byte)]
        before = row
    return len(rows)
