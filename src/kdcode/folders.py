"""Folders that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kdcode.errors import FileError, file_error
from kdcode.file_locks import new_temporary_folder, remove_leftovers
from kdcode.files import sync_folder


def check_new_folder(path: Path, *, replace: bool = False) -> None:
    """Refuse a place for a new folder where something is, other than an empty folder, or where none can be made.

    Args:
        path: the place.
        replace: whether a folder with files in it may be there.

    Raises:
        FileError: what is there; or the folder above it is missing or closed.
    """
    try:
        is_free = not os.path.lexists(path) or (path.is_dir() and (replace or not any(path.iterdir())))
        if not is_free:
            raise FileError(
                errno.EEXIST,
                "is there already; expected a new folder, or an empty one: remove it or name another",
                path,
            )
        above = path.absolute().parent
        if not above.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if not os.access(above, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except FileError:
        raise
    except OSError as error:
        raise file_error(path, "written", error) from error


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its name when the block ends well, and vanishes when it does not.

    When the block has ended, its files and their names are on the disk. What a process that was killed has left beside
    it is removed. A folder that is replaced is renamed first and removed last, so one of the two is always there.

    Args:
        path: the folder.
        replace: whether a folder with files in it is replaced.

    Raises:
        FileError: see `check_new_folder`; or the disk is full.
    """
    check_new_folder(path, replace=replace)
    target = Path(os.path.realpath(path))
    remove_leftovers(target.parent)
    try:
        temporary, descriptor = new_temporary_folder(target.parent)
    except OSError as error:
        raise file_error(path, "written", error) from error
    old = None
    try:
        yield temporary
        _sync_all(temporary)
        if target.exists() and replace:
            old = target.rename(target.with_name(f"{target.name}.old-{secrets.token_hex(4)}"))
        elif target.exists():
            target.rmdir()  # it is empty, or this is refused
        temporary.rename(target)
        sync_folder(target.parent)
        if old is not None:
            shutil.rmtree(old)
    except BaseException as error:
        if old is not None and old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, FileError):
            raise file_error(path, "written", error) from error
        raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _sync_all(folder: Path) -> None:
    """Bring all files of a folder and their names to the disk."""
    for place, _, names in os.walk(folder):
        for name in names:
            with Path(place, name).open("rb+") as stream:
                os.fsync(stream.fileno())
        sync_folder(Path(place))
