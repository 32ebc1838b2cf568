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
        (N, ceil(D·bits/8)) bytes.
    """
    _check_bits(bits)
    rows, length = values.shape
    if values.size and (int(values.min()) < 0 or int(values.max()) >= 1 << bits):
        raise OptionError(f"values in [{values.min()}, {values.max()}] do not fit in {bits} bits")
    packed = np.zeros((rows, row_bytes(length, bits)), dtype=np.uint8)
    for position in range(length):
        first, shift = divmod(position * bits, 8)
        shifted = values[:, position].astype(np.uint64) << np.uint64(shift)
        for byte in range(row_bytes(1, bits + shift)):
            packed[:, first + byte] |= (shifted >> np.uint64(8 * byte)).astype(np.uint8)
    return packed


def unpack(packed: npt.NDArray[np.uint8], length: int, bits: int) -> npt.NDArray[np.unsignedinteger[Any]]:
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
    if bits == 8:
        return packed
    dtype = value_dtype(bits)
    values = np.empty((len(packed), length), dtype=dtype)
    wide = np.uint32 if bits <= 16 else np.uint64
    for position in range(length):
        first, shift = divmod(position * bits, 8)
        word = np.zeros(len(packed), dtype=wide)
        for byte in range(row_bytes(1, bits + shift)):
            word |= packed[:, first + byte].astype(wide) << wide(8 * byte)
        values[:, position] = (word >> wide(shift)) & wide((1 << bits) - 1)
    return values


def _check_bits(bits: int) -> None:
    if not 1 <= bits <= MAX_BITS:
        raise OptionError(f"bits per value must be 1 to {MAX_BITS}, got {bits}")
