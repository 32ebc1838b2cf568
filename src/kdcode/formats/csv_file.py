"""CSV and TSV: a row per record, a symbol and one number per column, with a header or without.

Records are split by Python's csv module. The numbers of many records are then joined and read by numpy in one go; only
when that does not come out exactly right are they read one by one, to say which line is wrong and how.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from kdcode.errors import FormatError
from kdcode.formats import writing
from kdcode.formats.blocks import line_blocks
from kdcode.formats.csv_columns import DELIMITERS, Columns
from kdcode.formats.file_rows import FileRows, shown
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.numbers import number_fault, parsed
from kdcode.formats.text import trailing_numbers
from kdcode.rows import Rows
from kdcode.table import VectorTable

_BATCH_FIELDS = 1 << 15
_SAMPLE_ROWS = 100
_SAMPLE_FIELDS = 1 << 18
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # how Excel begins UTF-8 files

Record = tuple[int, list[str]]
"""The line that a record begins in, and its fields."""


def read(path: Path, options: ReadOptions, on_progress: Progress | None, *, delimiter: str) -> VectorTable:
    """The table of a CSV or TSV file.

    Args:
        path: the file.
        options: how it is read.
        on_progress: called after each block.
        delimiter: what separates fields, unless the first lines have more fields with another.
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
    rows = CsvRows(path, options, columns)
    rows.add_records(chain(sample[1:] if columns.names else sample, records), options.limit)
    table = rows.table(columns.dim)
    return table if columns.symbol is not None else VectorTable(None, table.matrix)


def write(rows: Rows, path: Path, on_progress: Progress | None, *, delimiter: str) -> None:
    """Write a CSV or TSV file with a header. Numbers have the fewest digits that give back the same float32."""
    special = re.compile(f'["\r\n{re.escape(delimiter)}]')
    with writing.fresh_file(path) as stream:
        stream.write(
            (delimiter.join(["symbol", *(f"v{place}" for place in range(rows.embedding_dim))]) + "\n").encode()
        )
        for symbols, vectors in writing.checked_chunks(rows, path, _symbol_fault, on_progress):
            names = ['"' + name.replace('"', '""') + '"' if special.search(name) else name for name in symbols]
            numbers = vectors.astype("U32").tolist()
            lines = (f"{name}{delimiter}{delimiter.join(row)}\n" for name, row in zip(names, numbers, strict=True))
            stream.write("".join(lines).encode("utf-8"))


class CsvRows(FileRows):
    """Rows gathered from records.

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
        """Add all records if every one of them is right; otherwise none, and False."""
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
        values = parsed(joined, len(batch) * columns.dim, ",")
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
        for place, cell in enumerate(cells):
            if fault := number_fault(cell):
                self.reject(number, f"{columns.number_name(place)} of {shown(symbol)} is {shown(cell)}, {fault}")
                return
        self.add(number, symbol, np.array([float(cell) for cell in cells], dtype=np.float32))


def _sample(records: Iterator[Record]) -> list[Record]:
    """The first records that are taken: a hundred, or fewer where they are very long."""
    sample: list[Record] = []
    fields = 0
    while len(sample) < _SAMPLE_ROWS and fields < _SAMPLE_FIELDS and (record := next(records, None)):
        sample.append(record)
        fields += len(record[1])
    return sample


def _records(path: Path, lines: Iterable[bytes], delimiter: str) -> Iterator[Record]:
    """Every record that is not blank."""
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
    """The one that the most numbers at the end of a line have before them, or that gives the first line most fields.

    The usual one is taken where several are as good.
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
    """A field as it stands in the file."""
    return field.encode("utf-8", "surrogateescape")


def _symbol_fault(symbol: str) -> str | None:
    return None if symbol else "is empty, and this format has no place for that"
