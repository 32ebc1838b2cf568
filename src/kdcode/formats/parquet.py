"""Parquet: a column of symbols and a column of vectors, or a column per number, read batch by batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kdcode.errors import FormatError
from kdcode.files import replacing
from kdcode.formats import writing
from kdcode.formats.file_rows import FileRows
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.parquet_batches import ParquetBatches, naming_damage
from kdcode.formats.parquet_columns import pyarrow_for
from kdcode.rows import Rows
from kdcode.table import VectorTable

SYMBOL_COLUMN, VECTOR_COLUMN = "symbol", "vector"
"""What the columns of a file that we write are called."""


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table in a Parquet file; without a column of symbols its rows are unnamed. Rows are numbered from 0."""
    limit = options.memory_limit(path)
    rows = FileRows(path, "row", limit)
    dim = 0
    with path.open("rb") as stream, naming_damage(str(path)):  # Arrow itself opens no file whose name is not UTF-8
        file = ParquetBatches(stream, str(path), options, limit)
        for batch in file.batches(0, options.limit):
            dim = batch.values.shape[1]
            rows.add_vectors(batch.values)
            for row, symbol in enumerate(batch.symbols or (), batch.first):
                rows.add(row, symbol)
    if not dim:
        raise FormatError(f"{path}: the file is empty, expected at least one row")
    return rows.table(dim) if file.has_symbols else VectorTable(None, rows.matrix(dim))


def write(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a Parquet file with the columns `symbol` (string) and `vector` (list of d float32)."""
    pyarrow = pyarrow_for("writing")
    dim = rows.embedding_dim
    schema = pyarrow.schema(
        [
            pyarrow.field(SYMBOL_COLUMN, pyarrow.string(), nullable=False),
            pyarrow.field(VECTOR_COLUMN, pyarrow.list_(pyarrow.float32(), dim), nullable=False),
        ]
    )
    with (
        replacing(path) as temporary,
        temporary.open("wb") as stream,  # Arrow itself opens no file whose name is not UTF-8
        pyarrow.parquet.ParquetWriter(stream, schema) as writer,
    ):
        for symbols, vectors in writing.checked_chunks(rows, path, lambda symbol: None, on_progress):
            flat = pyarrow.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
            column = pyarrow.FixedSizeListArray.from_arrays(flat, dim)
            names = pyarrow.array(list(symbols), pyarrow.string())
            writer.write_batch(pyarrow.record_batch([names, column], schema=schema))
