"""Locks that end with the process that holds them, and the removal of what killed processes have left behind.

kdcode puts two kinds of hidden files beside those that it writes: `.kdcode-HOST-RANDOM.tmp` is a file or a folder that
is being written, `.kdcode-NAME.lock` says that a run uses the file of that name; HOST and NAME are digests. Each is
locked by its process as long as it is in use, and the system unlocks it when the process ends, in whatever way. So one
that nobody has locked was left by a process that was killed, and is removed by the next that writes to the same folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked, and nothing taken for left behind
    fcntl = None  # type: ignore[assignment]

HAS_LOCKS = fcntl is not None

_TEMPORARY = re.compile(r"\.kdcode-([0-9a-f]{8})-[0-9a-f]{16}\.tmp")
_LOCK = re.compile(r"\.kdcode-[0-9a-f]{24}\.lock")
_SECONDS_OF_ANOTHER_HOST = 86_400.0
"""How old a temporary file of another computer must be: its locks may not reach us over a network file system."""
_OPEN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_OPEN = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def _lock(descriptor: int) -> bool | None:
    """Lock an open file. False: another has locked it. None: this file system has no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one at a path."""
    try:
        there, ours = path.stat(follow_symlinks=False), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _this_host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def new_temporary(folder: Path, mode: int) -> tuple[Path, int]:
    """A new, empty and locked file with a short name; the lock lasts until the descriptor is closed.

    Args:
        folder: where.
        mode: its permissions, before those are taken away that no new file has.

    Raises:
        OSError: the folder is missing or closed, or the disk is full.
    """
    while True:
        path = folder / f".kdcode-{_this_host()}-{secrets.token_hex(8)}.tmp"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        if _lock(descriptor) is not False and _is_at(path, descriptor):
            return path, descriptor
        os.close(descriptor)  # somebody took it for left behind, before it was locked


def new_temporary_folder(parent: Path) -> tuple[Path, int]:
    """A new, empty and locked folder; the lock lasts until the descriptor is closed, which is -1 without locks.

    Raises:
        OSError: the folder above it is missing or closed, or the disk is full.
    """
    while True:
        path = parent / f".kdcode-{_this_host()}-{secrets.token_hex(8)}.tmp"
        path.mkdir()
        if fcntl is None:
            return path, -1
        with suppress(FileNotFoundError):  # somebody took it for left behind, before it was locked
            descriptor = os.open(path, _OPEN_FOLDER)
            if _lock(descriptor) is not False and _is_at(path, descriptor):
                return path, descriptor
            os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time use the file at `path`, which need not exist.

    Raises:
        BlockingIOError: another process, or another call of this one, uses it; it is named if it can be.
        OSError: the folder is missing or closed.
    """
    target = Path(os.path.realpath(path))
    remove_leftovers(target.parent)
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:24]
    lock = target.with_name(f".kdcode-{name}.lock")
    descriptor = _locked_file(lock)
    try:
        yield
    finally:
        with suppress(OSError):
            if _is_at(lock, descriptor):
                lock.unlink()
        os.close(descriptor)


def _locked_file(path: Path) -> int:
    """The descriptor of the lock file at a path, locked, with the number of this process in it."""
    while True:
        try:
            descriptor = os.open(path, _OPEN | os.O_CREAT, 0o644)
        except PermissionError:
            if not path.exists():
                raise
            descriptor = os.open(path, os.O_RDONLY)  # another user's, which can be locked, but not written to
        is_locked = _lock(descriptor)
        if is_locked is False:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            named = f"process {holder}" if holder.isdecimal() else "another process"
            raise BlockingIOError(errno.EWOULDBLOCK, f"{named} is using it", os.fspath(path))
        if _is_at(path, descriptor):
            with suppress(OSError):  # a full disk: the lock holds, and only the number is missing
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
            return descriptor
        os.close(descriptor)  # its process ended and removed it while we opened it


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary and lock files of processes that have ended; what cannot be removed stays."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name) or _LOCK.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_if_left_behind(Path(entry.path))


def _remove_if_left_behind(path: Path) -> None:
    found = path.stat(follow_symlinks=False)
    temporary = _TEMPORARY.fullmatch(path.name)
    is_folder = temporary is not None and stat.S_ISDIR(found.st_mode)
    is_file = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
    if not (is_file or is_folder) or found.st_uid != os.geteuid():
        return  # not as we make them, or another user's
    is_ours = temporary is None or temporary[1] == _this_host()
    if not is_ours and time.time() - found.st_mtime < _SECONDS_OF_ANOTHER_HOST:
        return
    descriptor = os.open(path, _OPEN_FOLDER if is_folder else _OPEN)
    try:
        if _lock(descriptor) and _is_at(path, descriptor):
            shutil.rmtree(path) if is_folder else path.unlink()
    finally:
        os.close(descriptor)
