"""NumPy .npy: a matrix, memory-mapped, and its symbols in a text file beside it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np

from kdcode.errors import FormatError
from kdcode.formats import matrices
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.npy_header import read_array_header
from kdcode.rows import Rows
from kdcode.table import VectorTable


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a .npy file; without a symbols file its rows are unnamed."""
    try:
        with path.open("rb") as stream:
            header = read_array_header(stream)
    except ValueError as error:
        raise FormatError(f"{path}: not a usable .npy file: {error}") from None
    if len(header.shape) != 2:
        raise FormatError(f"{path}: expected a matrix of shape (rows, dimension), found shape {header.shape}")
    there = path.stat().st_size - header.data_start
    if header.dtype.kind not in "fiu":
        raise FormatError(f"{path}: not a usable .npy file: expected real numbers, found a matrix {header}")
    if not 0 < header.nbytes <= there:
        raise FormatError(f"{path}: not a usable .npy file: a matrix {header} does not fit into its {there} bytes")
    try:
        matrix = np.memmap(path, header.dtype, "r", header.data_start, header.shape, header.order)  # type: ignore[call-overload]
    except ValueError as error:  # it was cut short just now
        raise FormatError(f"{path}: the file changed while it was opened: {error}") from None
    return matrices.named_table(path, options, matrix[: options.limit], len(matrix))


def write(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a float32 .npy file, and the symbols of a table that has them to `<stem>.symbols.txt` beside it."""
    head = BytesIO()
    shape = (len(rows), rows.embedding_dim)
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
    matrices.write(rows, path, on_progress, head.getvalue())
