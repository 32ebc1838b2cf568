"""Small integers <-> packed bytes.

The values of a row stand one after another, value j in the bits after those of value j − 1, where bit i of a row is bit
i mod 8 (least significant first) of its byte i div 8. Rows start at a byte, so that any row can be read alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.errors import OptionError

MAX_BITS = 32
_VALUES_AT_ONCE = 1 << 20
"""Values that are unpacked at a time: on the way they take several times the memory of the result."""

UnsignedArray = npt.NDArray[np.unsignedinteger[Any]]


def bits_for(count: int) -> int:
    """Bits that a value in [0, count) takes; at least 1."""
    return max(1, (count - 1).bit_length())


def row_bytes(widths: Sequence[int]) -> int:
    """Bytes of one packed row whose values have these widths in bits."""
    return (sum(widths) + 7) // 8


def value_dtype(bits: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest unsigned integer type that holds `bits` bits."""
    return np.dtype(np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32)


def pack(values: npt.NDArray[np.integer[Any]], widths: Sequence[int]) -> npt.NDArray[np.uint8]:
    """Pack values row by row.

    Args:
        values: (N, C) integers; those of column j in [0, 2^widths[j]).
        widths: bits of each of the C columns, 1 to 32.

    Returns:
        (N, ceil(sum of widths / 8)) bytes; the bits after the last value of a row are zero.
    """
    _check_widths(widths)
    if values.ndim != 2 or values.dtype.kind not in "iu" or values.shape[1] != len(widths):
        raise OptionError(
            f"packing takes integers of shape (rows, {len(widths)}), got {values.dtype} of shape {values.shape}"
        )
    packed = np.zeros((len(values), row_bytes(widths)), dtype=np.uint8)
    place = 0
    for column, bits in zip(values.T, widths, strict=True):
        if column.size and (int(column.min()) < 0 or int(column.max()) >= 1 << bits):
            raise OptionError(f"values in [{column.min()}, {column.max()}] do not fit in {bits} bits")
        first, shift = divmod(place, 8)
        shifted = column.astype(np.uint64) << np.uint64(shift)
        for byte in range((bits + shift + 7) // 8):
            packed[:, first + byte] |= (shifted >> np.uint64(8 * byte)).astype(np.uint8)
        place += bits
    return packed


def unpack(packed: npt.NDArray[np.uint8], widths: Sequence[int]) -> UnsignedArray:
    """Undo `pack`.

    Args:
        packed: (N, ceil(sum of widths / 8)) bytes; may be memory-mapped.
        widths: bits of each of the C columns, 1 to 32.

    Returns:
        (N, C) unsigned integers of the smallest type that holds the widest column; a view where no work is needed.
    """
    _check_widths(widths)
    if packed.ndim != 2 or packed.shape[1] != row_bytes(widths):
        raise OptionError(f"packed rows have {row_bytes(widths)} bytes here, got an array of shape {packed.shape}")
    most = max(widths)
    if min(widths) == most == 8 or packed.size == 0:
        return packed.astype(value_dtype(most), copy=False).reshape(len(packed), len(widths))
    values = np.empty((len(packed), len(widths)), dtype=value_dtype(most))
    bits, at_once = np.asarray(widths), max(1, _VALUES_AT_ONCE // len(widths))
    for start in range(0, len(packed), at_once):
        values[start : start + at_once] = _unpack_rows(packed[start : start + at_once], bits)
    return values


def _unpack_rows(packed: npt.NDArray[np.uint8], widths: npt.NDArray[np.int64]) -> UnsignedArray:
    # All columns at once, byte by byte: one row then costs microseconds, and a chunk no more than column by column.
    most = int(widths.max())
    first, shift = np.divmod(np.cumsum(widths) - widths, 8)
    wide: Any = np.uint16 if most <= 8 else np.uint32 if most <= 16 else np.uint64
    words = packed.take(first, axis=1).astype(wide)
    for byte in range(1, (most + 14) // 8):  # a value that starts at bit 7 of a byte reaches this far
        beyond = np.minimum(first + byte, packed.shape[1] - 1)  # past the row: some byte, whose bits are masked off
        words |= packed.take(beyond, axis=1).astype(wide) << wide(8 * byte)
    words >>= shift.astype(wide)
    words &= ((np.int64(1) << widths) - 1).astype(wide)
    return words


def value_at(packed: bytes, position: int, bits: int) -> int:
    """One of many values of `bits` bits each, 1 to 32, that stand one after another; quicker than unpacking them."""
    first, shift = divmod(position * bits, 8)  # a value reaches into five bytes at most
    return (int.from_bytes(packed[first : first + 5], "little") >> shift) & ((1 << bits) - 1)


def _check_widths(widths: Sequence[int]) -> None:
    if not widths or not 1 <= min(widths) <= max(widths) <= MAX_BITS:
        raise OptionError(f"values have 1 to {MAX_BITS} bits each, got widths {list(widths)}")
