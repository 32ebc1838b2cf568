"""The header of a safetensors file, parsed and written; .kdc files and the safetensors format share it.

Read here and not by the safetensors library, which copies what it reads and gives numpy no bfloat16. Every claim of the
header is checked against the size of the file before anything of that size is made.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from kdcode.errors import KdcodeError

DTYPES = {
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "U64": "uint64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "BF16": "uint16",  # numpy has no bfloat16: its bits, the upper half of a float32
}
"""The numpy type that holds each safetensors type."""

_NAMES = {name: code for code, name in DTYPES.items() if code != "BF16"}


class HeaderError(KdcodeError, ValueError):
    """A header is malformed, or claims what the file does not hold."""


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor lies, counted from the end of the header, and what it is."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Header:
    """The header of a file.

    Args:
        path: the file.
        metadata: the strings of `__metadata__`.
        entries: what the header says of each tensor; not checked yet, see `place`.
        data_start: where the tensors begin in the file.
        data_bytes: how many bytes they have.
    """

    path: Path
    metadata: dict[str, str]
    entries: dict[str, Any]
    data_start: int
    data_bytes: int

    def place(self, name: str) -> TensorPlace:
        """Where a tensor lies.

        Raises:
            HeaderError: its entry is malformed, or does not fit the file.
        """
        entry = self.entries[name]
        try:
            dtype, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            itemsize = np.dtype(DTYPES[dtype]).itemsize
        except (KeyError, TypeError, ValueError):
            raise HeaderError(f"{name}: the header entry is malformed or has an unknown dtype") from None
        numbers = all(type(number) is int and 0 <= number < 1 << 48 for number in (*shape, start, end))
        if not numbers or not start <= end <= self.data_bytes or end - start != math.prod(shape) * itemsize:
            raise HeaderError(
                f"{name}: shape {shape} and data_offsets {start} to {end} do not fit the {self.data_bytes} bytes of "
                "tensors; is the file truncated?"
            )
        return TensorPlace(dtype, shape, start, end)

    def mapped(self, name: str) -> npt.NDArray[Any]:
        """A tensor, memory-mapped; it must not be empty."""
        place = self.place(name)
        dtype = np.dtype(DTYPES[place.dtype]).newbyteorder("<")
        return np.memmap(self.path, dtype=dtype, mode="r", offset=self.data_start + place.start, shape=place.shape)


def read_header(path: Path, max_bytes: int) -> Header:
    """The header of a safetensors file of at most `max_bytes`.

    Raises:
        HeaderError: this is no safetensors file, or its header is larger.
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        return header_of(stream, path, max_bytes)


def header_of(stream: BinaryIO, path: Path, max_bytes: int) -> Header:
    """The same of a file that is open."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    length = int.from_bytes(stream.read(8), "little")
    if size < 8 or length > size - 8:
        raise HeaderError(f"the header claims {length} bytes in a file of {size}; truncated, or not a safetensors file")
    if length > max_bytes:
        raise HeaderError(f"the header takes {length} bytes, at most {max_bytes} are allowed here")
    raw = stream.read(length)
    try:
        entries = parse_object(raw.decode("utf-8"))
        metadata = entries.pop("__metadata__", {})
    except (ValueError, RecursionError):
        raise HeaderError("the header is not a JSON object; this is not a safetensors file") from None
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise HeaderError("the header's __metadata__ is not a JSON object of strings")
    return Header(path, metadata, entries, 8 + length, size - 8 - length)


class TensorShape(Protocol):
    """What a header says of a tensor; arrays have it, and so has what is written piece by piece."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """As of a numpy array."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """As of a numpy array."""
        ...

    @property
    def nbytes(self) -> int:
        """As of a numpy array."""
        ...


def header_bytes(metadata: Mapping[str, str], tensors: Mapping[str, TensorShape]) -> bytes:
    """The header of tensors that follow it in this order, its length in front, padded to a multiple of 8 bytes."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    start = 0
    for name, array in tensors.items():
        offsets = [start, start + array.nbytes]
        header[name] = {"dtype": _NAMES[array.dtype.name], "shape": array.shape, "data_offsets": offsets}
        start += array.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def parse_object(text: str) -> dict[str, Any]:
    """A JSON object of valid text, finite numbers and distinct keys; all else is refused with ValueError."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a key appears twice")
        return dict(pairs)

    def finite(number: str) -> float:
        if not math.isfinite(float(number)):
            raise ValueError(f"{number} is not a finite number")
        return float(number)

    def integer(number: str) -> int:
        if number == "-0":  # which the safetensors library takes for a float
            raise ValueError("-0 is no integer")
        return int(number)

    parsed = json.loads(text, object_pairs_hook=distinct, parse_float=finite, parse_int=integer, parse_constant=finite)
    if not isinstance(parsed, dict):
        raise ValueError("not an object")
    if "\\ud" in text.lower():
        json.dumps(parsed, ensure_ascii=False).encode("utf-8")  # half of a surrogate pair cannot be encoded
    return parsed
