"""Files that commands take and make: tables read with progress, targets checked before any work, `-` for the pipes."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kdcode.cli.flags import in_flags
from kdcode.errors import OptionError, file_error
from kdcode.files import check_readable, is_pipe, replaceable, spooled
from kdcode.printable import shown
from kdcode.progress_bar import progress

if TYPE_CHECKING:
    from kdcode.coded import CodedTable
    from kdcode.io import ReadOptions
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
        FileError: there is no such file, or it is a device.
    """
    if given != STANDARD:
        check_readable(Path(given))
        if not is_pipe(Path(given)):
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
    return "standard input" if given == STANDARD else shown(given)


def with_given_names(message: str, context: click.Context) -> str:
    """A message with the names that the user gave in place of those of temporary copies."""
    for path, name in context.meta.get(_COPIES, {}).items():
        message = message.replace(shown(path), name)
    return message


@contextmanager
def output_file(target: str) -> Iterator[str]:
    """The path to write: that of the target, or of a file that is copied to standard output when the block ends well.

    A terminal is given text alone, line by line, with characters escaped that are not safe to print.
    """
    if target != STANDARD:
        yield target
        return
    with TemporaryDirectory(prefix="kdcode-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "stdout")
        yield str(path)
        with path.open("rb") as copy:
            if sys.stdout.isatty():
                for line in copy:
                    click.echo(shown(line.decode("utf-8", "backslashreplace").removesuffix("\n").expandtabs()))
            else:
                shutil.copyfileobj(copy, sys.stdout.buffer, 1 << 20)
        sys.stdout.buffer.flush()


def check_target(target: str, *others: Path, force: bool, inputs: Sequence[str | None] = ()) -> None:
    """Refuse files that cannot be written, or should not be.

    Args:
        target: the file that the user named, or a dash.
        others: what is written with it: the file of its symbols.
        force: whether files that exist may be replaced.
        inputs: what is read: files, and for those that were not given a dash or None.

    Raises:
        FileError: what is there is no file, or leads nowhere; or its folder is missing or closed.
        OptionError: a file is one of the inputs, or exists and `force` is not set.
    """
    if target == STANDARD:
        return
    paths = [Path(target), *others]
    for path in paths:
        _check_writable(path, inputs)
    there = [path for path in paths if path.exists()]
    if there and not force:
        replaces = f"already, --force replaces {'it' if len(there) == 1 else 'them'}"
        if not others:
            raise OptionError(f"{target}: exists {replaces}")
        which = f"{there[0]} exists" if len(there) == 1 else "both exist"
        raise OptionError(f"{target}: is written with its symbols in {others[0]}; {which} {replaces}")


def _check_writable(path: Path, inputs: Sequence[str | None]) -> None:
    try:
        file = replaceable(path)
        if not file.parent.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if not os.access(file.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"the folder {file.parent} is closed to you")
    except OSError as error:
        raise file_error(path, "written", error) from error
    given = [Path(name) for name in inputs if name not in (None, STANDARD)]
    if file.exists() and any(one.exists() and one.samefile(file) for one in given):
        raise OptionError(f"{path}: is the input itself, name another file")


def is_of_parts(source: str) -> bool:
    """Whether an input is a folder, a pattern or a URL, which stand for the parts of a table."""
    if source == STANDARD:
        return False
    path = Path(source)
    return "://" in source or path.is_dir() or (any(mark in source for mark in "*?[") and not path.exists())


class TablePath(click.Path):
    """An input: a file or a dash, which must be there; or a folder, a pattern or a URL of parts."""

    def __init__(self) -> None:
        super().__init__(exists=True, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's own
        """Leave what stands for parts to whoever opens them."""
        return value if isinstance(value, str) and is_of_parts(value) else super().convert(value, param, ctx)


def _read_parts(source: str, format_name: str | None, options: ReadOptions, *, quiet: bool) -> VectorTable:
    """All parts of a table in memory."""
    from kdcode.io import open_reader

    if format_name is not None:
        raise OptionError(
            "--format is for one file; parts are npy, safetensors or Parquet files, and tell so themselves"
        )
    with progress("reading", quiet=quiet) as advance:
        return open_reader(source, options).table(advance)


def read_rows(
    source: str, options: ReadOptions, format_name: str | None = None, *, quiet: bool
) -> VectorTable | CodedTable:
    """A table in any format, or a .kdc file, which stays coded.

    Of the options those count that mean something for its format: the two tables of a comparison may differ in it.
    """
    from kdcode.io.catalogue import detect_to_read, is_own
    from kdcode.storage import load

    if is_of_parts(source):
        return read_table(source, format_name, options, quiet=quiet)
    path = input_file(source)
    if format_name is None and is_own(Path(path)):
        return load(path)
    if format_name is None:
        known = detect_to_read(Path(path)).options
        given = {item.name: getattr(options, item.name) for item in fields(options) if item.name in known}
        options = type(options)(**given)
    return read_table(path, format_name, options, quiet=quiet)


def with_weights(table: VectorTable, path: str | None) -> VectorTable:
    """The table with the weights of a file; see `kdcode.io.row_weights.read_weights`."""
    if path is None:
        return table
    from kdcode.io.row_weights import read_weights
    from kdcode.table import VectorTable

    return VectorTable(table.symbols, table.matrix, read_weights(input_file(path), table))


def read_table(
    source: str, format_name: str | None, options: ReadOptions, weights: str | None = None, *, quiet: bool
) -> VectorTable:
    """Read a table in any format, and the file of its weights; stderr says what was skipped or chosen."""
    from kdcode.io import ChosenMatrixWarning, SkippedLinesWarning, read

    if is_of_parts(source):
        return with_weights(_read_parts(source, format_name, options, quiet=quiet), weights)
    with warnings.catch_warnings(record=True) as caught:
        for kind in (SkippedLinesWarning, ChosenMatrixWarning):
            warnings.simplefilter("always", kind)
        with progress("reading", quiet=quiet) as advance:
            table = read(input_file(source), format=format_name, on_progress=advance, **asdict(options))
    context = click.get_current_context()
    for warning in caught:
        style = ("note:", "cyan") if warning.category is ChosenMatrixWarning else ("warning:", "yellow")
        message = with_given_names(in_flags(shown(str(warning.message)), context.command, context), context)
        click.echo(f"{click.style(style[0], fg=style[1])} {message}", err=True)
    return with_weights(table, weights)
