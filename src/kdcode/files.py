"""Files that appear whole or not at all, those that can be read, and pipes made into files."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from kdcode.errors import FileError, FolderError, file_error
from kdcode.file_locks import HAS_LOCKS, new_temporary, remove_leftovers

_MAX_NAME_BYTES = 255
"""What the file systems of Linux, macOS and Windows allow, or less."""

_NO_FILES = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and vanishes when it does not.

    Where `path` is a symbolic link, the file it leads to is replaced and the link stays. The permissions of a file that
    is replaced are kept, and its owner and group where the system lets us. What a process that was killed has left
    in the folder is removed. When the block has ended, both the bytes and the name are on the disk.

    Raises:
        OSError: see `replaceable`; or the folder is missing or closed.
    """
    target = replaceable(path)
    before = target.stat() if target.exists() else None
    remove_leftovers(target.parent)
    # Made with the permissions that any new file gets, unless it is to replace a file that may be private.
    temporary, descriptor = new_temporary(target.parent, 0o666 if before is None else 0o600)
    try:
        yield temporary
        if before is not None:
            _take_over(descriptor, before)
        os.fsync(descriptor)  # the bytes reach the disk before the name does
        if not HAS_LOCKS:
            os.close(descriptor)  # Windows renames no open file
            descriptor = -1
        temporary.replace(target)
        sync_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def replaceable(path: Path) -> Path:
    """The file that is replaced where `path` is written: the one that its symbolic links lead to. It need not exist.

    Raises:
        OSError: the links lead nowhere or in a circle, or what is there is a folder, a pipe or a device. The text is
            what follows "cannot be written: ".
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            reason = f"it is a symbolic link to {os.fspath(path.readlink())!r}, which does not exist"
            raise FileNotFoundError(errno.ENOENT, f"{reason}; remove the link", os.fspath(path)) from None
        return Path(os.path.realpath(path))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "its symbolic links lead in a circle", os.fspath(path)) from None
        raise
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file", os.fspath(path))
    if not stat.S_ISREG(mode):
        what = _NO_FILES.get(stat.S_IFMT(mode), "something else")
        raise OSError(errno.EINVAL, f"it is {what}, not a file", os.fspath(path))
    return Path(os.path.realpath(path))


def _take_over(descriptor: int, before: os.stat_result) -> None:
    """Give an open file the owner, group and permissions of the file that it is to replace, as far as allowed."""
    if not hasattr(os, "fchown"):
        return
    mode = stat.S_IMODE(before.st_mode)
    for owner in (before.st_uid, -1):  # only root may give files away, but any member of a group may give it a file
        with suppress(OSError):
            os.fchown(descriptor, owner, before.st_gid)
            break
    if os.fstat(descriptor).st_gid != before.st_gid:
        mode = mode & ~0o070 | (mode & 0o007) << 3  # another group is given no more than all others are
    if os.fstat(descriptor).st_uid != before.st_uid:
        mode &= ~0o6000  # set-user-ID is for the owner that it was set for
    with suppress(OSError):
        os.fchmod(descriptor, mode)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def beside(path: Path, name: str, ending: str) -> Path:
    """The file in the folder of `path` that is called `name` and `ending`.

    Where this is longer than a name can be, its beginning is kept, with a digest of `name` to tell it from others.

    Raises:
        FolderError: `path` has no name, as "." and "/" have none.
    """
    if not path.name:
        raise FolderError(errno.EISDIR, "is a folder, expected a file", str(path))
    whole = os.fsencode(name)
    if len(whole) + len(ending) <= _MAX_NAME_BYTES:
        return path.with_name(name + ending)
    digest = f"-{hashlib.sha256(whole).hexdigest()[:16]}"
    begin = whole[: _MAX_NAME_BYTES - len(digest) - len(ending)].decode("utf-8", "ignore")
    return path.with_name(begin + digest + ending)


def check_readable(path: Path) -> None:
    """Refuse what is no file that we may read, and no pipe.

    Raises:
        FileError: nothing is there (also a FileNotFoundError), or it is a folder, a device or closed to us.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise file_error(path, "read", error) from error
    except ValueError as error:  # a null byte, which no name of a file can hold
        raise file_error(path, "read", OSError(errno.EINVAL, f"this is no name of a file: {error}")) from error
    if stat.S_ISDIR(mode):
        raise FolderError(errno.EISDIR, "is a folder, expected a file", str(path))
    if not os.access(path, os.R_OK):
        raise file_error(path, "read", PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not _is_terminal(path)):
        raise FileError(errno.ENODEV, "is a device, which may have no end; expected a file or a pipe", str(path))


def _is_terminal(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        return os.isatty(descriptor)
    finally:
        os.close(descriptor)


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
