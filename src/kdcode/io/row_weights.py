"""Weights of rows from a text file: how often each symbol is used, for example."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kdcode.arrays import FloatArray
from kdcode.errors import FormatError
from kdcode.io.format import ReadOptions
from kdcode.io.lines import FLOAT32_END, RowCollector, is_number, line_blocks, shown
from kdcode.io.places import on_disk
from kdcode.table import VectorTable


def read_weights(path: str | Path, table: VectorTable) -> FloatArray:
    r"""The weights of the rows of a table, from a file.

    The file has either a line of a symbol and a number for each symbol, in any order, or a number alone in each line,
    row by row; the first line decides. Lines end at `\n`, and the last space or tab of a line separates the number
    from the symbol. Symbols that are not in the file weigh 0; symbols that are not in the table are ignored.

    Returns:
        (N,) float32 numbers of zero or more.

    Raises:
        FormatError: a line is neither, or the file does not fit the table; the message names the line.
    """
    return RowWeights.read(path).of_table(table.symbols)


class RowWeights(NamedTuple):
    """The numbers of a file of weights: by symbol, or, where it has no symbols, in the order of its lines."""

    file: Path
    numbers: list[float]
    by_symbol: dict[str, float] | None

    @classmethod
    def read(cls, path: str | PathLike[str]) -> RowWeights:
        """Read all of a file.

        Raises:
            FormatError: a line is neither a symbol and a number nor a number; the message names it.
        """
        with on_disk(Path(path)) as file:
            return _weights(file)

    def of_table(self, symbols: Sequence[str]) -> FloatArray:
        """(N,) weights of all rows of a table, by their symbols.

        Raises:
            FormatError: the file does not fit the table.
        """
        if self.by_symbol is not None and self.by_symbol.keys().isdisjoint(symbols):
            raise FormatError(f"{self.file}: none of its {len(self.by_symbol)} symbols is in the table")
        return self.of_rows(symbols, 0, len(symbols))

    def of_rows(self, symbols: Sequence[str], first: int, total: int) -> FloatArray:
        """(n,) weights of the rows of a table from `first` on, by their symbols or their numbers.

        Raises:
            FormatError: there are no symbols, and not one number for each of the table's `total` rows.
        """
        if self.by_symbol is not None:
            return np.array([self.by_symbol.get(symbol, 0.0) for symbol in symbols], dtype=np.float32)
        if len(self.numbers) != total:
            raise FormatError(f"{self.file}: expected one number for each of {total} rows, found {len(self.numbers)}")
        return np.array(self.numbers[first : first + len(symbols)], dtype=np.float32)


def _weights(file: Path) -> RowWeights:
    """The weights in a file on disk."""
    limit = ReadOptions().memory_limit(file)
    rows, named = RowCollector(file, "line", limit), False
    weights: list[float] = []
    lines = (numbered for first, block in line_blocks(file, None, limit) for numbered in enumerate(block, first))
    for number, raw in lines:
        line = raw.rstrip(b" \t\r")
        if not line:
            continue
        place = max(line.rfind(b" "), line.rfind(b"\t"))
        named = named if weights else place >= 0
        if named and place < 1:
            raise rows.refusal(number, f"expected a symbol and a number, found {shown(line)}")
        weight = line[place + 1 :] if named else line
        if not is_number(weight) or not 0 <= float(weight) < FLOAT32_END:
            raise rows.refusal(number, f"expected a number of zero or more, found {shown(weight)}")
        if named:
            rows.add(number, line[:place])
        weights.append(float(weight))
    if not weights:
        raise FormatError(f"{file}: the file is empty, expected lines of a symbol and a number, or of numbers alone")
    return RowWeights(file, weights, dict(zip(rows.numbers, weights, strict=True)) if named else None)
