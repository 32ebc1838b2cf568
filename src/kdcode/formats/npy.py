"""NumPy .npy: a matrix, memory-mapped, and its symbols in a text file beside it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np

from kdcode.errors import FormatError
from kdcode.formats import matrices
from kdcode.formats.format import Progress, ReadOptions
from kdcode.rows import Rows
from kdcode.table import VectorTable


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a .npy file; without a symbols file its rows are unnamed."""
    try:
        matrix = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # the header is a Python literal: damage ends in any of a dozen exceptions
        raise FormatError(f"{path}: not a usable .npy file: {error}") from None
    if matrix.ndim != 2:
        raise FormatError(f"{path}: expected a matrix of shape (rows, dimension), found shape {matrix.shape}")
    return matrices.named_table(path, options, matrix[: options.limit], len(matrix))


def write(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a float32 .npy file, and the symbols of a table that has them to `<stem>.symbols.txt` beside it."""
    head = BytesIO()
    shape = (len(rows), rows.embedding_dim)
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
    matrices.write(rows, path, on_progress, head.getvalue())
