"""Parquet: a column of symbols and a column of vectors, or a column per number, read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kdcode.arrays import CHUNK_ROWS, FloatArray
from kdcode.errors import FormatError, MissingExtraError
from kdcode.files import replacing
from kdcode.formats import writing
from kdcode.formats.file_rows import FileRows
from kdcode.formats.format import Progress, ReadOptions
from kdcode.rows import Rows
from kdcode.table import VectorTable

SYMBOL_COLUMN, VECTOR_COLUMN = "symbol", "vector"
"""What the columns of a file that we write are called."""

_LISTED = 20

Arrow: TypeAlias = Any
"""The modules and objects of pyarrow, which has no types."""


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table in a Parquet file; without a column of symbols its rows are unnamed. Rows are numbered from 0."""
    pyarrow = _pyarrow("reading")
    rows = FileRows(path, "row")
    dim = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            symbol_column, vector_columns = _columns(path, file.schema_arrow, options)
            names = vector_columns if symbol_column is None else [symbol_column, *vector_columns]
            for first, batch in _batches(file, names, options.limit):
                columns = [batch.column(name) for name in vector_columns]
                if _is_vector(columns[0].type):
                    vectors = _vectors(rows, columns[0], first, dim)
                else:
                    vectors = _side_by_side(rows, columns, vector_columns, first)
                dim = vectors.shape[1]
                rows.add_vectors(vectors)
                if symbol_column is not None:
                    _add_symbols(rows, batch.column(symbol_column), first)
    except (pyarrow.lib.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: not a usable Parquet file: {error}") from None
    if not dim:
        raise FormatError(f"{path}: the file is empty, expected at least one row")
    return rows.table(dim) if symbol_column is not None else VectorTable(None, rows.matrix(dim))


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


def _pyarrow(action: str) -> Arrow:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(f"{action} Parquet", "parquet") from None
    return pyarrow


def _columns(path: Path, schema: Arrow, options: ReadOptions) -> tuple[str | None, list[str]]:
    """The name of the column of symbols, and that of the vectors; or those of their numbers, a column for each."""
    types = _pyarrow("reading").types
    lists = [field.name for field in schema if _is_vector(field.type)]
    texts = [field.name for field in schema if types.is_string(field.type) or types.is_large_string(field.type)]
    integers = [field.name for field in schema if types.is_integer(field.type)]
    floats = [field.name for field in schema if types.is_floating(field.type)]
    found = ", ".join(f"{field.name} ({field.type})" for field in list(schema)[:_LISTED])
    found += f" and {len(schema) - _LISTED} more" if len(schema) > _LISTED else ""
    symbol = options.symbol_column or next(iter(texts), None)
    if symbol is not None and symbol not in texts + integers:
        raise FormatError(f"{path}: expected {symbol!r} to be a column of text or integers; the columns are {found}")
    vector = options.vector_column or next(iter(lists), None)
    if vector is None and floats:
        beside = [name for name in integers if name != symbol]
        if beside:
            raise FormatError(
                f"{path}: the column {beside[0]!r} holds integers beside {len(floats)} columns of floats: is it the "
                f"symbols, then name it with symbol_column=, or else drop it; the columns are {found}"
            )
        return symbol, floats
    if vector is None or vector not in lists:
        asked = "a column" if vector is None else f"{vector!r} to be a column"
        also = ", or a column of floats per number" if vector is None else ""
        raise FormatError(f"{path}: expected {asked} of lists of floats{also}; the columns are {found}")
    return symbol, [vector]


def _is_vector(kind: Arrow) -> bool:
    types = _pyarrow("reading").types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and types.is_floating(kind.value_type))


def _batches(file: Arrow, columns: list[str], limit: int | None) -> Iterator[tuple[int, Arrow]]:
    """The rows in batches that are not empty, at most `limit` in all, with the number of each one's first row."""
    done = 0
    for batch in file.iter_batches(batch_size=CHUNK_ROWS, columns=columns):
        kept = batch.slice(0, limit and limit - done)
        if kept.num_rows:
            yield done, kept
        done += kept.num_rows
        if done == limit:
            return


def _vectors(rows: FileRows, column: Arrow, first: int, dim: int) -> FloatArray:
    """The (n, d) values of a batch whose first row is `first`; `dim` is that of the batches before, 0 for the first."""
    lengths = _pyarrow("reading").compute.list_value_length(column).to_numpy(zero_copy_only=False)
    if column.null_count:
        raise rows.refusal(first + _first_null(column), "expected a vector, found null")
    dim = dim or int(lengths[0])
    if (lengths != dim).any():
        row = int((lengths != dim).argmax())
        raise rows.refusal(first + row, f"expected {dim} numbers as in row 0, found {lengths[row]}")
    if not dim:
        raise rows.refusal(0, "expected a vector, found an empty list")
    flat = column.flatten()
    if flat.null_count:
        raise rows.refusal(first + _first_null(flat) // dim, f"expected {dim} numbers, found a null among them")
    with np.errstate(over="ignore"):  # what overflows float32 becomes inf and is refused with the table
        values: FloatArray = flat.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return values.reshape(-1, dim)


def _side_by_side(rows: FileRows, columns: list[Arrow], names: list[str], first: int) -> FloatArray:
    """The (n, d) values of a batch with a column per number, whose first row is `first`."""
    for column, name in zip(columns, names, strict=True):
        if column.null_count:
            raise rows.refusal(first + _first_null(column), f"expected a number in the column {name!r}, found null")
    with np.errstate(over="ignore"):  # what overflows float32 becomes inf and is refused with the table
        return np.column_stack([column.to_numpy(zero_copy_only=False).astype(np.float32) for column in columns])


def _first_null(column: Arrow) -> int:
    return int(column.is_null().to_numpy(zero_copy_only=False).argmax())


def _add_symbols(rows: FileRows, column: Arrow, first: int) -> None:
    pyarrow = _pyarrow("reading")
    if pyarrow.types.is_integer(column.type):
        column = column.cast(pyarrow.string())
    # Arrow does not check text that it reads: taken as bytes, it is decoded with the row and refused by row.
    for row, symbol in enumerate(column.cast(pyarrow.large_binary()).to_pylist(), first):
        if symbol is None:
            raise rows.refusal(row, "expected a symbol, found null")
        rows.add(row, symbol)
