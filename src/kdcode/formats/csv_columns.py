"""Which columns of a CSV file hold symbols and numbers, and whether its first line is a header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kdcode.errors import FormatError
from kdcode.formats.format import ReadOptions
from kdcode.formats.numbers import is_number

DELIMITERS = (",", "\t", ";", "|")

_SYMBOL_NAMES = ("", "id", "index", "item", "key", "label", "name", "symbol", "term", "text", "token", "word")
"""How headers call a column of symbols; pandas leaves its name empty."""

_NO_VALUES = ("", "na", "nan", "none", "null", "inf", "-inf")
"""What stands where a number is missing: a row with these is a bad row, not a header."""

_LISTED = 20


@dataclass(frozen=True)
class Columns:
    """The columns of a file.

    Args:
        names: the header, or an empty list where there is none.
        width: how many there are.
        symbol: the one of the symbols, or None where rows are unnamed.
        vector: the one of the vectors where each stands in one field, as in "[0.1, 0.2]"; None where all others do.
        dim: d.
    """

    names: list[str]
    width: int
    symbol: int | None
    vector: int | None
    dim: int

    @classmethod
    def of(cls, path: Path, sample: Sequence[list[str]], options: ReadOptions) -> Columns:
        """The columns of a file that begins with these records.

        Raises:
            FormatError: there is no such column as was asked for, or nothing that could be a vector.
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
        """A column in the words of an error."""
        return f"column {place + 1}" + (f" ({self.names[place]})" if self.names and self.names[place] else "")

    def number_name(self, place: int) -> str:
        """Where the number at a place of the vector stands, in the words of an error."""
        if self.vector is not None:
            return f"number {place + 1}"
        return self.name(place + (self.symbol is not None and place >= self.symbol))


def _is_header(fields: list[str]) -> bool:
    """Whether the first record names columns: no field is a number, or they count 0, 1, 2, … as those of pandas."""
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
    """The column that was asked for, by its name, or by its number from 1 where there is no header."""
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
    """The first column that can hold the symbols, or None where all columns seem to hold numbers."""
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
    """A name without the digits at its end: those of x0, x1, x2 are the same."""
    return re.sub(r"\d+$", "", name) if name else "?"


def _listed(cell: str) -> list[str]:
    """The numbers of a vector that stands in one field, as Python, JSON and numpy write lists."""
    inner = cell.strip(" []")
    return inner.split(",") if "," in inner else inner.split()
