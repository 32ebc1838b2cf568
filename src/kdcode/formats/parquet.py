"""Parquet: a column of symbols and a column of vectors, or a column per number, read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kdcode.arrays import CHUNK_ROWS, FloatArray
from kdcode.errors import FormatError, KdcodeError, MissingExtraError
from kdcode.files import replacing
from kdcode.formats import writing
from kdcode.formats.file_rows import FileRows
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.parquet_footer import values_in_row_groups
from kdcode.limits import MemoryLimit
from kdcode.rows import Rows
from kdcode.table import VectorTable

SYMBOL_COLUMN, VECTOR_COLUMN = "symbol", "vector"
"""What the columns of a file that we write are called."""

_LISTED = 20
_SHOWN = 80
_BATCH_VALUES = 1 << 21

Arrow: TypeAlias = Any
"""The modules and objects of pyarrow, which has no types."""


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table in a Parquet file; without a column of symbols its rows are unnamed. Rows are numbered from 0."""
    pyarrow = _pyarrow("reading")
    limit = options.memory_limit(path)
    rows = FileRows(path, "row", limit)
    dim = 0
    try:
        with path.open("rb") as stream:  # Arrow itself opens no file whose name is not UTF-8
            columns = _columns(path, pyarrow.parquet.read_schema(stream), options)
        # Arrow would write out every repetition of a symbol; kept as a dictionary, it stands in memory once.
        texts = columns.text_names()
        with path.open("rb") as stream, pyarrow.parquet.ParquetFile(stream, read_dictionary=texts) as file:
            for first, batch in _batches(path, file, columns, options):
                vectors = [batch.column(place) for place in columns.places(columns.vectors)]
                if _is_vector(vectors[0].type):
                    values = _vectors(rows, vectors[0], first, dim)
                else:
                    values = _side_by_side(rows, vectors, [columns.name(place) for place in columns.vectors], first)
                dim = values.shape[1]
                rows.add_vectors(values)
                for place in columns.places(columns.symbols):
                    _add_symbols(rows, batch.column(place), first, limit)
    except KdcodeError:
        raise
    except Exception as error:  # damage ends in Arrow's own exceptions and in several of Python's
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise FormatError(f"{path}: not a usable Parquet file: {reason[:200]!r}") from None
    if not dim:
        raise FormatError(f"{path}: the file is empty, expected at least one row")
    return rows.table(dim) if columns.symbols else VectorTable(None, rows.matrix(dim))


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


def _pyarrow(action: str) -> Arrow:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(f"{action} Parquet", "parquet") from None
    return pyarrow


@dataclass(frozen=True)
class _Columns:
    """Which columns are read, by their places in the file: names may be empty, or those of several columns.

    Args:
        schema: all columns.
        symbols: the one of the symbols, or none.
        vectors: the one of the vectors, or those of their numbers.
    """

    schema: Arrow
    symbols: list[int]
    vectors: list[int]

    def name(self, place: int) -> str:
        return str(self.schema.field(place).name)

    def text_names(self) -> list[str]:
        """The column of symbols, if it is text."""
        return [self.name(place) for place in self.symbols if _is_text(self.schema.field(place).type)]

    def given(self) -> list[int]:
        """The columns that are asked for, in their order; all of them where a name is that of several columns."""
        wanted = sorted(self.symbols + self.vectors)
        names = {self.name(place) for place in wanted}
        is_clear = sum(name in names for name in self.schema.names) == len(names) == len(wanted)
        return wanted if is_clear else list(range(len(self.schema)))

    def places(self, columns: list[int]) -> list[int]:
        """Where some of the columns stand among those that are asked for."""
        given = {place: number for number, place in enumerate(self.given())}
        return [given[place] for place in columns]


