"""Parquet: a column of symbols and a column of vectors, or a column per number, read batch by batch by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np

from kdcode.arrays import CHUNK_ROWS, FloatArray
from kdcode.errors import FormatError, KdcodeError, MissingExtraError
from kdcode.files import replacing
from kdcode.io.format import ReadOptions, checked_chunks
from kdcode.io.lines import RowCollector
from kdcode.io.places import Place
from kdcode.io.reader import Chunk, Progress, Reader
from kdcode.limits import MemoryLimit
from kdcode.rows import Rows
from kdcode.table import VectorTable

SYMBOL_COLUMN, VECTOR_COLUMN = "symbol", "vector"
"""The names of the columns of a file that we write."""

_BATCH_VALUES = 1 << 21
_BUFFER_BYTES = 1 << 20
"""How much of a column Arrow reads at a time; otherwise it reads all of a row group's column at once."""

_LISTED = 20
_SHOWN = 80

Arrow: TypeAlias = Any
"""The modules and objects of pyarrow, which has no types."""


def open_file(place: Place, options: ReadOptions, on_progress: Progress | None) -> Reader:
    """The rows of a Parquet file; without a column of symbols they are unnamed."""
    pyarrow_for("reading")
    return ParquetReader(place, options)


class ParquetReader(Reader):
    """The rows of a Parquet file, numbered from 0.

    Args:
        place: the file.
        options: which columns hold symbols and vectors.

    Raises:
        FormatError: it is damaged, empty, or has no such columns.
    """

    def __init__(self, place: Place, options: ReadOptions) -> None:
        self._place, self._options = place, options
        with self._opened() as file:
            rows = options.rows_of(len(file))
            first = next(file.batches(0, min(1, rows)), None)
            has_symbols = file.has_symbols
        if first is None:
            raise FormatError(f"{place.name}: the file is empty, expected at least one row")
        super().__init__([place], rows, first.values.shape[1], has_symbols=has_symbols)

    def table(self, on_progress: Progress | None = None) -> VectorTable:
        """All rows in memory. Memory grows with the rows that arrive, not with what the footer claims."""
        with self._opened() as file:
            rows = RowCollector(self.name, "row", file.limit)
            for batch in file.batches(0, len(self), self.embedding_dim):
                rows.add_values(batch.values)
                for row, symbol in enumerate(batch.symbols or (), batch.first):
                    rows.add(row, symbol)
                if on_progress:
                    on_progress(batch.first + len(batch.values), len(self))
        return (
            rows.table(self.embedding_dim) if self.has_symbols else VectorTable(None, rows.matrix(self.embedding_dim))
        )

    @contextmanager
    def _opened(self) -> Iterator[_Rows]:
        place, options = self._place, self._options
        limit = MemoryLimit(place.size(), options.max_expansion, place.name)
        with place.opened() as stream, _naming_damage(place.name):
            yield _Rows(stream, place.name, options, limit)

    def _read(self, start: int, stop: int, rows: int) -> Iterator[Chunk]:
        with self._opened() as file:
            names: list[str] = []
            pieces: list[FloatArray] = []
            held = 0
            for batch in file.batches(start, stop, self.embedding_dim):
                names += [self._decoded(symbol, row) for row, symbol in enumerate(batch.symbols or (), batch.first)]
                pieces.append(batch.values)
                held += len(batch.values)
                while held >= rows:
                    yield self._taken(names, pieces, rows)
                    held -= rows
            if held:
                yield self._taken(names, pieces, held)

    def _taken(self, names: list[str], pieces: list[FloatArray], rows: int) -> Chunk:
        """Remove the first `rows` of the rows that are held."""
        joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        pieces[:] = [joined[rows:]] if len(joined) > rows else []
        symbols, names[:rows] = names[:rows], []
        return symbols if self.has_symbols else None, joined[:rows]

    def _decoded(self, symbol: bytes, row: int) -> str:
        try:
            return symbol.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{self.name}: row {row}: the symbol is not UTF-8: {error.reason}") from None


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
        temporary.open("wb") as stream,  # Arrow itself cannot open a name that is not UTF-8
        pyarrow.parquet.ParquetWriter(stream, schema) as writer,
    ):
        for symbols, vectors in checked_chunks(rows, path, lambda symbol: None, on_progress):
            flat = pyarrow.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
            column = pyarrow.FixedSizeListArray.from_arrays(flat, dim)
            names = pyarrow.array(list(symbols), pyarrow.string())
            writer.write_batch(pyarrow.record_batch([names, column], schema=schema))


