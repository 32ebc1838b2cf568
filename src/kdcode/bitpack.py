"""Small integers <-> packed bytes.

The values of a row stand one after another, value j in the bits after those of value j − 1, where bit i of a row is bit
i mod 8 (least significant first) of its byte i div 8. Rows start at a byte, so that any row can be read alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import _core
from kdcode.errors import OptionError

_VALUES_A_CALL = 1 << 24
"""Values per call of the core: 10 to 50 ms. Python can be interrupted between calls."""

_UINT8, _UINT16, _UINT32 = np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32)

UnsignedArray = npt.NDArray[np.unsignedinteger[Any]]


def bits_for(count: int) -> int:
    """Bits that a value in [0, count) takes; at least 1."""
    return max(1, (count - 1).bit_length())


def row_bytes(widths: Sequence[int]) -> int:
    """Bytes of one packed row whose values have these widths in bits."""
    return (sum(widths) + 7) // 8


def value_dtype(bits: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest unsigned integer type that holds `bits` bits."""
    return _UINT8 if bits <= 8 else _UINT16 if bits <= 16 else _UINT32


def pack(values: npt.NDArray[np.integer[Any]], widths: Sequence[int]) -> npt.NDArray[np.uint8]:
    """Pack values row by row.

    Args:
        values: (N, C) integers; those of column j in [0, 2^widths[j]).
        widths: bits of each of the C columns, 1 to 32.

    Returns:
        (N, ceil(sum of widths / 8)) bytes; the bits after the last value of a row are zero.
    """
    columns = _as_bytes(widths)
    values = np.ascontiguousarray(values)
    packed = np.empty((len(values), row_bytes(columns)), dtype=np.uint8)
    for part in _parts(len(values), len(columns)):
        _core.pack(values[part], columns, packed[part])
    return packed


def unpack(packed: npt.NDArray[np.uint8], widths: Sequence[int]) -> UnsignedArray:
    """Undo `pack`.

    Args:
        packed: (N, ceil(sum of widths / 8)) bytes; may be memory-mapped.
        widths: bits of each of the C columns, 1 to 32.

    Returns:
        (N, C) unsigned integers of the smallest type that holds the widest column; a view where no work is needed.
    """
    columns = _as_bytes(widths)
    if columns == b"\x08" * packed.shape[-1] and packed.ndim == 2:
        return packed
    packed = np.ascontiguousarray(packed)
    values = np.empty((len(packed), len(columns)), dtype=value_dtype(max(columns, default=8)))
    for part in _parts(len(packed), len(columns)):
        _core.unpack(packed[part], columns, values[part])
    return values


value_at = _core.value_at
"""One of many values that stand one after another: value_at(bytes, position, bits of each); quicker than `unpack`."""


def _as_bytes(widths: Sequence[int]) -> bytes:
    try:
        return bytes(widths)
    except ValueError:
        raise OptionError(f"values have 1 to 32 bits each, got widths {list(widths)}") from None


def _parts(rows: int, columns: int) -> Iterable[slice]:
    """Slices of all rows, of as many values as the core is given at a time."""
    if rows * columns <= _VALUES_A_CALL:
        return (slice(None),)
    step = max(1, _VALUES_A_CALL // columns)
    return (slice(start, start + step) for start in range(0, rows, step))
