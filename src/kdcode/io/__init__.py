"""Other people's formats, one file for each: a Reader gives the rows from start to stop; tables are read and written.

table = read("glove.6B.300d.txt")               # all rows in memory
reader = open_reader("s3://bucket/*.parquet")   # any rows, a chunk at a time
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from kdcode.errors import FileError, FormatError, NoRowsError, OptionError, TableError, file_error
from kdcode.files import check_readable, is_pipe
from kdcode.io.catalogue import (
    FORMATS,
    IN_PARTS,
    detect_part,
    detect_to_read,
    detect_to_write,
    named_format,
)
from kdcode.io.format import Format, ReadOptions, Write
from kdcode.io.lines import SkippedLinesWarning
from kdcode.io.matrices import ChosenMatrixWarning
from kdcode.io.places import Place, named_places, on_disk
from kdcode.io.reader import JoinedReader, Progress, Reader, check_alike, sample_rows
from kdcode.rows import Rows
from kdcode.table import VectorTable

__all__ = [
    "FORMATS",
    "IN_PARTS",
    "ChosenMatrixWarning",
    "Format",
    "JoinedReader",
    "Progress",
    "ReadOptions",
    "Reader",
    "SkippedLinesWarning",
    "can_be_parts",
    "detect",
    "open_parts",
    "open_reader",
    "read",
    "sample_rows",
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
            a quantised table of a GGUF file; with rows done and rows in all for Parquet.
        **options: fields of `ReadOptions`.

    Raises:
        FileError: the file does not exist (also a FileNotFoundError) or cannot be opened.
        FormatError: the file is not usable; the message names the file, and the line or row.
        LimitError: the file would take more memory than `max_expansion` allows.
        OptionError: an option that is unknown, or does not apply to this format.
        MissingExtraError: the format needs an optional dependency.
    """
    given = ReadOptions.of(options)
    named = None if format is None else named_format(format)
    try:
        with ExitStack() as stack:
            file = stack.enter_context(on_disk(Path(path)))
            chosen = named or detect_to_read(file)
            chosen.check_options(given)
            if given.symbols is not None:
                given = replace(given, symbols=str(stack.enter_context(on_disk(Path(given.symbols)))))
            return _table(file, chosen, given, on_progress)
    except FileError:
        raise
    except OSError as error:
        raise file_error(path, "read", error) from error


def _table(file: Path, format: Format, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    try:
        return format.open(Place(str(file)), options, on_progress).table(on_progress)
    except TableError as error:
        raise FormatError(f"{file}: {error}") from error


def open_reader(path: str | PathLike[str], options: ReadOptions | None = None) -> Reader:
    """The rows of a file, or of several files that are parts of one table, in the order of their names.

    Args:
        path: a .npy, safetensors or Parquet file; a folder of them; a pattern such as parts/*.parquet; or a URL of any
            of these that fsspec opens.
        options: how files are read.

    Raises:
        FileError: there is no such file (also a FileNotFoundError).
        FormatError: a file has another format, or is not usable.
        MissingExtraError: it needs pyarrow or fsspec.
    """
    parts = open_parts([fspath(path)], options)
    return parts[0] if len(parts) == 1 else JoinedReader(fspath(path), parts)


def open_parts(patterns: Sequence[str], options: ReadOptions | None = None) -> list[Reader]:
    """The parts of one table; arguments and errors as `open_reader`, for several paths or patterns.

    Parts of one pattern come in the order of their names, patterns in the order given. A file that several patterns
    name is taken once.
    """
    places = list(dict.fromkeys(place for pattern in patterns for place in named_places(pattern)))
    if not places:
        raise OptionError("expected at least one file")
    chosen = options or ReadOptions()
    if len(places) > 1:
        for name in ("symbols", "limit"):
            if getattr(chosen, name) is not None:
                raise OptionError(f"{name}: is for one file, and there are {len(places)}: {places[0].name}, …")
    parts = []
    for place in places:
        format = detect_part(place)
        format.check_options(chosen)
        part = format.open(place, chosen, None)
        part.check_parts()
        parts.append(part)
    check_alike(parts)
    return parts


def can_be_parts(path: str | PathLike[str]) -> bool:
    """Whether `open_reader` can read a path, as far as its name tells."""
    name = fspath(path).lower()
    return any(name.endswith(FORMATS[format].suffixes) for format in IN_PARTS)


def write(
    table: Rows, path: str | PathLike[str], *, format: str | None = None, on_progress: Progress | None = None
) -> None:
    """Write a table to a file, chunk by chunk; the file appears whole or not at all.

    Args:
        table: a VectorTable or a CodedTable, or anything else with their `chunks`.
        path: the file; text is gzipped if the name ends in .gz.
        format: a name in `FORMATS`; by default the one that the name of the file stands for.
        on_progress: called with rows done and rows in all after each chunk.

    Raises:
        FileError: the file cannot be written; an existing file stays as it was.
        FormatError: the format cannot hold a symbol; an existing file stays as it was.
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
    """The files that `write` makes: the one at `path`, and a file of symbols where the format cannot hold them.

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
    chosen = detect_to_write(file) if name is None else named_format(name)
    if chosen.write is None:
        writable = ", ".join(known.name for known in FORMATS.values() if known.write is not None)
        raise OptionError(f"{file}: the format {chosen.name!r} can only be read; formats to write are {writable}")
    return chosen, chosen.write


def detect(path: str | PathLike[str]) -> Format:
    """The format of a file: by its name, and by its first bytes where the name leaves a choice.

    Raises:
        FileError: the file does not exist (also a FileNotFoundError), or cannot be opened.
        FormatError: it is of no known format.
    """
    file = Path(path)
    check_readable(file)
    if is_pipe(file):
        raise FormatError(f"{file}: a pipe can be read only once, so its format cannot be detected; name it")
    return detect_to_read(file)
