"""CSV and TSV: a record per row, with a symbol and one number per column, with a header or without.

Python's csv module splits records. numpy reads the joined numbers of many records; only records that do not come out
exactly right are read one by one, to say which line is wrong and how.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from kdcode.errors import FormatError
from kdcode.io.format import ReadOptions, checked_chunks, fresh_file
from kdcode.io.lines import RowCollector, is_number, line_blocks, parse_numbers
from kdcode.io.reader import Progress
from kdcode.io.text import trailing_numbers
from kdcode.rows import Rows
from kdcode.table import VectorTable

DELIMITERS = (",", "\t", ";", "|")

_SYMBOL_NAMES = ("", "id", "index", "item", "key", "label", "name", "symbol", "term", "text", "token", "word")
"""Usual names of a column of symbols; pandas leaves it empty."""

_NO_VALUES = ("", "na", "nan", "none", "null", "inf", "-inf")
"""Placeholders of missing numbers: a row with these is a bad row, not a header."""

_LISTED = 20

_BATCH_FIELDS = 1 << 15
_SAMPLE_ROWS = 100
_SAMPLE_FIELDS = 1 << 18
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # how Excel begins UTF-8 files

Record = tuple[int, list[str]]
"""The line in which a record begins, and its fields."""


def read(path: Path, options: ReadOptions, on_progress: Progress | None, *, delimiter: str) -> VectorTable:
    """The table of a CSV or TSV file.

    Args:
        path: the file.
        options: how it is read.
        on_progress: called after each block.
        delimiter: what separates fields, unless another one splits the first lines into more.
    """
    blocks = line_blocks(path, on_progress, options.memory_limit(path))
    lines = next(blocks, (1, []))[1]
    lines[:1] = [line.removeprefix(_BYTE_ORDER_MARK) for line in lines[:1]]
    found = _delimiter([line for line in lines[:_SAMPLE_ROWS] if line.strip()], delimiter)
    records = _records(path, chain(lines, (line for _, block in blocks for line in block)), found)
    sample = _sample(records)
    if not sample:
        raise FormatError(f"{path}: the file is empty, expected at least one row")
    columns = Columns.of(path, [fields for _, fields in sample], options)
    rows = _CsvRows(path, options, columns)
    rows.add_records(chain(sample[1:] if columns.names else sample, records), options.limit)
    table = rows.table(columns.dim)
    return table if columns.symbol is not None else VectorTable(None, table.matrix)


def write(rows: Rows, path: Path, on_progress: Progress | None, *, delimiter: str) -> None:
    """Write a CSV or TSV file with a header. Numbers have the fewest digits that give back the same float32."""
    special = re.compile(f'["\r\n{re.escape(delimiter)}]')
    with fresh_file(path) as stream:
        stream.write(
            (delimiter.join(["symbol", *(f"v{place}" for place in range(rows.embedding_dim))]) + "\n").encode()
        )
        for symbols, vectors in checked_chunks(rows, path, _symbol_fault, on_progress):
            names = ['"' + name.replace('"', '""') + '"' if special.search(name) else name for name in symbols]
            numbers = vectors.astype("U32").tolist()
            lines = (f"{name}{delimiter}{delimiter.join(row)}\n" for name, row in zip(names, numbers, strict=True))
            stream.write("".join(lines).encode("utf-8"))


class _CsvRows(RowCollector):
    """Collects rows from records.

    Args:
        path: the file, for messages.
        options: how it is read.
        columns: which fields are the symbol and the numbers.
    """

    def __init__(self, path: Path, options: ReadOptions, columns: Columns) -> None:
        super().__init__(path, "line", options.memory_limit(path), options.on_bad_line)
        self._columns = columns

    def add_records(self, records: Iterable[Record], limit: int | None) -> None:
        """Add records until there are `limit` rows; bad ones that are skipped do not count."""
        remaining, most = iter(records), max(1, _BATCH_FIELDS // self._columns.dim)
        while len(self) != limit:
            wanted = most if limit is None else min(most, limit - len(self))
            batch = list(islice(remaining, wanted))
            if not batch:
                return
            if not self._add_together(batch):
                for number, fields in batch:
                    self._add_one(number, fields)

    def _add_together(self, batch: list[Record]) -> bool:
        """Add all records if each is valid; otherwise add none and return False."""
        columns = self._columns
        if any(len(fields) != columns.width for _, fields in batch):
            return False
        cells = [columns.numbers(fields) for _, fields in batch]
        if any(len(row) != columns.dim for row in cells):
            return False
        if columns.symbol is None:
            symbols = [str(len(self) + row) for row in range(len(batch))]
        else:
            symbols = [fields[columns.symbol] for _, fields in batch]
        try:
            joined = ",".join(map(",".join, cells)).encode("ascii")
            "".join(symbols).encode("utf-8")  # bytes that are not UTF-8 came as surrogates
        except UnicodeEncodeError:
            return False
        values = parse_numbers(joined, len(batch) * columns.dim, ",")
        return values is not None and self.add_all([number for number, _ in batch], symbols, values)

    def _add_one(self, number: int, fields: list[str]) -> None:
        columns = self._columns
        if len(fields) != columns.width:
            self.reject(number, f"expected {columns.width} fields as in the first line, found {len(fields)}")
            return
        symbol = _raw(str(len(self)) if columns.symbol is None else fields[columns.symbol])
        if not symbol:
            self.reject(number, f"expected a symbol in {columns.name(columns.symbol or 0)}, found an empty field")
            return
        cells = [_raw(cell.strip(" ")) for cell in columns.numbers(fields)]
        if len(cells) != columns.dim:
            self.reject(number, f"expected {columns.dim} numbers in the list as in the first row, found {len(cells)}")
            return
        self.add_fields(number, symbol, cells, columns.number_name)


def _sample(records: Iterator[Record]) -> list[Record]:
    """The first records: a hundred, or fewer where they are very long."""
    sample: list[Record] = []
    fields = 0
    while len(sample) < _SAMPLE_ROWS and fields < _SAMPLE_FIELDS and (record := next(records, None)):
        sample.append(record)
        fields += len(record[1])
    return sample


def _records(path: Path, lines: Iterable[bytes], delimiter: str) -> Iterator[Record]:
    """All records that are not blank."""
    text = (line.decode("utf-8", "surrogateescape") + "\n" for line in lines)
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    number = 1
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise FormatError(
                f"{path}: line {number}: {error}; a symbol with a quote, a line break or the delimiter in it has to "
                'stand in quotes, each of its own quotes doubled: """'
            ) from None
        if fields is None:
            return
        if fields and fields != ["\r"]:
            yield number, fields
        number = reader.line_num + 1