class _Batch(NamedTuple):
    """Some rows.

    Args:
        first: the number of the first.
        symbols: of each, not yet checked to be UTF-8 or distinct; None where there is no column of symbols.
        values: (n, d) vectors.
    """

    first: int
    symbols: list[bytes] | None
    values: FloatArray


class _Rows:
    """The rows of an open file, in bounded memory.

    Args:
        stream: the file, open for reading, with `seek`. Arrow itself cannot open a name that is not UTF-8.
        name: of the file, for messages.
        options: which columns are read.
        limit: how much memory the file may take.

    Raises:
        FormatError: it has no columns of vectors.
        Exception: whatever Arrow raises for a damaged file; see `_naming_damage`.
    """

    def __init__(self, stream: BinaryIO, name: str, options: ReadOptions, limit: MemoryLimit) -> None:
        pyarrow = pyarrow_for("reading")
        self.limit, self._name = limit, name
        schema = pyarrow.parquet.read_schema(stream)
        symbols, vectors = _chosen_columns(name, schema, options)
        self._has_lists = _is_vector(schema.field(vectors[0]).type)
        self._values = values_in_row_groups(stream) if self._has_lists else []
        # Arrow finds columns by their names, which may be empty or not distinct; then it is asked for all columns.
        wanted = sorted(symbols + vectors)
        names = {schema.names[place] for place in wanted}
        is_clear = sum(each in names for each in schema.names) == len(names) == len(wanted)
        given = wanted if is_clear else list(range(len(schema)))
        self._names = [schema.names[place] for place in given]
        self._asked = None if len(given) == len(schema) else self._names
        place_of = {place: number for number, place in enumerate(given)}
        self._symbol_places = [place_of[place] for place in symbols]
        self._vector_places = [place_of[place] for place in vectors]
        # Arrow would write out every repetition of a symbol; in a dictionary, it is in memory once.
        texts = [schema.names[place] for place in symbols if _is_text(schema.field(place).type)]
        stream.seek(0)
        self._file = pyarrow.parquet.ParquetFile(stream, read_dictionary=texts, buffer_size=_BUFFER_BYTES)
        groups = [self._file.metadata.row_group(number) for number in range(self._file.num_row_groups)]
        self._starts: list[int] = list(accumulate((group.num_rows for group in groups), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def has_symbols(self) -> bool:
        """Whether there is a column of symbols."""
        return bool(self._symbol_places)

    def batches(self, start: int, stop: int, dim: int = 0) -> Iterator[_Batch]:
        """The rows from `start` up to `stop`.

        Args:
            start: the first row.
            stop: the row after the last.
            dim: how many numbers a vector must have; 0 where the first one decides.

        Raises:
            FormatError: a row is not one of a table; the message has its number.
            LimitError: a row group would take too much memory.
        """
        for first, arrow in self._arrow_batches(start, stop):
            vectors = [arrow.column(place) for place in self._vector_places]
            values = self._lists(vectors[0], first, dim) if self._has_lists else self._side_by_side(vectors, first)
            dim = values.shape[1]
            symbols = [arrow.column(place) for place in self._symbol_places]
            yield _Batch(first, self._symbols(symbols[0], first) if symbols else None, values)

    def _arrow_batches(self, start: int, stop: int) -> Iterator[tuple[int, Arrow]]:
        """The batches of Arrow that are not empty, each with the number of its first row."""
        for number, first in enumerate(self._starts[:-1]):
            group, reached = self._file.metadata.row_group(number), first
            if first + group.num_rows <= start or first >= stop:
                continue
            most = self._values[number] if self._has_lists else group.num_rows
            self.limit.check(f"row group {number}", max(group.total_byte_size, 8 * most))
            rows = int(_BATCH_VALUES * max(1, group.num_rows) // max(1, most) // len(self._vector_places))
            rows = max(1, min(CHUNK_ROWS, rows, stop - start))
            # Threads read several columns at once; for one column they only make Arrow keep more memory.
            threads = not self._has_lists
            for batch in self._file.iter_batches(rows, row_groups=[number], columns=self._asked, use_threads=threads):
                if batch.schema.names != self._names:
                    raise ValueError("a column and a field inside a column have the same name")
                skipped = max(0, start - reached)
                kept = batch.slice(min(skipped, batch.num_rows), max(0, stop - reached - skipped))
                if kept.num_rows:
                    yield reached + skipped, kept
                reached += batch.num_rows
                if reached >= stop:
                    break

    def _lists(self, column: Arrow, first: int, dim: int) -> FloatArray:
        """The (n, d) values of a column of lists whose first row is `first`."""
        lengths = pyarrow_for("reading").compute.list_value_length(column).to_numpy(zero_copy_only=False)
        if column.null_count:
            raise self._refusal(first + _first_null(column), "expected a vector, found null")
        dim = dim or int(lengths[0])
        if (lengths != dim).any():
            row = int((lengths != dim).argmax())
            raise self._refusal(first + row, f"expected {dim} numbers as in row 0, found {lengths[row]}")
        if not dim:
            raise self._refusal(first, "expected a vector, found an empty list")
        flat = column.flatten()
        if flat.null_count:
            raise self._refusal(first + _first_null(flat) // dim, f"expected {dim} numbers, found a null among them")
        with np.errstate(over="ignore", invalid="ignore"):  # numbers that become inf or NaN are refused later
            values: FloatArray = flat.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
        return values.reshape(-1, dim)

    def _side_by_side(self, columns: list[Arrow], first: int) -> FloatArray:
        """The (n, d) values of a column per number, whose first row is `first`."""
        for column, place in zip(columns, self._vector_places, strict=True):
            if column.null_count:
                reason = f"expected a number in the column {self._names[place]!r}, found null"
                raise self._refusal(first + _first_null(column), reason)
        with np.errstate(over="ignore", invalid="ignore"):  # numbers that become inf or NaN are refused later
            return np.column_stack([column.to_numpy(zero_copy_only=False).astype(np.float32) for column in columns])

    def _symbols(self, column: Arrow, first: int) -> list[bytes]:
        pyarrow = pyarrow_for("reading")
        if pyarrow.types.is_dictionary(column.type):
            if _is_text(column.type.value_type):
                sizes = pyarrow.compute.binary_length(column.dictionary).take(column.indices)
                self.limit.check(f"{len(column)} symbols", pyarrow.compute.sum(sizes).as_py() or 0)
            column = column.dictionary_decode()
        if pyarrow.types.is_integer(column.type):
            column = column.cast(pyarrow.string())
        if column.null_count:
            raise self._refusal(first + _first_null(column), "expected a symbol, found null")
        # Arrow does not check text that it reads: taken as bytes, it is decoded with the row and refused by row.
        found: list[bytes] = column.cast(pyarrow.large_binary()).to_pylist()
        return found

    def _refusal(self, row: int, reason: str) -> FormatError:
        return FormatError(f"{self._name}: row {row}: {reason}")


@contextmanager
def _naming_damage(name: str) -> Iterator[None]:
    """Turn any error of Arrow about a damaged file into a FormatError that begins with the `name` of the file."""
    try:
        yield
    except KdcodeError:
        raise
    except Exception as error:  # damage ends in Arrow's own exceptions and in several of Python's
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise FormatError(f"{name}: not a usable Parquet file: {reason[:200]!r}") from None


def _first_null(column: Arrow) -> int:
    return int(column.is_null().to_numpy(zero_copy_only=False).argmax())


def values_in_row_groups(stream: BinaryIO) -> list[int]:
    """The most values that a column of each row group claims to hold, from the footer of an open file.

    A few bytes can hold any number of equal values, so memory is limited by this. pyarrow has the same number in
    `column(place).num_values`, but some damaged footers make it end the process there. The footer is a struct in
    Thrift's compact protocol; the numbers of its fields are in the Parquet specification.

    Raises:
        ValueError, IndexError, KeyError, TypeError, RecursionError: the footer is damaged.
    """
    stream.seek(-8, os.SEEK_END)
    length = int.from_bytes(stream.read(4), "little")
    stream.seek(-8 - length, os.SEEK_END)
    footer = _Thrift(stream.read(length)).struct()
    return [max((column[3][5] for column in group[1]), default=0) for group in footer[4]]


class _Thrift:
    """A value in Thrift's compact protocol, as dicts of fields by number, lists, and integers; others are None."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def struct(self) -> dict[int, Any]:
        """The fields of a struct."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = None if head & 15 in (1, 2) else self._value(head & 15)
        return fields

    def _value(self, kind: int) -> Any:  # noqa: ANN401 - of any type
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (9, 10):  # list, set
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            if count > len(self._data) - self._place:  # each value takes a byte or more
                raise ValueError("the footer is damaged")
            return [self._value(head & 15) for _ in range(count)]
        if kind == 12:
            return self.struct()
        if kind == 8:  # bytes
            length = self._varint()
            self._place += length
        elif kind in (1, 2, 3, 7):  # booleans in a list, byte, double
            self._place += 8 if kind == 7 else 1
        else:
            raise ValueError("the footer is damaged")
        return None

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 70:
                raise ValueError("the footer is damaged")
        return value | byte << shift


def _chosen_columns(name: str, schema: Arrow, options: ReadOptions) -> tuple[list[int], list[int]]:
    """The places of the column of symbols, if there is one, and of the columns of vectors or of their numbers.

    Raises:
        FormatError: there are no such columns, or several to choose from; it begins with the `name` of the file.
    """
    types = pyarrow_for("reading").types
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
            several = f"{len(places)} columns have this name" if len(places) > 1 else f"the columns are {found}"
            raise FormatError(f"{name}: expected {asked!r} to be a column of {what}; {several}")
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
        return symbols, [vector]
    if not floats:
        raise FormatError(
            f"{name}: expected a column of lists of floats, or a column of floats per number; the columns are {found}"
        )
    beside = [place for place in integers if place != symbol]
    if beside:
        raise FormatError(
            f"{name}: the column {schema.field(beside[0]).name!r} holds integers beside {len(floats)} columns of "
            "floats: is it the symbols, then name it with symbol_column=, or else drop it; "
            f"the columns are {found}"
        )
    return symbols, floats


def _value_type(kind: Arrow) -> Arrow:
    """The type of a column's values, also where Arrow keeps them in a dictionary."""
    return kind.value_type if pyarrow_for("reading").types.is_dictionary(kind) else kind


def _is_text(kind: Arrow) -> bool:
    """Whether a column of this type holds text, or bytes that may be text."""
    types = pyarrow_for("reading").types
    return bool(types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view" or _is_bytes(kind))


def _is_bytes(kind: Arrow) -> bool:
    types = pyarrow_for("reading").types
    of_any_length = types.is_binary(kind) or types.is_large_binary(kind) or str(kind) == "binary_view"
    return bool(of_any_length or types.is_fixed_size_binary(kind))


def _is_vector(kind: Arrow) -> bool:
    """Whether a column of this type holds lists of floats."""
    types = pyarrow_for("reading").types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and types.is_floating(kind.value_type))


def pyarrow_for(action: str) -> Arrow:
    """The library pyarrow.

    Raises:
        MissingExtraError: it is not installed, and `action` needs it.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(f"{action} Parquet", "parquet") from None
    return pyarrow
