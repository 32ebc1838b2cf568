"""The rows of an open Parquet file, a batch at a time, from any row to any other, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import BinaryIO, NamedTuple

import numpy as np

from kdcode.arrays import CHUNK_ROWS, FloatArray
from kdcode.errors import FormatError, KdcodeError
from kdcode.formats.format import ReadOptions
from kdcode.formats.parquet_columns import Arrow, chosen_columns, is_text, is_vector, pyarrow_for
from kdcode.formats.parquet_footer import values_in_row_groups
from kdcode.limits import MemoryLimit

_BATCH_VALUES = 1 << 21
_BUFFER_BYTES = 1 << 20
"""Arrow would read all of a row group's column at once; so much of it is read at a time."""


class Batch(NamedTuple):
    """Some rows.

    Args:
        first: the number of the first.
        symbols: of each, not checked for being UTF-8 or distinct; None where there is no column of symbols.
        values: (n, d) vectors.
    """

    first: int
    symbols: list[bytes] | None
    values: FloatArray


class ParquetBatches:
    """Reads a Parquet file; close it by closing the stream.

    Args:
        stream: the file, open for reading, with `seek`.
        name: of the file, for messages.
        options: which columns are read.
        limit: what the file may take in memory.

    Raises:
        FormatError: it has no columns of vectors.
        Exception: whatever Arrow raises for a damaged file; see `naming_damage`.
    """

    def __init__(self, stream: BinaryIO, name: str, options: ReadOptions, limit: MemoryLimit) -> None:
        pyarrow = pyarrow_for("reading")
        self._name, self._limit = name, limit
        self._columns = columns = chosen_columns(name, pyarrow.parquet.read_schema(stream), options)
        self._has_lists = is_vector(columns.schema.field(columns.vectors[0]).type)
        self._values = values_in_row_groups(stream) if self._has_lists else []
        # Arrow would write out every repetition of a symbol; kept as a dictionary, it stands in memory once.
        texts = columns.text_names()
        stream.seek(0)
        self._file = pyarrow.parquet.ParquetFile(stream, read_dictionary=texts, buffer_size=_BUFFER_BYTES)
        groups = [self._file.metadata.row_group(number) for number in range(self._file.num_row_groups)]
        self._starts: list[int] = list(accumulate((group.num_rows for group in groups), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def has_symbols(self) -> bool:
        """Whether there is a column of symbols."""
        return bool(self._columns.symbols)

    def batches(self, start: int = 0, stop: int | None = None, dim: int = 0) -> Iterator[Batch]:
        """The rows from `start` to before `stop`, or to the end.

        Args:
            start: the first row.
            stop: the row after the last.
            dim: how many numbers a vector must have; 0 where the first one decides.

        Raises:
            FormatError: a row is not one of a table; the message has its number.
            LimitError: a row group would take too much memory.
        """
        stop = len(self) if stop is None else stop
        for first, arrow in self._arrow_batches(start, stop):
            vectors = [arrow.column(place) for place in self._columns.places(self._columns.vectors)]
            values = self._lists(vectors[0], first, dim) if self._has_lists else self._side_by_side(vectors, first)
            dim = values.shape[1]
            symbols = [arrow.column(place) for place in self._columns.places(self._columns.symbols)]
            yield Batch(first, self._symbols(symbols[0], first) if symbols else None, values)

    def _arrow_batches(self, start: int, stop: int) -> Iterator[tuple[int, Arrow]]:
        """The same as Arrow has it, in batches that are not empty, with the number of each one's first row."""
        columns = self._columns
        expected = [columns.name(place) for place in columns.given()]
        asked = None if len(expected) == len(columns.schema) else expected
        for number, first in enumerate(self._starts[:-1]):
            group, reached = self._file.metadata.row_group(number), first
            if first + group.num_rows <= start or first >= stop:
                continue
            most = self._values[number] if self._has_lists else group.num_rows
            self._limit.check(f"row group {number}", max(group.total_byte_size, 8 * most))
            rows = int(_BATCH_VALUES * max(1, group.num_rows) // max(1, most) // len(columns.vectors))
            rows = max(1, min(CHUNK_ROWS, rows, stop - start))
            # Threads read several columns at once; for one column they only make Arrow keep more memory.
            threads = not self._has_lists
            for batch in self._file.iter_batches(rows, row_groups=[number], columns=asked, use_threads=threads):
                if batch.schema.names != expected:
                    raise ValueError("names of columns and of fields in columns are the same")
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
        with np.errstate(over="ignore", invalid="ignore"):  # what is inf or NaN as float32 is refused with the table
            values: FloatArray = flat.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
        return values.reshape(-1, dim)

    def _side_by_side(self, columns: list[Arrow], first: int) -> FloatArray:
        """The (n, d) values of a column per number, whose first row is `first`."""
        for column, place in zip(columns, self._columns.vectors, strict=True):
            if column.null_count:
                reason = f"expected a number in the column {self._columns.name(place)!r}, found null"
                raise self._refusal(first + _first_null(column), reason)
        with np.errstate(over="ignore", invalid="ignore"):  # what is inf or NaN as float32 is refused with the table
            return np.column_stack([column.to_numpy(zero_copy_only=False).astype(np.float32) for column in columns])

    def _symbols(self, column: Arrow, first: int) -> list[bytes]:
        pyarrow = pyarrow_for("reading")
        if pyarrow.types.is_dictionary(column.type):
            if is_text(column.type.value_type):
                sizes = pyarrow.compute.binary_length(column.dictionary).take(column.indices)
                self._limit.check(f"{len(column)} symbols", pyarrow.compute.sum(sizes).as_py() or 0)
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
def naming_damage(name: str) -> Iterator[None]:
    """Turn what Arrow raises for a damaged file into a FormatError that begins with the `name` of the file."""
    try:
        yield
    except KdcodeError:
        raise
    except Exception as error:  # damage ends in Arrow's own exceptions and in several of Python's
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise FormatError(f"{name}: not a usable Parquet file: {reason[:200]!r}") from None


def _first_null(column: Arrow) -> int:
    return int(column.is_null().to_numpy(zero_copy_only=False).argmax())
