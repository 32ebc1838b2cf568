"""Files that exports write: whole or not at all, with the symbols in a file beside them where they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from os import PathLike
from pathlib import Path

from kdcode.coded import CodedTable
from kdcode.errors import FileError, FormatError, OptionError, file_error
from kdcode.files import replacing
from kdcode.io.matrices import symbol_fault
from kdcode.symbols import RowNumbers


@contextmanager
def exported(
    coded: CodedTable, path: str | PathLike[str], symbols: str | PathLike[str] | None, what: str
) -> Iterator[Path]:
    """A temporary path to write an export to, which takes the place of `path` when the block ends well.

    Args:
        coded: the table that is exported.
        path: the file that is to be written.
        symbols: also write the symbols to this file, one per line, in row order.
        what: what is exported, for errors: "model", "index".

    Raises:
        OptionError: the table has no symbols, or they would be written to the export itself.
        FormatError: a symbol does not fit in a line.
        FileError: a file cannot be written.
    """
    file, names = Path(path), None if symbols is None else Path(symbols)
    if names is not None:
        _check_symbols(coded, file, names, what)
    with nullcontext() if names is None else _written(names) as listed, _written(file) as target:
        yield target
        if names is not None and listed is not None:
            _write_symbols(coded, names, listed)


def _check_symbols(coded: CodedTable, file: Path, names: Path, what: str) -> None:
    if isinstance(coded.symbols, RowNumbers):
        raise OptionError("symbols: this table has none, its rows are known by their numbers")
    if os.path.realpath(file) == os.path.realpath(names):
        raise OptionError(f"symbols: {names} is the {what} itself, name another file")


@contextmanager
def _written(path: Path) -> Iterator[Path]:
    """What `replacing` gives, with errors that name the file."""
    try:
        with replacing(path) as temporary:
            yield temporary
    except FileError:
        raise
    except OSError as error:
        raise file_error(path, "written", error) from error


def _write_symbols(coded: CodedTable, names: Path, target: Path) -> None:
    try:
        with target.open("w", encoding="utf-8", newline="\n") as stream:
            for row, symbol in enumerate(coded.symbols):
                if reason := symbol_fault(symbol):
                    raise FormatError(
                        f"{names}: row {row}: the symbol {symbol!r} {reason}; list(coded) has all symbols"
                    )
                stream.write(f"{symbol}\n")
    except OSError as error:
        raise file_error(names, "written", error) from error
