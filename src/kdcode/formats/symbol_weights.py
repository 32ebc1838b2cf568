"""Weights of rows from a text file: how often each symbol is used, for example."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kdcode.arrays import FloatArray
from kdcode.errors import FormatError
from kdcode.formats.blocks import line_blocks
from kdcode.formats.file_rows import FileRows, shown
from kdcode.formats.format import ReadOptions
from kdcode.formats.numbers import FLOAT32_END, is_number
from kdcode.formats.opening import on_disk
from kdcode.table import VectorTable


def read_weights(path: str | Path, table: VectorTable) -> FloatArray:
    r"""The weights that a file gives to the rows of a table.

    The file has either a line of a symbol and a number for each symbol, in any order, or a number alone in each line,
    row by row; the first line decides. Lines end at `\n`, and the last space or tab of a line separates the number
    from the symbol. Symbols that the file does not name weigh 0; those that the table does not have are passed over.

    Returns:
        (N,) float32 numbers of zero or more.

    Raises:
        FormatError: a line is neither, or the file does not fit the table; the message names the line.
    """
    with on_disk(Path(path)) as file:
        return _weights(file, table)


def _weights(file: Path, table: VectorTable) -> FloatArray:
    """The weights in a file on disk."""
    limit = ReadOptions().memory_limit(file)
    rows, named = FileRows(file, "line", limit), False
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
    if not named:
        if len(weights) != len(table):
            raise FormatError(f"{file}: expected one number for each of {len(table)} rows, found {len(weights)}")
        return np.array(weights, dtype=np.float32)
    by_symbol = dict(zip(rows.numbers, weights, strict=True))
    if by_symbol.keys().isdisjoint(table.symbols):
        raise FormatError(f"{file}: none of its {len(by_symbol)} symbols is in the table")
    return np.array([by_symbol.get(symbol, 0.0) for symbol in table.symbols], dtype=np.float32)