def _columns(path: Path, schema: Arrow, options: ReadOptions) -> _Columns:
    """The column of symbols, and that of the vectors; or those of their numbers, a column for each."""
    types = _pyarrow("reading").types
    kinds = [field.type for field in schema]
    lists = [place for place, kind in enumerate(kinds) if _is_vector(kind)]
    texts = [place for place, kind in enumerate(kinds) if _is_text(_value_type(kind))]
    integers = [place for place, kind in enumerate(kinds) if types.is_integer(_value_type(kind))]
    floats = [place for place, kind in enumerate(kinds) if types.is_floating(kind)]
    found = ", ".join(f"{field.name} ({field.type})"[:_SHOWN] for field in list(schema)[:_LISTED])
    found += f" and {len(schema) - _LISTED} more" if len(schema) > _LISTED else ""

    def named(asked: str | None, among: list[int], what: str) -> int | None:
        if asked is None:
            return next(iter(among), None)
        places = [place for place in range(len(schema)) if schema.field(place).name == asked]
        if len(places) != 1 or places[0] not in among:
            several = f"{len(places)} columns are called so" if len(places) > 1 else f"the columns are {found}"
            raise FormatError(f"{path}: expected {asked!r} to be a column of {what}; {several}")
        return places[0]

    # Text before bytes: bytes are symbols only where there is no text.
    plain = [place for place in texts if not _is_bytes(_value_type(kinds[place]))]
    symbol = named(
        options.symbol_column,
        (plain or texts) if options.symbol_column is None else texts + integers,
        "text or integers",
    )
    vector = named(options.vector_column, lists, "lists of floats")
    symbols = [] if symbol is None else [symbol]
    if vector is not None:
        return _Columns(schema, symbols, [vector])
    if not floats:
        raise FormatError(
            f"{path}: expected a column of lists of floats, or a column of floats per number; the columns are {found}"
        )
    beside = [place for place in integers if place != symbol]
    if beside:
        raise FormatError(
            f"{path}: the column {schema.field(beside[0]).name!r} holds integers beside {len(floats)} columns of "
            "floats: is it the symbols, then name it with symbol_column=, or else drop it; "
            f"the columns are {found}"
        )
    return _Columns(schema, symbols, floats)


def _value_type(kind: Arrow) -> Arrow:
    """The type of a column's values: that of a dictionary's, where it is one."""
    return kind.value_type if _pyarrow("reading").types.is_dictionary(kind) else kind


def _is_text(kind: Arrow) -> bool:
    types = _pyarrow("reading").types
    return bool(types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view" or _is_bytes(kind))


def _is_bytes(kind: Arrow) -> bool:
    types = _pyarrow("reading").types
    of_any_length = types.is_binary(kind) or types.is_large_binary(kind) or str(kind) == "binary_view"
    return bool(of_any_length or types.is_fixed_size_binary(kind))


def _is_vector(kind: Arrow) -> bool:
    types = _pyarrow("reading").types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and types.is_floating(kind.value_type))


def _batches(path: Path, file: Arrow, columns: _Columns, options: ReadOptions) -> Iterator[tuple[int, Arrow]]:
    """The rows in batches that are not empty, at most `limit` in all, with the number of each one's first row."""
    done, limit, memory = 0, options.limit, options.memory_limit(path)
    expected = [columns.name(place) for place in columns.given()]
    asked = None if len(expected) == len(columns.schema) else expected
    has_lists = _is_vector(columns.schema.field(columns.vectors[0]).type)
    values = values_in_row_groups(path) if has_lists else []
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        most = values[number] if has_lists else group.num_rows
        memory.check(f"row group {number}", max(group.total_byte_size, 8 * most))
        rows = int(_BATCH_VALUES * max(1, group.num_rows) // max(1, most) // len(columns.vectors))
        rows = max(1, min(CHUNK_ROWS, rows, limit or CHUNK_ROWS))
        # Threads read several columns at once; for one column they only make Arrow keep more memory.
        for batch in file.iter_batches(rows, row_groups=[number], columns=asked, use_threads=not has_lists):
            if batch.schema.names != expected:
                raise ValueError("names of columns and of fields in columns are the same")
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
    with np.errstate(over="ignore", invalid="ignore"):  # what is inf or NaN as float32 is refused with the table
        values: FloatArray = flat.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    return values.reshape(-1, dim)


def _side_by_side(rows: FileRows, columns: list[Arrow], names: list[str], first: int) -> FloatArray:
    """The (n, d) values of a batch with a column per number, whose first row is `first`."""
    for column, name in zip(columns, names, strict=True):
        if column.null_count:
            raise rows.refusal(first + _first_null(column), f"expected a number in the column {name!r}, found null")
    with np.errstate(over="ignore", invalid="ignore"):  # what is inf or NaN as float32 is refused with the table
        return np.column_stack([column.to_numpy(zero_copy_only=False).astype(np.float32) for column in columns])


def _first_null(column: Arrow) -> int:
    return int(column.is_null().to_numpy(zero_copy_only=False).argmax())


def _add_symbols(rows: FileRows, column: Arrow, first: int, limit: MemoryLimit) -> None:
    pyarrow = _pyarrow("reading")
    if pyarrow.types.is_dictionary(column.type):
        if _is_text(column.type.value_type):
            sizes = pyarrow.compute.binary_length(column.dictionary).take(column.indices)
            limit.check(f"{len(column)} symbols", pyarrow.compute.sum(sizes).as_py() or 0)
        column = column.dictionary_decode()
    if pyarrow.types.is_integer(column.type):
        column = column.cast(pyarrow.string())
    # Arrow does not check text that it reads: taken as bytes, it is decoded with the row and refused by row.
    for row, symbol in enumerate(column.cast(pyarrow.large_binary()).to_pylist(), first):
        if symbol is None:
            raise rows.refusal(row, "expected a symbol, found null")
        rows.add(row, symbol)
