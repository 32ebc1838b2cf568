"""Numbers as they are stored: float32, or float16 and int8 with a scale for each leading index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray
from kdcode.errors import OptionError

DTYPE_BYTES = {"float32": 4, "float16": 2, "int8": 1}
"""The types that codebooks may be stored in, and the bytes of one number."""

_MOST = 127
MOST_IN_SUM = 256
"""How many numbers of int8 surely have room in 16 bits when they are added up; as in core/sums.cpp."""
_SAME_SCALE = 4e-7
"""By how much scales may differ that are taken to be the same: more than float32 rounds them by."""
_MORE_ROUNDING = 1.1
"""By what factor the squared error of rounding may grow, so that sums can be made of integers."""
_SMALLEST_SCALE = float(np.finfo(np.float32).tiny)


class Quantized(NamedTuple):
    """A tensor as stored.

    Args:
        stored: (n, …) float32, float16 or int8.
        scale: (n, 1, …) float32 that multiplies float16 and int8 numbers; None for float32.
    """

    stored: npt.NDArray[Any]
    scale: FloatArray | None

    @property
    def values(self) -> FloatArray:
        """What the stored numbers stand for, as float32."""
        values = np.asarray(self.stored, dtype=np.float32)
        return values if self.scale is None else values * self.scale

    @property
    def largest(self) -> FloatArray:
        """(n,) the largest absolute value of each leading index, as float32; inf where one leaves float32."""
        numbers = self.stored.reshape(len(self.stored), -1)
        most: FloatArray = np.maximum(numbers.max(axis=1).astype(np.float32), -numbers.min(axis=1).astype(np.float32))
        with np.errstate(over="ignore"):
            return most if self.scale is None else np.abs(most * self.scale.reshape(-1))


def scale_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the scales of a tensor: one for each leading index."""
    return (shape[0], *[1] * (len(shape) - 1))


def quantize(values: npt.NDArray[Any], dtype: str, groups: Sequence[slice] = ()) -> Quantized:
    """Round (n, …) numbers to a stored type.

    The largest number of each leading index becomes about 127 in int8, and lies between 1/2 and 1 in float16: neither
    very large nor very small tables leave the range of the type.

    Args:
        values: the numbers.
        dtype: float32, float16 or int8.
        groups: leading indices whose int8 numbers are added up, and may do with scales that are multiples of a unit.

    Raises:
        OptionError: an unknown type, or numbers that are not finite.
    """
    if dtype not in DTYPE_BYTES:
        raise OptionError(f"codebook_dtype must be one of {', '.join(DTYPE_BYTES)}, got {dtype!r}")
    if not np.isfinite(values).all():
        raise OptionError("numbers to store must be finite")
    if dtype == "float32":
        return Quantized(np.ascontiguousarray(values, dtype=np.float32), None)
    axes = tuple(range(1, values.ndim))
    most = np.abs(values).max(axis=axes, keepdims=True).astype(np.float64)
    for group in groups:
        most[group][most[group] == 0] = most[group].max()  # any scale will do for zeros: one that suits the others
    most[most == 0] = 1
    scale = most / _MOST if dtype == "int8" else np.exp2(np.ceil(np.log2(most)))
    for group in groups if dtype == "int8" else ():
        scale[group] = _as_multiples(scale[group])
    scale = np.clip(scale, _SMALLEST_SCALE, np.finfo(np.float32).max / 2).astype(np.float32)
    ratio = values / scale
    if dtype == "int8":
        # The clip matters where the scale is so small that float32 has few digits left for it.
        return Quantized(np.rint(np.clip(ratio, -_MOST, _MOST)).astype(np.int8), scale)
    return Quantized(ratio.astype(np.float16), scale)


def _as_multiples(scales: DoubleArray) -> DoubleArray:
    """Scales that are a little larger, and small multiples of one unit; as they are where that would cost precision."""
    largest = float(scales.max())
    best, least = scales, _MORE_ROUNDING * float(np.square(scales).sum())
    for most in range(1, int(MOST_IN_SUM * largest / float(scales.sum())) + 1):
        whole = np.ceil(scales * (most / largest) * (1 - _SAME_SCALE))
        rounded = whole * (largest / most)
        if whole.sum() <= MOST_IN_SUM and np.square(rounded).sum() <= least:
            best, least = rounded, float(np.square(rounded).sum())
    return best
