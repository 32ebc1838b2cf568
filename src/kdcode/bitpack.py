"""Small integers <-> packed bytes.

A row of D values of b bits each becomes ceil(D·b/8) bytes: value j takes bits j·b … (j+1)·b−1 of the row, where bit i
of a row is bit i mod 8 (least significant first) of its byte i div 8. Rows start at a byte: any row can be read alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.errors import OptionError

MAX_BITS = 32

UnsignedArray = npt.NDArray[np.unsignedinteger[Any]]


def bits_for(count: int) -> int:
    """Bits that a value in [0, count) takes; at least 1."""
    return max(1, (count - 1).bit_length())


def row_bytes(length: int, bits: int) -> int:
    """Bytes of one packed row of `length` values."""
    return (length * bits + 7) // 8


def value_dtype(bits: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest unsigned integer type that holds `bits` bits."""
    return np.dtype(np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32)


def pack(values: npt.NDArray[np.integer[Any]], bits: int) -> npt.NDArray[np.uint8]:
    """Pack values row by row.

    Args:
        values: (N, D) integers in [0, 2^bits).
        bits: bits per value, 1 to 32.

    Returns:
        (N, ceil(D·bits/8)) bytes; the bits after the last value of a row are zero.
    """
    _check_bits(bits)
    if values.ndim != 2 or values.dtype.kind not in "iu":
        raise OptionError(f"packing takes (rows, length) integers, got {values.dtype} of shape {values.shape}")
    if values.size and (int(values.min()) < 0 or int(values.max()) >= 1 << bits):
        raise OptionError(f"values in [{values.min()}, {values.max()}] do not fit in {bits} bits")
    rows, length = values.shape
    packed = np.zeros((rows, row_bytes(length, bits)), dtype=np.uint8)
    for position in range(length):
        first, shift = divmod(position * bits, 8)
        shifted = values[:, position].astype(np.uint64) << np.uint64(shift)
        for byte in range(row_bytes(1, bits + shift)):
            packed[:, first + byte] |= (shifted >> np.uint64(8 * byte)).astype(np.uint8)
    return packed


def unpack(packed: npt.NDArray[np.uint8], length: int, bits: int) -> UnsignedArray:
    """Undo `pack`.

    Args:
        packed: (N, ceil(length·bits/8)) bytes; may be memory-mapped.
        length: values per row.
        bits: bits per value, 1 to 32.

    Returns:
        (N, length) unsigned integers of the smallest type that holds `bits` bits; a view where no work is needed.
    """
    _check_bits(bits)
    if packed.ndim != 2 or packed.shape[1] != row_bytes(length, bits):
        raise OptionError(
            f"packed rows of {length} values of {bits} bits have {row_bytes(length, bits)} bytes, "
            f"got an array of shape {packed.shape}"
        )
    if bits == 8 or packed.size == 0:
        return packed.astype(value_dtype(bits), copy=False).reshape(len(packed), length)
    # All positions at once, byte by byte: one row then costs microseconds, and a chunk no more than column by column.
    first, shift = np.divmod(np.arange(length) * bits, 8)
    wide: type[np.uint16 | np.uint32 | np.uint64]
    wide = np.uint16 if bits <= 8 else np.uint32 if bits <= 16 else np.uint64
    words: npt.NDArray[Any] = packed.take(first, axis=1).astype(wide)
    for byte in range(1, (bits + 14) // 8):  # a value that starts at bit 7 of a byte reaches this far
        beyond = np.minimum(first + byte, packed.shape[1] - 1)  # past the row: some byte, whose bits are masked off
        words |= packed.take(beyond, axis=1).astype(wide) << wide(8 * byte)
    words >>= shift.astype(wide)
    words &= wide((1 << bits) - 1)
    return words.astype(value_dtype(bits), copy=False)


def value_at(row: npt.NDArray[np.uint8], position: int, bits: int) -> int:
    """One value of one packed (row bytes,) row; many times quicker than unpacking the row."""
    return (int.from_bytes(row.tobytes(), "little") >> position * bits) & ((1 << bits) - 1)


def _check_bits(bits: int) -> None:
    if not 1 <= bits <= MAX_BITS:
        raise OptionError(f"bits per value must be 1 to {MAX_BITS}, got {bits}")
