"""NumPy .npy: a matrix, memory-mapped, and its symbols in a text file beside it."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from kdcode.errors import FormatError
from kdcode.formats import matrices
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.npy_header import ArrayHeader, read_array_header
from kdcode.rows import Rows
from kdcode.table import VectorTable


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a .npy file; without a symbols file its rows are unnamed."""
    with path.open("rb") as stream:
        header = matrix_header(stream, str(path))
    try:
        matrix = np.memmap(path, header.dtype, "r", header.data_start, header.shape, header.order)  # type: ignore[call-overload]
    except ValueError as error:  # it was cut short just now
        raise FormatError(f"{path}: the file changed while it was opened: {error}") from None
    return matrices.named_table(path, options, matrix[: options.limit], len(matrix))


def matrix_header(stream: BinaryIO, name: str) -> ArrayHeader:
    """The header of an open .npy file that holds a matrix of real numbers.

    Raises:
        FormatError: it holds something else, or less than it says; the message begins with the `name` of the file.
    """
    try:
        header = read_array_header(stream)
    except ValueError as error:
        raise FormatError(f"{name}: not a usable .npy file: {error}") from None
    if len(header.shape) != 2:
        raise FormatError(f"{name}: expected a matrix of shape (rows, dimension), found shape {header.shape}")
    there = stream.seek(0, os.SEEK_END) - header.data_start
    if header.dtype.kind not in "fiu":
        raise FormatError(f"{name}: not a usable .npy file: expected real numbers, found a matrix {header}")
    if not 0 < header.nbytes <= there:
        raise FormatError(f"{name}: not a usable .npy file: a matrix {header} does not fit into its {there} bytes")
    return header


def write(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a float32 .npy file, and the symbols of a table that has them to `<stem>.symbols.txt` beside it."""
    head = BytesIO()
    shape = (len(rows), rows.embedding_dim)
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
    matrices.write(rows, path, on_progress, head.getvalue())
