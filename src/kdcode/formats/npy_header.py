"""The header of a .npy array, as .npy files and the entries of .npz archives begin with.

It is text in the form of a Python dict. NumPy hands it to Python's parser, which a hostile one keeps busy and makes
print warnings; here the three fields that it has are taken out of it, and nothing else is accepted.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

_MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}
_MAX_HEADER_BYTES = 1 << 16
_MAX_SIZE = 1 << 48

_DTYPE = re.compile(r"[<>|=]?[?biufcSUOV]\d{0,9}")
_FIELD = re.compile(
    r"""\s*(['"])(descr|fortran_order|shape)\1\s*:\s*"""
    r"""((['"])[^'"]*\4|\[.*\]|\(.*?\)|True|False)\s*(?:,|(?=\s*\}))""",
    re.DOTALL,
)


@dataclass(frozen=True)
class ArrayHeader:
    """What an array is.

    Args:
        shape: sizes of its axes.
        dtype: the type of its elements; void where it is one that no table has, such as records.
        order: "C" where rows lie one after the other, "F" where columns do.
        data_start: where its elements begin, counted from the first byte of the header.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str
    data_start: int

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        shape = f"{self.shape[:5]}"[:-1] + ", …)" if len(self.shape) > 5 else f"{self.shape}"
        return f"of shape {shape} and type {self.dtype}"


def read_array_header(stream: IO[bytes]) -> ArrayHeader:
    """The header at the beginning of a stream.

    Raises:
        ValueError: there is none, or it says what NumPy would not write.
    """
    start = stream.read(8)
    if start[:6] != _MAGIC or start[6:] not in _LENGTH_BYTES:
        raise ValueError(f"it begins with {start!r}, not as an array does")
    width = _LENGTH_BYTES[start[6:]]
    length = int.from_bytes(stream.read(width), "little")
    if length > _MAX_HEADER_BYTES:
        raise ValueError(f"its header claims {length} bytes")
    raw = stream.read(length)
    if len(raw) < length:
        raise ValueError("it ends inside its header")
    fields = _fields(raw.decode("latin-1"))
    listed = re.fullmatch(r"\(\s*((?:\d{1,18}L?\s*,\s*)*(?:\d{1,18}L?\s*)?)\)", fields["shape"])
    shape = tuple(int(size) for size in re.findall(r"\d+", listed[1])) if listed else (_MAX_SIZE,)
    if fields["fortran_order"] not in ("True", "False") or any(size >= _MAX_SIZE for size in shape) or len(shape) > 64:
        raise ValueError(f"its header is malformed: {raw[:80]!r}")
    order = "F" if fields["fortran_order"] == "True" else "C"
    return ArrayHeader(shape, _dtype(fields["descr"]), order, 8 + width + length)


def _fields(text: str) -> dict[str, str]:
    """The three fields of a header, as they are written."""
    body = text.strip()
    fields: dict[str, str] = {}
    place = 1
    while body.startswith("{") and (found := _FIELD.match(body, place)) and found[2] not in fields:
        fields[found[2]] = found[3]
        place = found.end()
    if len(fields) != 3 or body[place:].strip() != "}":
        raise ValueError(f"its header is malformed: {text[:80]!r}")
    return fields


def _dtype(described: str) -> np.dtype[Any]:
    name = described[1:-1]
    if described[0] not in "'\"":
        return np.dtype("V")
    try:
        return np.dtype(name) if _DTYPE.fullmatch(name) else np.dtype("V")
    except (TypeError, ValueError):
        raise ValueError(f"there is no type {name[:20]!r}") from None
