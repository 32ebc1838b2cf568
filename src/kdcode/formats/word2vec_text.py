"""word2vec text: the header "rows dimension", then one `symbol number … number` per line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kdcode.formats import text_rows, writing
from kdcode.formats.format import Progress, ReadOptions
from kdcode.table import VectorTable

if TYPE_CHECKING:
    from kdcode.evaluation.reconstruction import Rows


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a word2vec text file, whose rows must be as many as its header says."""
    return text_rows.read_with_header(path, options, on_progress)


def write(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a word2vec text file."""
    writing.write_with_header(rows, path, on_progress)
