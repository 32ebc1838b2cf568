"""safetensors: one matrix of a file, and its symbols in a text file beside it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from kdcode.errors import FormatError
from kdcode.io import matrices
from kdcode.io.format import ReadOptions
from kdcode.io.places import Place
from kdcode.io.reader import Progress, Reader
from kdcode.rows import Rows
from kdcode.safetensors_header import DTYPES, Header, HeaderError, header_bytes, header_of

_MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors format itself
_WRITTEN = "weight"
_FLOATS = ("F64", "F32", "F16", "BF16")
_SHOWN = 80
_BITS = {
    **dict.fromkeys(("C64", "F64", "I64", "U64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""Bits of a number of each type that a safetensors file may hold."""


def open_file(place: Place, options: ReadOptions, on_progress: Progress | None) -> Reader:
    """The rows of the tensor that was named, the only matrix of floats, or the one with the usual name."""
    with place.opened() as stream:
        try:
            header = header_of(stream, Path(place.name), _MAX_HEADER_BYTES)
            shapes = _checked_shapes(header)
        except HeaderError as error:
            raise FormatError(f"{place.name}: {error}") from error
    floats = {name: shape for name, shape in shapes.items() if header.entries[name]["dtype"] in _FLOATS}
    name = matrices.choose(Path(place.name), floats, options.tensor)
    tensor = header.place(name)
    if 0 in tensor.shape:
        raise FormatError(f"{place.name}: {name}: the matrix is empty, shape {tensor.shape}")
    dtype = np.dtype(DTYPES[tensor.dtype]).newbyteorder("<")
    start = header.data_start + tensor.start
    array = matrices.StoredArray(start, tensor.shape, dtype, is_bfloat16=tensor.dtype == "BF16")
    return matrices.MatrixReader(place, array, options)


def _checked_shapes(header: Header) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors, checked to fill the file without gaps.

    The safetensors library accepts every file that passes this check.
    """
    shapes, places = {}, []
    for name, entry in header.entries.items():
        shown = f"the tensor {name[:_SHOWN]!r}"
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise HeaderError(f"{shown}: the header entry is malformed")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in _BITS:
            raise HeaderError(f"{shown}: the header entry is malformed or has an unknown dtype")
        if not _is_counts(shape) or not _is_counts(offsets) or len(offsets) != 2:
            raise HeaderError(f"{shown}: shape and data_offsets do not fit: expected lists of positive integers")
        bits = math.prod(size for size in shape if size) * _BITS[dtype]
        start, end = offsets
        if bits >= 1 << 63 or (0 if 0 in shape else bits) != 8 * (end - start) or end > header.data_bytes:
            raise HeaderError(
                f"{shown}: shape {str(shape)[:_SHOWN]} and data_offsets {start} to {end} do not fit the "
                f"{header.data_bytes} bytes of tensors; is the file truncated?"
            )
        shapes[name] = tuple(shape)
        places.append((start, end, shown))
    reached = 0
    for start, end, shown in sorted(places):
        if start != reached:
            raise HeaderError(f"{shown}: starts at byte {start}, where the tensor before it ends at {reached}")
        reached = end
    if reached != header.data_bytes:
        raise HeaderError(f"the tensors fill {reached} of the {header.data_bytes} bytes after the header")
    return shapes


def _is_counts(numbers: object) -> bool:
    return isinstance(numbers, list) and all(type(number) is int and 0 <= number < 1 << 48 for number in numbers)


def write(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write the tensor `weight`, float32, and the symbols of a table that has them to `<stem>.symbols.txt` beside it.

    An `nn.Embedding` calls its parameter so, and can load the file as its state dict.
    """
    shape = np.broadcast_to(np.float32(0), (len(rows), rows.embedding_dim))  # holds no memory
    matrices.write(rows, path, on_progress, header_bytes({"format": "pt"}, {_WRITTEN: shape}))
