"""What a format is: one row of the table in `catalogue`, and the options that reading understands."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kdcode.errors import FormatError, OptionError
from kdcode.table import VectorTable

if TYPE_CHECKING:
    from kdcode.evaluation.reconstruction import Rows

BAD_LINE_NAMES = ("refuse", "skip")

Progress: TypeAlias = Callable[[int, int], None]
"""Called with what is done and what there is: bytes of the file when reading, rows when writing."""


def _option(default: Any, text: str, **extra: Any) -> Any:  # noqa: ANN401 - a dataclass field of any type
    return field(default=default, metadata={"help": text, **extra})


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read. Field names are Python keywords and, with dashes, command-line flags."""

    tensor: str | None = _option(None, "Name of the matrix in a file that holds several.")
    symbols: str | None = _option(None, "File with one symbol per line, for formats that hold a matrix alone.")
    symbol_column: str | None = _option(None, "Parquet column of the symbols; by default the first text column.")
    vector_column: str | None = _option(None, "Parquet column of the vectors; by default the first list of floats.")
    limit: int | None = _option(None, "Read the first rows only, at most this many.")
    on_bad_line: str = _option(
        "refuse", "What to do with a line or row that cannot be used or repeats a symbol.", choices=BAD_LINE_NAMES
    )

    def __post_init__(self) -> None:
        if isinstance(self.symbols, os.PathLike):
            object.__setattr__(self, "symbols", os.fspath(self.symbols))
        for name in ("tensor", "symbols", "symbol_column", "vector_column"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise OptionError(f"{name} must be a string, got {value!r}")
        limit = self.limit
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            raise OptionError(f"limit must be an integer of at least 1, got {limit!r}")
        if self.on_bad_line not in BAD_LINE_NAMES:
            raise OptionError(f"on_bad_line must be one of {', '.join(BAD_LINE_NAMES)}, got {self.on_bad_line!r}")

    @classmethod
    def of(cls, given: dict[str, Any]) -> ReadOptions:
        """Options by name; an unknown name is refused with the list of known ones."""
        known = [item.name for item in fields(cls)]
        for name in given:
            if name not in known:
                raise OptionError(f"there is no option {name!r}; the options of reading are {', '.join(known)}")
        return cls(**given)

    def changed_names(self) -> list[str]:
        """The options that differ from their defaults."""
        return [item.name for item in fields(self) if getattr(self, item.name) != item.default]


@dataclass(frozen=True)
class Format:
    """One foreign format.

    Args:
        name: what `format=` calls it.
        description: one line for people.
        suffixes: how names of such files end; a format may share a suffix with another, `detect` then looks inside.
        read: gives the table of a file.
        options: the fields of `ReadOptions` that mean something here.
        write: writes rows to a file, or None where the format is read only.
        extra: the optional dependency that it needs, or None.
    """

    name: str
    description: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, ReadOptions, Progress | None], VectorTable]
    options: tuple[str, ...]
    write: Callable[[Rows, Path, Progress | None], None] | None = None
    extra: str | None = None

    def check_options(self, options: ReadOptions) -> None:
        """Refuse options that would be ignored: they are most likely a mistake about the file."""
        for name in options.changed_names():
            if name not in self.options:
                raise OptionError(
                    f"the option {name!r} means nothing for the format {self.name!r}; "
                    f"its options are {', '.join(self.options)}"
                )


def cannot(action: str, path: Path, error: OSError) -> FormatError:
    """The refusal for a file that the system does not let us read or write."""
    return FormatError(f"{path}: cannot be {action}: {error.strerror or error}")
