"""NumPy .npy: a matrix, memory-mapped, and its symbols in a text file beside it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np

from kdcode.errors import FormatError
from kdcode.evaluation.reconstruction import Rows
from kdcode.formats import matrices, writing
from kdcode.formats.format import Progress, ReadOptions
from kdcode.symbols import RowNumbers
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
    unnamed = isinstance(getattr(rows, "symbols", None), RowNumbers)
    if unnamed and (stale := matrices.found_beside(path, rows.embedding_dim)):
        raise FormatError(
            f"{path}: the rows to write have no symbols, but {stale} would be read as theirs; "
            "remove it or write elsewhere"
        )
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(rows), rows.embedding_dim)}
    with ExitStack() as stack:
        names = None if unnamed else stack.enter_context(writing.fresh_file(matrices.written_beside(path)))
        stream = stack.enter_context(writing.fresh_file(path))
        np.lib.format.write_array_header_1_0(cast("Any", stream), header)  # numpy's stubs want more than IO[bytes]
        for symbols, vectors in writing.checked_chunks(rows, path, matrices.symbol_fault, on_progress):
            if names is not None:
                names.write("".join(f"{symbol}\n" for symbol in symbols).encode("utf-8"))
            stream.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
