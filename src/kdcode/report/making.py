"""make_report: two tables measured, and the page about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import numpy.typing as npt

from kdcode.coded import CodedTable
from kdcode.errors import OptionError, file_error
from kdcode.evaluation import EvaluationOptions, evaluate
from kdcode.evaluation.code_use import code_use
from kdcode.evaluation.level_use import level_use
from kdcode.evaluation.matching import match_rows
from kdcode.evaluation.parts import WholeTable
from kdcode.evaluation.row_losses import weights_of_pairs
from kdcode.files import replacing
from kdcode.inputs import TableSource, as_rows
from kdcode.report.explorer import explored_rows, explorer_data
from kdcode.report.measured import About, Measured
from kdcode.report.page import rendered
from kdcode.report.sentences import verdict

ROWS = 10_000
"""How many symbols the explorer has, at most, unless asked for others."""

_SHARE_OF_MEASURING = 0.7


@dataclass(frozen=True)
class Report:
    """A page about two tables.

    Args:
        html: the page, complete in itself.
        verdict: its one sentence.
        measured: what it is made of.
        explored: how many symbols its explorer has.
    """

    html: str
    verdict: str
    measured: Measured
    explored: int

    def write(self, path: str | PathLike[str]) -> int:
        """Write the page to a file, completely or not at all; gives back its bytes.

        Raises:
            FileError: it cannot be written.
        """
        text = self.html.encode("utf-8")
        try:
            with replacing(Path(path)) as temporary:
                temporary.write_bytes(text)
        except OSError as error:
            raise file_error(Path(path), "written", error) from error
        return len(text)


def make_report(
    original: TableSource,
    compressed: TableSource,
    weights: npt.ArrayLike | None = None,
    *,
    about: About | None = None,
    rows: int = ROWS,
    options: EvaluationOptions | None = None,
    on_progress: Callable[[float, float], None] | None = None,
) -> Report:
    """Compare a table with its compressed copy, and make a page of what is found.

        make_report("glove.txt", "glove.kdc").write("report.html")

    Args:
        original: whatever `kdcode.evaluate` takes.
        compressed: the same; codes are shown of a CodedTable, or of a .kdc file.
        weights: (N,) how much each row of the original counts, or "rank"; see `kdcode.evaluate`. The explorer has the
            rows that weigh most.
        about: names and sizes that are not in the tables; taken from paths where left out.
        rows: how many symbols the explorer has, at most. Those that come first, or weigh most.
        options: what is sampled.
        on_progress: called with how much is done, and how much there is to do.

    Raises:
        TableError: the tables cannot be compared.
    """
    if rows < 1:
        raise OptionError(f"rows: expected at least 1, got {rows}")
    named = about or _named(original, compressed)
    tables = as_rows(original), as_rows(compressed)
    report = _Progress(on_progress)
    found = evaluate(*tables, weights, options=options, on_progress=report.of_measuring)
    pairs = match_rows(*tables)
    counts = None if weights is None else weights_of_pairs(weights, pairs, WholeTable(len(pairs)))
    use = (code_use(tables[1]) or level_use(tables[1])) if isinstance(tables[1], CodedTable) else None
    measured = Measured(named, pairs, found, use, counts)
    explored = explored_rows(pairs, counts, rows)
    explorer = explorer_data(pairs, found.rows, explored, report.of_exploring)
    return Report(rendered(measured, explored, explorer), verdict(measured), measured, len(explored.places))


class _Progress:
    """Tells how far all work is, from how far its two parts are."""

    def __init__(self, on_progress: Callable[[float, float], None] | None) -> None:
        self._on_progress = on_progress

    def of_measuring(self, done: float, total: float) -> None:
        if self._on_progress is not None:
            self._on_progress(_SHARE_OF_MEASURING * done / max(total, 1), 1.0)

    def of_exploring(self, done: float, total: float) -> None:
        if self._on_progress is not None:
            self._on_progress(_SHARE_OF_MEASURING + (1 - _SHARE_OF_MEASURING) * done / max(total, 1), 1.0)


def _named(original: TableSource, compressed: TableSource) -> About:
    """The names of tables that were given as paths, and the size of the compressed file."""
    ours, theirs = (
        Path(fspath(table)) if isinstance(table, str | PathLike) else None for table in (original, compressed)
    )
    return About(
        About.original if ours is None else ours.name,
        About.compressed if theirs is None else theirs.name,
        theirs.stat().st_size if theirs is not None and theirs.is_file() else None,
    )
