"""What a format is, how files are read, and what all writers share."""

from __future__ import annotations

import gzip
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from kdcode.arrays import FloatArray
from kdcode.errors import FormatError, OptionError
from kdcode.files import replacing
from kdcode.io.places import Place
from kdcode.io.reader import Progress, Reader, WholeReader
from kdcode.limits import MAX_EXPANSION, MemoryLimit
from kdcode.option_fields import check_fields, option
from kdcode.rows import Rows
from kdcode.table import VectorTable

BAD_LINE_NAMES = ("refuse", "skip")

ByteStream: TypeAlias = IO[bytes] | gzip.GzipFile

SymbolFault: TypeAlias = Callable[[str], str | None]
"""Why a format cannot hold a symbol, or None if it can."""


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read. Field names are Python keywords and, with dashes, command-line flags."""

    tensor: str | None = option(None, "Name of the tensor to read from a file that holds several.")
    symbols: str | None = option(None, "Text file with one symbol per line, for formats that only store a matrix.")
    symbol_column: str | None = option(
        None, "Column that holds the symbols (CSV, TSV, Parquet); by default the first column of text."
    )
    vector_column: str | None = option(
        None, "Column that holds the vectors as lists; by default the first one that does."
    )
    limit: int | None = option(None, "Read only the first rows, at most this many.", low=1)
    on_bad_line: str = option(
        "refuse", "What to do with an invalid line or row, or one that repeats a symbol.", choices=BAD_LINE_NAMES
    )
    max_expansion: float = option(
        float(MAX_EXPANSION),
        "Refuse a file that takes more than this many times its size in memory, and 256 MiB.",
        low=1,
    )

    def __post_init__(self) -> None:
        check_fields(self)

    def memory_limit(self, path: Path) -> MemoryLimit:
        """The memory that the file at `path` may take."""
        return MemoryLimit(path.stat().st_size, self.max_expansion, str(path))

    def rows_of(self, count: int) -> int:
        """How many of `count` rows are read."""
        return count if self.limit is None else min(self.limit, count)

    @classmethod
    def of(cls, given: dict[str, Any]) -> ReadOptions:
        """Options by name; an unknown name is refused with the list of known ones."""
        known = [item.name for item in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            raise OptionError(f"there is no option {unknown[0]!r}; the options of reading are {', '.join(known)}")
        return cls(**given)


Open: TypeAlias = Callable[[Place, ReadOptions, Progress | None], Reader]
Write: TypeAlias = Callable[[Rows, Path, Progress | None], None]


@dataclass(frozen=True)
class Format:
    """One foreign format.

    Args:
        name: what `format=` calls it.
        description: one line for people.
        suffixes: how names of such files end. Formats may share a suffix; `detect` then looks inside the file.
        options: the fields of `ReadOptions` that apply to this format.
        open: makes the Reader of a file.
        write: writes rows to a file; None where the format is read only.
        extra: the optional dependency that it needs, or None.
        in_parts: whether a Reader reads any rows without reading the whole file.
        symbols_beside: the path of the symbols file that is written beside a matrix; None where the format holds them.
        is_text: whether people can read such files.
    """

    name: str
    description: str
    suffixes: tuple[str, ...]
    options: tuple[str, ...]
    open: Open
    write: Write | None = None
    extra: str | None = None
    in_parts: bool = False
    symbols_beside: Callable[[Path], Path] | None = None
    is_text: bool = False

    def check_options(self, options: ReadOptions) -> None:
        """Refuse options that would be ignored: they are most likely a mistake about the file."""
        for item in fields(options):
            if getattr(options, item.name) != item.default and item.name not in self.options:
                known = ", ".join(f"{name}=" for name in self.options)
                raise OptionError(
                    f"the option {item.name}= does not apply to the format {self.name!r}; its options are {known}"
                )


def whole(read: Callable[[Path, ReadOptions, Progress | None], VectorTable]) -> Open:
    """The `open` of a format whose files can only be read whole."""

    def open_file(place: Place, options: ReadOptions, on_progress: Progress | None) -> Reader:
        return WholeReader(place, read(Path(place.name), options, on_progress))

    return open_file


def warn_caller(warning: UserWarning) -> None:
    """Give a warning that points at the line outside of kdcode that called it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("kdcode"):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


@contextmanager
def fresh_file(path: Path) -> Iterator[ByteStream]:
    """A file that replaces `path` when the block ends well; gzipped if the name ends in .gz."""
    with replacing(path) as temporary, temporary.open("wb") as stream:
        if path.suffix.lower() != ".gz":
            yield stream
            return
        # No name and no time inside: the same table always gives the same bytes.
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=6, mtime=0) as packed:
            yield packed


def checked_chunks(
    rows: Rows, path: Path, fault: SymbolFault, on_progress: Progress | None
) -> Iterator[tuple[Sequence[str], FloatArray]]:
    """Chunks of `rows` to write, each checked first: (n) symbols and (n, d) vectors.

    Raises:
        FormatError: a symbol that the format cannot hold, or a number that is not finite; the message names the row.
    """
    done = 0
    for symbols, vectors in rows.chunks():
        for row, symbol in enumerate(symbols, done):
            if reason := fault(symbol):
                raise FormatError(
                    f"{path}: row {row}: the symbol {symbol!r} {reason}; "
                    "the format 'parquet' holds any symbol, or rename this one"
                )
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            row = int(finite.argmin())
            raise FormatError(f"{path}: row {done + row}: {symbols[row]!r} has a number that is not finite")
        yield symbols, vectors
        done += len(symbols)
        if on_progress:
            on_progress(done, len(rows))
