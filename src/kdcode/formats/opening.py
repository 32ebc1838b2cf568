"""Files about to be read; pipes are copied to files, which can be read more than once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kdcode.errors import FormatError, LimitError
from kdcode.files import check_readable, is_pipe, spooled
from kdcode.printable import shown


@contextmanager
def on_disk(path: Path) -> Iterator[Path]:
    """The path of the file, or of a copy of the pipe, that is at `path`; messages name the pipe, not its copy.

    Raises:
        FileError: nothing is there (also a FileNotFoundError), or it cannot be read.
    """
    check_readable(path)
    try:
        if not is_pipe(path):
            yield path
            return
        with path.open("rb") as stream, spooled(stream, path.name) as copy:
            try:
                yield copy
            except FormatError as error:
                raise FormatError(str(error).replace(shown(str(copy)), str(path))) from error
    except LimitError as error:
        raise LimitError(f"{path}: {error}") from error
