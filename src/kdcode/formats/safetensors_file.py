"""safetensors: one matrix of a file, memory-mapped, and its symbols in a text file beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from kdcode.errors import FormatError
from kdcode.formats import matrices
from kdcode.formats.format import Progress, ReadOptions
from kdcode.rows import Rows
from kdcode.safetensors_header import HeaderError, header_bytes, read_header
from kdcode.table import VectorTable

_MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors format itself
_WRITTEN = "weight"
_FLOATS = ("F64", "F32", "F16", "BF16")


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table in a safetensors file: the tensor that was named, the only matrix of floats, or the obvious one."""
    try:
        header = read_header(path, _MAX_HEADER_BYTES)
        entries = header.entries.items()
        floats = [name for name, entry in entries if isinstance(entry, dict) and entry.get("dtype") in _FLOATS]
        places = {name: header.place(name) for name in floats}
        name = matrices.choose(path, {name: place.shape for name, place in places.items()}, options.tensor)
        if places[name].start == places[name].end:
            raise FormatError(f"{path}: {name}: the matrix is empty, shape {places[name].shape}")
        stored = header.mapped(name)
    except HeaderError as error:
        raise FormatError(f"{path}: {error}") from error
    kept = stored[: options.limit]
    matrix = _from_bfloat16(kept) if places[name].dtype == "BF16" else kept
    return matrices.named_table(path, options, matrix, len(stored))


def write(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write the tensor `weight`, float32, and the symbols of a table that has them to `<stem>.symbols.txt` beside it.

    The name is that of the parameter of an `nn.Embedding`, which can load the file as its state dict.
    """
    shape = np.broadcast_to(np.float32(0), (len(rows), rows.embedding_dim))  # holds no memory
    matrices.write(rows, path, on_progress, header_bytes({"format": "pt"}, {_WRITTEN: shape}))


def _from_bfloat16(stored: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """bfloat16 is the upper half of a float32."""
    wide = stored.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)