def _delimiter(lines: list[bytes], usual: str) -> str:
    """The delimiter that splits off the most numbers at the end of a line, then the most fields of the first line.

    The usual one wins where others do as well.
    """

    def goodness(delimiter: str) -> tuple[int, int]:
        if not lines:
            return 0, 0
        numbers = max(trailing_numbers(line, delimiter.encode()) for line in lines)
        try:
            return numbers, len(next(csv.reader([lines[0].decode("utf-8", "replace")], delimiter=delimiter), []))
        except csv.Error:
            return numbers, 0

    return max([usual, *DELIMITERS], key=goodness)


def _raw(field: str) -> bytes:
    """The bytes of a field in the file."""
    return field.encode("utf-8", "surrogateescape")


def _symbol_fault(symbol: str) -> str | None:
    return None if symbol else "is empty, and this format has no place for that"


@dataclass(frozen=True)
class Columns:
    """The columns of a file.

    Args:
        names: the header, or an empty list where there is none.
        width: how many columns there are.
        symbol: the column of symbols, or None where rows are unnamed.
        vector: the column of vectors if each is one field, as in "[0.1, 0.2]"; None if each number has a column.
        dim: d.
    """

    names: list[str]
    width: int
    symbol: int | None
    vector: int | None
    dim: int

    @classmethod
    def of(cls, path: Path, sample: Sequence[list[str]], options: ReadOptions) -> Columns:
        """The columns of a file that begins with the records of `sample`.

        Raises:
            FormatError: a column that the user named does not exist, or no column can be a vector.
        """
        names = [name.strip() for name in sample[0]] if _is_header(sample[0]) else []
        rows = [fields for fields in sample[1 if names else 0 :] if len(fields) == len(sample[0])]
        if not rows:
            raise FormatError(f"{path}: expected at least one row after the header in line 1")
        asked = _named(path, names, options.vector_column, "vector_column=", rows[0])
        lists = [place for place, cell in enumerate(rows[0]) if cell.lstrip().startswith("[")]
        vector = asked if asked is not None else next(iter(lists), None)
        symbol = _named(path, names, options.symbol_column, "symbol_column=", rows[0])
        if symbol is None:
            symbol = _guessed(names, rows, vector)
        width = len(rows[0])
        dim = width - (symbol is not None) if vector is None else len(_listed(rows[0][vector]))
        if not dim or (vector is not None and symbol == vector):
            raise FormatError(
                f"{path}: line 1: expected a symbol and its numbers, separated by commas or tabs, "
                f"found {sample[0][0]!r:.60}"
            )
        return cls(names, width, symbol, vector, dim)

    def numbers(self, fields: list[str]) -> list[str]:
        """The fields that hold the numbers of a row."""
        if self.vector is not None:
            return _listed(fields[self.vector])
        return fields if self.symbol is None else fields[: self.symbol] + fields[self.symbol + 1 :]

    def name(self, place: int) -> str:
        """A column, for messages."""
        return f"column {place + 1}" + (f" ({self.names[place]})" if self.names and self.names[place] else "")

    def number_name(self, place: int) -> str:
        """The number at a place of the vector, for messages."""
        if self.vector is not None:
            return f"number {place + 1}"
        return self.name(place + (self.symbol is not None and place >= self.symbol))


