"""Files that commands take and make: tables read with progress, targets checked before any work."""

from __future__ import annotations

import os
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kdcode.cli.progress import progress
from kdcode.errors import OptionError

if TYPE_CHECKING:
    from kdcode.formats import ReadOptions
    from kdcode.table import VectorTable


def check_target(target: str, *, force: bool, source: str | None = None) -> None:
    """Refuse a file that cannot be written, or should not be.

    Raises:
        OptionError: the folder is missing or closed, the file is the source, or exists and `force` is not set.
    """
    path = Path(target)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise OptionError(f"{target}: the folder {folder} does not exist")
    if path.is_dir():
        raise OptionError(f"{target}: is a folder, name a file in it")
    if source is not None and path.exists() and path.samefile(source):
        raise OptionError(f"{target}: is the input itself, name another file")
    if path.exists() and not force:
        raise OptionError(f"{target}: exists already, --force replaces it")
    if not os.access(folder, os.W_OK):
        raise OptionError(f"{target}: the folder {folder} cannot be written to")


def with_weights(table: VectorTable, path: str | None) -> VectorTable:
    """The table with the weights of a file; see `kdcode.formats.symbol_weights`."""
    if path is None:
        return table
    from kdcode.formats.symbol_weights import read_weights
    from kdcode.table import VectorTable

    return VectorTable(table.symbols, table.matrix, read_weights(path, table))


def read_table(
    source: str, format_name: str | None, options: ReadOptions, weights: str | None = None, *, quiet: bool
) -> VectorTable:
    """Read a table in any format, and the file of its weights; lines that were skipped are told on stderr."""
    from kdcode.formats import SkippedLinesWarning, read

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SkippedLinesWarning)
        with progress("reading", quiet=quiet) as advance:
            table = read(source, format=format_name, on_progress=advance, **asdict(options))
    for warning in caught:
        click.echo(f"{click.style('warning:', fg='yellow')} {warning.message}", err=True)
    return with_weights(table, weights)
