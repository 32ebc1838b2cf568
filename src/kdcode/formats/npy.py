"""NumPy .npy: a matrix, memory-mapped, and its symbols in a text file beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kdcode.errors import FormatError
from kdcode.formats import symbol_file, writing
from kdcode.formats.format import Progress, ReadOptions
from kdcode.table import RowNumbers, VectorTable

if TYPE_CHECKING:
    from kdcode.evaluation.reconstruction import Rows


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a .npy file; without a symbols file its rows are unnamed."""
    matrix = _mapped(path)
    if matrix.ndim != 2:
        raise FormatError(f"{path}: expected a matrix of shape (rows, dimension), found shape {matrix.shape}")
    symbols = symbol_file.symbols_for(path, options, (matrix.shape[0], matrix.shape[1]))
    return VectorTable(symbols, matrix[: options.limit])


def write(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a float32 .npy file, and the symbols of a table that has them to `<stem>.symbols.txt` beside it."""
    if isinstance(getattr(rows, "symbols", None), RowNumbers):
        _write_unnamed(rows, path, on_progress)
        return
    with writing.fresh_file(symbol_file.written_beside(path)) as names, writing.fresh_file(path) as stream:
        _write_header(stream, rows)
        for symbols, vectors in writing.checked_chunks(rows, path, symbol_file.fault, on_progress):
            names.write("".join(f"{symbol}\n" for symbol in symbols).encode("utf-8"))
            stream.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())


def _write_unnamed(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    stale = symbol_file.found_beside(path, rows.embedding_dim)
    if stale is not None:
        raise FormatError(
            f"{path}: the rows to write have no symbols, but {stale} would be read as theirs; "
            "remove it or write elsewhere"
        )
    with writing.fresh_file(path) as stream:
        _write_header(stream, rows)
        for _, vectors in writing.checked_chunks(rows, path, symbol_file.fault, on_progress):
            stream.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())


def _write_header(stream: Any, rows: Rows) -> None:  # noqa: ANN401 - numpy's stubs want more than IO[bytes]
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(rows), rows.embedding_dim)}
    np.lib.format.write_array_header_1_0(stream, header)


def _mapped(path: Path) -> npt.NDArray[Any]:
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # the header is a Python literal: damage ends in any of a dozen exceptions
        raise FormatError(f"{path}: not a usable .npy file: {error}") from None
