from typing import Any

import numpy
import numpy.typing


def isa() -> str:
    """The instruction set in use: plain, avx2, avx512 or neon."""

def pack(values: numpy.typing.NDArray[numpy.integer[Any]], widths: bytes, packed: numpy.typing.NDArray[numpy.uint8]) -> None:
    """
    Pack (n, columns) integers into (n, row bytes) bytes; a value that does not fit is refused.
    """

def unpack(packed: numpy.typing.NDArray[numpy.uint8], widths: bytes, values: numpy.typing.NDArray[numpy.integer[Any]]) -> None:
    """
    Unpack (n, row bytes) bytes into (n, columns) values of uint8, uint16 or uint32.
    """

def value_at(packed: bytes, position: int, bits: int) -> int:
    """One of many values of `bits` bits each that stand one after another."""
