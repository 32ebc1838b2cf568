"""Files that commands take and make: tables read with progress, targets checked before any work, `-` for the pipes."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO

import click

from kdcode.cli import page
from kdcode.cli.flags import in_flags
from kdcode.errors import FormatError, OptionError
from kdcode.files import is_pipe, spooled
from kdcode.progress_bar import progress

if TYPE_CHECKING:
    from kdcode.formats import ReadOptions
    from kdcode.table import VectorTable


STANDARD = "-"
"""What stands for standard input where a file is read, and for standard output where one is written."""

_COPIES = "kdcode.copies"
"""Where the names that the user gave are kept, by the path of the temporary copy."""

_TAKEN = "kdcode.stdin"


def input_file(given: str) -> str:
    """The path of a file to read; standard input and pipes are copied to a file that vanishes when the command ends.

    Raises:
        OptionError: standard input is asked for a second time.
    """
    if given != STANDARD and not is_pipe(Path(given)):
        return given
    context = click.get_current_context()
    is_standard = given == STANDARD
    stream = standard_input() if is_standard else context.with_resource(Path(given).open("rb"))  # noqa: SIM115
    path = context.with_resource(spooled(stream, "stdin" if is_standard else Path(given).name))
    context.meta.setdefault(_COPIES, {})[str(path)] = spoken(given)
    return str(path)


def standard_input() -> BinaryIO:
    """Standard input, which a command may take once.

    Raises:
        OptionError: it was taken before.
    """
    context = click.get_current_context()
    if context.meta.get(_TAKEN):
        raise OptionError("- stands for standard input, which can be read only once; name a file in one of the places")
    context.meta[_TAKEN] = True
    return sys.stdin.buffer


def spoken(given: str) -> str:
    """An input in the words of a line of text."""
    return "standard input" if given == STANDARD else page.shown(given)


def with_given_names(message: str, context: click.Context) -> str:
    """A message with the names that the user gave in place of those of temporary copies."""
    for path, name in context.meta.get(_COPIES, {}).items():
        message = message.replace(path, name)
    return message


@contextmanager
def output_file(target: str) -> Iterator[str]:
    """The path to write: that of the target, or of a file that is copied to standard output when the block ends well.

    Raises:
        FormatError: more than one file was written, which standard output cannot take.
    """
    if target != STANDARD:
        yield target
        return
    with TemporaryDirectory(prefix="kdcode-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "stdout")
        yield str(path)
        beside = [file for file in path.parent.iterdir() if file != path]
        if beside:
            raise FormatError(
                "-: this format puts the symbols in a second file, which standard output cannot take; "
                "choose another format= or name a file"
            )
        stream = sys.stdout.buffer
        with path.open("rb") as copy:
            shutil.copyfileobj(copy, stream, 1 << 20)
        stream.flush()


def check_target(target: str, *, force: bool, source: str | None = None) -> None:
    """Refuse a file that cannot be written, or should not be.

    Raises:
        OptionError: the folder is missing or closed, the file is the source, or exists and `force` is not set.
    """
    if target == STANDARD:
        return
    path = Path(target)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise OptionError(f"{target}: the folder {folder} does not exist")
    if path.is_dir():
        raise OptionError(f"{target}: is a folder, name a file in it")
    if source not in (None, STANDARD) and path.exists() and path.samefile(source):
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

    return VectorTable(table.symbols, table.matrix, read_weights(input_file(path), table))


def read_table(
    source: str, format_name: str | None, options: ReadOptions, weights: str | None = None, *, quiet: bool
) -> VectorTable:
    """Read a table in any format, and the file of its weights; what was skipped or chosen is told on stderr."""
    from kdcode.formats import ChosenMatrixWarning, SkippedLinesWarning, read

    with warnings.catch_warnings(record=True) as caught:
        for kind in (SkippedLinesWarning, ChosenMatrixWarning):
            warnings.simplefilter("always", kind)
        with progress("reading", quiet=quiet) as advance:
            table = read(input_file(source), format=format_name, on_progress=advance, **asdict(options))
    context = click.get_current_context()
    for warning in caught:
        style = ("note:", "cyan") if warning.category is ChosenMatrixWarning else ("warning:", "yellow")
        message = with_given_names(in_flags(str(warning.message), context.command, context), context)
        click.echo(f"{click.style(style[0], fg=style[1])} {message}", err=True)
    return with_weights(table, weights)
