"""safetensors: one matrix of a file, memory-mapped.

The header is parsed here and not by the library, which copies what it reads and gives numpy no bfloat16.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.errors import FormatError
from kdcode.formats import symbol_file, tensors
from kdcode.formats.format import Progress, ReadOptions
from kdcode.table import VectorTable

_MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors format itself
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table in a safetensors file: the tensor that was named, or the only matrix of floats."""
    entries, start = _entries(path)
    shapes = {name: _shape(path, name, entry) for name, entry in entries.items() if _is_float(entry)}
    name = tensors.choose(path, shapes, options.tensor)
    stored = _mapped(path, name, entries[name], start)
    symbols = symbol_file.symbols_for(path, options, (stored.shape[0], stored.shape[1]))
    matrix = stored[: options.limit]
    return VectorTable(symbols, _from_bfloat16(matrix) if entries[name]["dtype"] == "BF16" else matrix)


def _entries(path: Path) -> tuple[dict[str, Any], int]:
    """The header's entries by tensor, and where the data starts."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(size - 8, _MAX_HEADER_BYTES):
            raise FormatError(
                f"{path}: the header claims {length} bytes in a file of {size}; truncated, or not a safetensors file"
            )
        raw = stream.read(length)
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise FormatError(f"{path}: the header is not a JSON object; this is not a safetensors file")
    header.pop("__metadata__", None)
    return header, 8 + length


def _is_float(entry: Any) -> bool:  # noqa: ANN401 - unchecked JSON
    return isinstance(entry, dict) and isinstance(entry.get("dtype"), str) and entry["dtype"] in _DTYPES


def _shape(path: Path, name: str, entry: dict[str, Any]) -> tuple[int, ...]:
    shape = entry.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 1 << 48 for size in shape):
        raise FormatError(f"{path}: {name}: the header entry has no usable shape: {shape!r}")
    return tuple(shape)


def _mapped(path: Path, name: str, entry: dict[str, Any], start: int) -> npt.NDArray[Any]:
    """The tensor on disk, its place checked against the size of the file."""
    dtype = np.dtype(_DTYPES[entry["dtype"]])
    shape = _shape(path, name, entry)
    offsets = entry.get("data_offsets")
    body = path.stat().st_size - start
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(place) is int for place in offsets):
        raise FormatError(f"{path}: {name}: the header entry has no usable data_offsets: {offsets!r}")
    first, end = offsets
    if not 0 <= first <= end <= body or end - first != math.prod(shape) * dtype.itemsize:
        raise FormatError(
            f"{path}: {name}: shape {shape} at bytes {first} to {end} does not fit the {body} bytes of data; truncated?"
        )
    if first == end:
        raise FormatError(f"{path}: {name}: the matrix is empty, shape {shape}")
    return np.memmap(path, dtype=dtype, mode="r", offset=start + first, shape=shape)


def _from_bfloat16(stored: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """bfloat16 is the upper half of a float32."""
    wide = stored.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)
