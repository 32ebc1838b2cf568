"""Parquet: a column of symbols and a column of vectors, read and written batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kdcode.errors import FormatError, MissingExtraError
from kdcode.files import replacing
from kdcode.formats import writing
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.row_buffer import RowBuffer
from kdcode.formats.text_rows import utf8_fault
from kdcode.table import CHUNK_ROWS, FloatArray, VectorTable

if TYPE_CHECKING:
    from kdcode.evaluation.reconstruction import Rows

SYMBOL_COLUMN, VECTOR_COLUMN = "symbol", "vector"
"""What the columns of a file that we write are called."""


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table in a Parquet file; without a column of symbols its rows are unnamed. Rows are numbered from 0."""
    pyarrow = _pyarrow("reading")
    places: dict[str, int] = {}
    vectors: RowBuffer | None = None
    dim = done = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            symbol_column, vector_column = _columns(path, file.schema_arrow, options)
            for batch in _batches(file, [symbol_column, vector_column], options.limit):
                values, dim = _vectors(path, batch.column(vector_column), done, dim)
                vectors = vectors or RowBuffer(dim)
                vectors.append(values)
                if symbol_column is not None:
                    _add_symbols(path, batch.column(symbol_column), done, places)
                done += batch.num_rows
    except (pyarrow.lib.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: not a usable Parquet file: {error}") from None
    if vectors is None:
        raise FormatError(f"{path}: the file is empty, expected at least one row")
    return VectorTable(None if symbol_column is None else list(places), vectors.finish())


def write(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a Parquet file with the columns `symbol` (string) and `vector` (list of d float32)."""
    pyarrow = _pyarrow("writing")
    dim = rows.embedding_dim
    schema = pyarrow.schema(
        [
            pyarrow.field(SYMBOL_COLUMN, pyarrow.string(), nullable=False),
            pyarrow.field(VECTOR_COLUMN, pyarrow.list_(pyarrow.float32(), dim), nullable=False),
        ]
    )
    with replacing(path) as temporary, pyarrow.parquet.ParquetWriter(temporary, schema) as writer:
        for symbols, vectors in writing.checked_chunks(rows, path, lambda symbol: None, on_progress):
            flat = pyarrow.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
            column = pyarrow.FixedSizeListArray.from_arrays(flat, dim)
            names = pyarrow.array(list(symbols), pyarrow.string())
            writer.write_batch(pyarrow.record_batch([names, column], schema=schema))


def _pyarrow(action: str) -> Any:  # noqa: ANN401 - a module without types
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(f"{action} Parquet", "parquet") from None
    return pyarrow


def _columns(path: Path, schema: Any, options: ReadOptions) -> tuple[str | None, str]:  # noqa: ANN401 - an Arrow schema
    """The names of the two columns: as asked for, or the first that fit."""
    types = _pyarrow("reading").types
    lists = [field.name for field in schema if _is_vector(field.type)]
    texts = [field.name for field in schema if types.is_string(field.type) or types.is_large_string(field.type)]
    found = ", ".join(f"{field.name} ({field.type})" for field in schema)
    vector = options.vector_column or next(iter(lists), None)
    if vector is None or vector not in lists:
        asked = "a column of lists of floats" if vector is None else f"{vector!r} to be a column of lists of floats"
        raise FormatError(f"{path}: expected {asked}; the columns are {found}")
    symbol = options.symbol_column or next(iter(texts), None)
    integers = [field.name for field in schema if types.is_integer(field.type)]
    if symbol is not None and symbol not in texts + integers:
        raise FormatError(f"{path}: expected {symbol!r} to be a column of text or integers; the columns are {found}")
    return symbol, vector


def _is_vector(kind: Any) -> bool:  # noqa: ANN401 - an Arrow type
    types = _pyarrow("reading").types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and types.is_floating(kind.value_type))


def _batches(file: Any, columns: list[str | None], limit: int | None) -> Iterator[Any]:  # noqa: ANN401
    left = limit
    names = [name for name in columns if name is not None]
    for batch in file.iter_batches(batch_size=CHUNK_ROWS, columns=names):
        if left is not None and batch.num_rows >= left:
            yield batch.slice(0, left)
            return
        left = None if left is None else left - batch.num_rows
        if batch.num_rows:
            yield batch


def _vectors(path: Path, column: Any, done: int, dim: int) -> tuple[FloatArray, int]:  # noqa: ANN401 - an Arrow array
    """The (n, d) values of a batch, and d; `dim` is that of the batches before, 0 for the first."""
    lengths = _pyarrow("reading").compute.list_value_length(column).to_numpy(zero_copy_only=False)
    if column.null_count:
        row = done + int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        raise FormatError(f"{path}: row {row}: expected a vector, found null")
    dim = dim or int(lengths[0])
    if (lengths != dim).any():
        row = int((lengths != dim).argmax())
        raise FormatError(f"{path}: row {done + row}: expected {dim} numbers as in row 0, found {lengths[row]}")
    if not dim:
        raise FormatError(f"{path}: row 0: expected a vector, found an empty list")
    flat = column.flatten()
    if flat.null_count:
        row = int(flat.is_null().to_numpy(zero_copy_only=False).argmax()) // dim
        raise FormatError(f"{path}: row {done + row}: expected {dim} numbers, found a null among them")
    with np.errstate(over="ignore"):  # what overflows float32 becomes inf and is refused with the table
        values = flat.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return values.reshape(-1, dim), dim


def _add_symbols(path: Path, column: Any, done: int, places: dict[str, int]) -> None:  # noqa: ANN401 - an Arrow array
    pyarrow = _pyarrow("reading")
    # Arrow does not check text that it reads: taken as bytes, it is decoded here and refused by row.
    is_text = not pyarrow.types.is_integer(column.type)
    for row, value in enumerate((column.cast(pyarrow.large_binary()) if is_text else column).to_pylist(), done):
        if value is None:
            raise FormatError(f"{path}: row {row}: expected a symbol, found null")
        if is_text and (undecodable := utf8_fault(value)):
            raise FormatError(f"{path}: row {row}: {undecodable}")
        symbol = value.decode("utf-8") if is_text else str(value)
        if symbol in places:
            raise FormatError(
                f"{path}: row {row}: the symbol {symbol!r} stands in row {places[symbol]} already; "
                "symbols must be distinct"
            )
        places[symbol] = row
