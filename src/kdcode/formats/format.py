"""What a format is: one row of the table in `catalogue`, and the options that reading understands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from kdcode.errors import OptionError
from kdcode.limits import MAX_EXPANSION, MemoryLimit
from kdcode.option_fields import check_fields, option
from kdcode.rows import Rows
from kdcode.table import VectorTable

BAD_LINE_NAMES = ("refuse", "skip")

Progress: TypeAlias = Callable[[int, int], None]
"""Called with what is done and what there is: bytes of the file when reading, rows when writing."""

Write: TypeAlias = Callable[[Rows, Path, Progress | None], None]


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
        """What the file at `path` may take in memory."""
        return MemoryLimit(path.stat().st_size, self.max_expansion)

    @classmethod
    def of(cls, given: dict[str, Any]) -> ReadOptions:
        """Options by name; an unknown name is refused with the list of known ones."""
        known = [item.name for item in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            raise OptionError(f"there is no option {unknown[0]!r}; the options of reading are {', '.join(known)}")
        return cls(**given)


@dataclass(frozen=True)
class Format:
    """One foreign format.

    Args:
        name: what `format=` calls it.
        description: one line for people.
        suffixes: how names of such files end; a format may share a suffix with another, `detect` then looks inside.
        options: the fields of `ReadOptions` that mean something here.
        read: gives the table of a file.
        write: writes rows to a file, or None where the format is read only.
        extra: the optional dependency that it needs, or None.
        symbols_beside: where the symbols of rows written to a file go, for formats that hold a matrix alone.
        is_text: whether such files can be read by people.
    """

    name: str
    description: str
    suffixes: tuple[str, ...]
    options: tuple[str, ...]
    read: Callable[[Path, ReadOptions, Progress | None], VectorTable]
    write: Write | None = None
    extra: str | None = None
    symbols_beside: Callable[[Path], Path] | None = None
    is_text: bool = False

    def check_options(self, options: ReadOptions) -> None:
        """Refuse options that would be ignored: they are most likely a mistake about the file."""
        for item in fields(options):
            if getattr(options, item.name) != item.default and item.name not in self.options:
                known = ", ".join(f"{name}=" for name in self.options)
                raise OptionError(
                    f"the option {item.name}= means nothing for the format {self.name!r}; its options are {known}"
                )