def _is_header(fields: list[str]) -> bool:
    """Whether the first record names columns: no field is a number, or they are 0, 1, 2, … as pandas writes them."""
    first, *rest = (field.strip() for field in fields)
    counted = any(all(field == str(place) for place, field in enumerate(rest, start)) for start in (0, 1))
    if counted and (not first or len(rest) > 2 or fields == ["0", "1", "2"]):
        return True
    if rest and rest[0].startswith("["):
        return False
    return bool(rest) and not any(_is_value(field) for field in rest)


def _is_value(field: str) -> bool:
    return is_number(field.encode("utf-8", "replace")) or field.lower() in _NO_VALUES


def _named(path: Path, names: list[str], asked: str | None, keyword: str, row: list[str]) -> int | None:
    """The column that the user named, or numbered from 1 where there is no header; None if they did neither."""
    if asked is None:
        return None
    if asked in names:
        return names.index(asked)
    if not names and asked.isdigit() and 1 <= int(asked) <= len(row):
        return int(asked) - 1
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    found = f"the columns are {listed}" if names else f"there is no header: give a number from 1 to {len(row)}"
    raise FormatError(f"{path}: no column is called {asked!r}, as {keyword} asks; {found}")


def _guessed(names: list[str], rows: Sequence[list[str]], vector: int | None) -> int | None:
    """The first column that can hold symbols, or None if all columns seem to hold numbers."""
    if vector is not None:
        return next((place for place in range(len(rows[0])) if place != vector), None)
    if names and names[0].lower() in _SYMBOL_NAMES:
        return 0
    if len(names) > 1 and _stem(names[0]) == _stem(names[1]):
        return None
    first = [row[0].strip() for row in rows]
    all_numbers = all(is_number(field.encode("utf-8", "replace")) for field in first)
    return None if all_numbers and not all(field.isdigit() for field in first) else 0


def _stem(name: str) -> str:
    """A name without the digits at its end: x0, x1 and x2 have the same stem."""
    return re.sub(r"\d+$", "", name) if name else "?"


def _listed(cell: str) -> list[str]:
    """The numbers of a vector in one field, as Python, JSON and numpy write lists."""
    inner = cell.strip(" []")
    return inner.split(",") if "," in inner else inner.split()
