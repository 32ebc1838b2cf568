"""Other people's formats: tables of vectors read and written, one file per format, one table of formats."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from kdcode.errors import FileError, FormatError, NoRowsError, OptionError, TableError, file_error
from kdcode.files import check_readable, is_pipe
from kdcode.formats.catalogue import FORMATS
from kdcode.formats.detection import detect_to_read, detect_to_write
from kdcode.formats.file_rows import SkippedLinesWarning
from kdcode.formats.format import Format, Progress, ReadOptions, Write
from kdcode.formats.matrices import ChosenMatrixWarning
from kdcode.formats.opening import on_disk
from kdcode.rows import Rows
from kdcode.table import VectorTable

__all__ = [
    "FORMATS",
    "ChosenMatrixWarning",
    "Format",
    "Progress",
    "ReadOptions",
    "SkippedLinesWarning",
    "detect",
    "read",
    "write",
    "written_files",
]


def read(
    path: str | PathLike[str],
    *,
    format: str | None = None,
    on_progress: Progress | None = None,
    **options: Any,  # noqa: ANN401 - option values of any type
) -> VectorTable:
    """The table of vectors in a file.

    Args:
        path: the file; text may be gzipped. A pipe is copied to a temporary file first, and has no symbols beside it.
        format: a name in `FORMATS`; by default what `detect` finds.
        on_progress: called with bytes done and bytes in all after each block of a text or word2vec binary file, and of
            a quantised table of a GGUF file.
        **options: fields of `ReadOptions`.

    Raises:
        FileError: the file is not there (also a FileNotFoundError) or cannot be opened.
        FormatError: the file is not usable; the message names the file, and the line or row.
        LimitError: the file would take more memory than `max_expansion` allows.
        OptionError: an option that is unknown, or means nothing for this format.
        MissingExtraError: the format needs an optional dependency.
    """
    file = Path(path)
    chosen_options = ReadOptions.of(options)
    named = None if format is None else _named(format)
    try:
        with on_disk(file) as there:
            return _read(there, named, chosen_options, on_progress)
    except FileError:
        raise
    except OSError as error:
        raise file_error(file, "read", error) from error


def _read(file: Path, format: Format | None, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of a file on disk."""
    chosen = format or detect_to_read(file)
    chosen.check_options(options)
    try:
        return chosen.read(file, options, on_progress)
    except TableError as error:
        raise FormatError(f"{file}: {error}") from error


def write(
    table: Rows, path: str | PathLike[str], *, format: str | None = None, on_progress: Progress | None = None
) -> None:
    """Write a table to a file, chunk by chunk; the file appears whole or not at all.

    Args:
        table: a VectorTable or a CodedTable, or anything else with their `chunks`.
        path: the file; text is gzipped if the name ends in .gz.
        format: a name in `FORMATS`; by default what the name of the file asks for.
        on_progress: called with rows done and rows in all after each chunk.

    Raises:
        FileError: the file cannot be written; what was there stays.
        FormatError: the format cannot hold a symbol; what was there stays.
        NoRowsError: the table is a codebook.
        OptionError: there is no such format, or it can only be read.
        MissingExtraError: the format needs an optional dependency.
    """
    file = Path(path)
    write_rows = _to_write(file, format)[1]
    if not len(table):
        raise NoRowsError
    try:
        write_rows(table, file, on_progress)
    except FileError:
        raise
    except OSError as error:
        raise file_error(file, "written", error) from error


def written_files(path: str | PathLike[str], *, format: str | None = None) -> list[Path]:
    """The files that `write` makes: the one at `path`, and the one of the symbols where a format holds none itself.

    Rows without symbols make no second file, and are refused where it exists: it would be read as theirs.

    Raises:
        FormatError: the name of the file does not tell its format.
        OptionError: there is no such format, or it can only be read.
    """
    file = Path(path)
    place = _to_write(file, format)[0].symbols_beside
    return [file] if place is None else [file, place(file)]


def _to_write(file: Path, name: str | None) -> tuple[Format, Write]:
    """The format of a file to write, and its function."""
    chosen = detect_to_write(file) if name is None else _named(name)
    if chosen.write is None:
        writable = ", ".join(known.name for known in FORMATS.values() if known.write is not None)
        raise OptionError(f"{file}: the format {chosen.name!r} can only be read; formats to write are {writable}")
    return chosen, chosen.write


def detect(path: str | PathLike[str]) -> Format:
    """The format of a file: by its name, and by its first bytes where the name leaves a choice.

    Raises:
        FileError: the file is not there (also a FileNotFoundError), or cannot be looked into.
        FormatError: it is of no known format.
    """
    file = Path(path)
    check_readable(file)
    if is_pipe(file):
        raise FormatError(f"{file}: a pipe can be read only once, and looking at its format would be that time")
    return detect_to_read(file)


def _named(name: str) -> Format:
    if name not in FORMATS:
        raise OptionError(f"there is no format {name!r}; the formats are {', '.join(FORMATS)}")
    return FORMATS[name]
