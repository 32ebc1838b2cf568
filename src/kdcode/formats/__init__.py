"""Other people's formats: tables of vectors read and written, one file per format, one table of formats."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from kdcode.errors import FormatError, OptionError, TableError
from kdcode.evaluation.reconstruction import Rows
from kdcode.formats.catalogue import FORMATS, detect_to_read, detect_to_write
from kdcode.formats.file_rows import SkippedLinesWarning
from kdcode.formats.format import Format, Progress, ReadOptions, cannot
from kdcode.table import VectorTable

__all__ = ["FORMATS", "Format", "Progress", "ReadOptions", "SkippedLinesWarning", "detect", "read", "write"]


def read(
    path: str | PathLike[str],
    *,
    format: str | None = None,
    on_progress: Progress | None = None,
    **options: Any,  # noqa: ANN401 - option values of any type
) -> VectorTable:
    """The table of vectors in a file.

    Args:
        path: the file; text may be gzipped.
        format: a name in `FORMATS`; by default what `detect` finds.
        on_progress: called with bytes done and bytes in all after each block of a text or word2vec binary file.
        **options: fields of `ReadOptions`.

    Raises:
        FormatError: the file is not there or not usable; the message names the file, and the line or row.
        OptionError: an option that is unknown, or means nothing for this format.
        MissingExtraError: the format needs an optional dependency.
    """
    file = Path(path)
    chosen_options = ReadOptions.of(options)
    _check_file(file)
    try:
        chosen = detect_to_read(file) if format is None else _named(format)
        chosen.check_options(chosen_options)
        return chosen.read(file, chosen_options, on_progress)
    except TableError as error:
        raise FormatError(f"{file}: {error}") from error
    except OSError as error:
        raise cannot("read", file, error) from error


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
        FormatError: the format cannot hold a symbol, or the file cannot be written; what was there stays.
        OptionError: there is no such format, or it can only be read.
        MissingExtraError: the format needs an optional dependency.
    """
    file = Path(path)
    chosen = detect_to_write(file) if format is None else _named(format)
    if chosen.write is None:
        writable = ", ".join(known.name for known in FORMATS.values() if known.write is not None)
        raise OptionError(f"{file}: the format {chosen.name!r} can only be read; formats to write are {writable}")
    if not file.parent.is_dir():
        raise FormatError(f"{file}: cannot be written: there is no folder {file.parent}")
    try:
        chosen.write(table, file, on_progress)
    except OSError as error:
        raise cannot("written", file, error) from error


def detect(path: str | PathLike[str]) -> Format:
    """The format of a file: by its name, and by its first bytes where the name leaves a choice.

    Raises:
        FormatError: the file is not there, or is of no known format.
    """
    file = Path(path)
    _check_file(file)
    return detect_to_read(file)


def _check_file(file: Path) -> None:
    if file.is_dir():
        raise FormatError(f"{file}: expected a file, found a folder")
    if not file.exists():
        raise FormatError(f"{file}: there is no such file")


def _named(name: str) -> Format:
    if name not in FORMATS:
        raise OptionError(f"there is no format {name!r}; the formats are {', '.join(FORMATS)}")
    return FORMATS[name]
