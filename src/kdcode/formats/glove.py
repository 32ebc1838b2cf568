"""GloVe text: one `symbol number … number` per line, no header.

Some symbols hold spaces, so lines are read from the right.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kdcode.formats import text_rows, writing
from kdcode.formats.format import Progress, ReadOptions
from kdcode.table import VectorTable

if TYPE_CHECKING:
    from kdcode.evaluation.reconstruction import Rows


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a GloVe file; the dimension is what most of the first 100 lines have."""
    return text_rows.read_without_header(path, options, on_progress)


def write(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a GloVe file."""
    with writing.fresh_file(path) as stream:
        for symbols, vectors in writing.checked_chunks(rows, path, _fault, on_progress):
            stream.write(writing.text_lines(symbols, vectors))


def _fault(symbol: str) -> str | None:
    if " " not in symbol:
        return writing.plain_symbol_fault(symbol)
    if "\n" in symbol:
        return "holds a line break, which ends a row in this format"
    # Read from the right, "area 51" would be the symbol "area" with one number too many.
    if text_rows.is_number(symbol.rpartition(" ")[2].encode("utf-8")):
        return "ends in a space and a number, which would be read as part of the vector"
    return None
