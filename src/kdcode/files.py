"""Files that appear whole or not at all, and pipes made into files."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and vanishes when it does not.

    Where `path` is a symbolic link, the file it leads to is replaced and the link stays.
    """
    target = path.resolve()
    temporary = target.with_name(f".kdcode-{secrets.token_hex(8)}.tmp")
    # Made with the permissions that any new file gets; tempfile would make it private, and only os.umask could tell
    # what it should have been, for all threads at once.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())  # the bytes reach the disk before the name does
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def is_pipe(path: Path) -> bool:
    """Whether what is at `path` can be read only once, from its beginning to its end: a pipe, or standard input."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def spooled(stream: IO[bytes], name: str) -> Iterator[Path]:
    """What a stream holds as a file called `name`, alone in a temporary folder that vanishes with the block."""
    with TemporaryDirectory(prefix="kdcode-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, name)
        with path.open("wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
        yield path
