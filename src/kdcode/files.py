"""Writing files so that nothing is lost or half-written."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
