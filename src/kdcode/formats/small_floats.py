"""Float types that numpy does not have, as float32: bfloat16 and those of 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray

_EIGHT_BITS = {
    # exponent bits, bias, whether infinities and NaN take the highest exponent, whether -0 is NaN
    "float8_e5m2": (5, 15, True, False),
    "float8_e4m3fn": (4, 7, False, False),
    "float8_e5m2fnuz": (5, 16, False, True),
    "float8_e4m3fnuz": (4, 8, False, True),
}
E8M0 = "float8_e8m0fnu"
NAMES = ("bfloat16", *_EIGHT_BITS, E8M0)
"""What PyTorch calls them."""


def itemsize(name: str) -> int:
    """Bytes of a number of one of `NAMES`."""
    return 2 if name == "bfloat16" else 1


def as_float32(stored: npt.NDArray[Any], name: str) -> FloatArray:
    """Numbers of one of `NAMES`, given as unsigned integers of their size."""
    if name == "bfloat16":  # the upper half of a float32
        wide = stored.astype(np.uint32)
        wide <<= 16
        numbers: FloatArray = wide.view(np.float32)
        return numbers
    return _values(name).take(stored)


def _values(name: str) -> FloatArray:
    """(256,) numbers that the bytes of an 8-bit type stand for."""
    codes = np.arange(256)
    if name == E8M0:
        return np.where(codes == 255, np.nan, np.exp2(codes - 127.0)).astype(np.float32)
    exponent_bits, bias, has_infinities, zero_is_nan = _EIGHT_BITS[name]
    mantissa_bits = 7 - exponent_bits
    exponent, mantissa = codes >> mantissa_bits & (1 << exponent_bits) - 1, codes & (1 << mantissa_bits) - 1
    fraction = mantissa / (1 << mantissa_bits)
    values: DoubleArray = np.where(
        exponent > 0, (1 + fraction) * np.exp2(exponent - bias), fraction * np.exp2(1.0 - bias)
    )
    if has_infinities:
        values[exponent == (1 << exponent_bits) - 1] = np.nan
        values[codes & 127 == 124] = np.inf
    elif not zero_is_nan:
        values[codes & 127 == 127] = np.nan
    values[codes >= 128] *= -1
    if zero_is_nan:
        values[128] = np.nan
    return values.astype(np.float32)
