"""Files by path or by a URL that fsspec opens, such as s3://bucket/part.parquet; patterns and folders; pipes."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from kdcode.errors import FileError, FormatError, LimitError, MissingExtraError, file_error
from kdcode.files import check_readable, is_pipe, spooled
from kdcode.printable import shown

_PATTERN = re.compile(r"[*?\[]")
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


@dataclass(frozen=True)
class Place:
    """Where a file is.

    Args:
        name: its path, or a URL.
    """

    name: str

    @property
    def is_remote(self) -> bool:
        """Whether it is a URL, which fsspec opens."""
        return bool(_URL.match(self.name))

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The file, open for reading, with `seek`.

        Raises:
            FileError: it is not there (also a FileNotFoundError), or cannot be read.
            MissingExtraError: it is a URL, and fsspec is not installed.
        """
        if not self.is_remote:
            check_readable(Path(self.name))
        try:
            with self._stream() as stream:
                yield stream
        except FileError:
            raise
        except OSError as error:
            raise file_error(self.name, "read", error) from error

    def _stream(self) -> BinaryIO:
        if not self.is_remote:
            return Path(self.name).open("rb")
        files, path = _file_system(self.name)
        return cast(BinaryIO, files.open(path, "rb"))

    def size(self) -> int:
        """Its bytes."""
        with self.opened() as stream:
            return stream.seek(0, os.SEEK_END)

    def fingerprint(self) -> str:
        """A digest of the name, the size and the time of writing, as far as these are known."""
        try:
            if self.is_remote:
                files, path = _file_system(self.name)
                state = str(files.ukey(path))
            else:
                found = Path(self.name).stat()
                state = f"{found.st_size} {found.st_mtime_ns}"
        except OSError as error:
            raise file_error(self.name, "read", error) from error
        return hashlib.sha256(f"{self.name}\n{state}".encode("utf-8", "surrogateescape")).hexdigest()


def named_places(pattern: str) -> list[Place]:
    """The files that a path, a URL, a folder or a pattern names, sorted by name.

    A path that exists is taken as it is, even if it looks like a pattern. Files of a folder whose names begin with a
    dot or an underscore are left out: writers of parts put their own notes there.

    Raises:
        FileError: there is no such file.
    """
    if _URL.match(pattern):
        return _remote_places(pattern)
    path = Path(pattern)
    if path.is_dir():
        found = [os.fspath(each) for each in path.iterdir() if each.is_file() and each.name[0] not in "._"]
    elif path.exists() or not _PATTERN.search(pattern):
        check_readable(path)
        return [Place(pattern)]
    else:
        found = [each for each in glob.glob(pattern, recursive=True) if Path(each).is_file()]  # noqa: PTH207
    return _sorted_places(pattern, found)


def _remote_places(url: str) -> list[Place]:
    files, path = _file_system(url)
    protocol = url.partition("://")[0]
    try:
        if _PATTERN.search(path):
            found = [each for each in files.glob(path) if files.isfile(each)]
        elif files.isdir(path):
            each_name = ((each, each.rpartition("/")[2]) for each in files.ls(path, detail=False))
            found = [each for each, name in each_name if name[:1] not in ("", ".", "_") and files.isfile(each)]
        else:
            return [Place(url)]
    except OSError as error:
        raise file_error(url, "read", error) from error
    return _sorted_places(url, [f"{protocol}://{each}" for each in found])


def _sorted_places(pattern: str, found: list[str]) -> list[Place]:
    if not found:
        raise file_error(pattern, "read", FileNotFoundError(2, ""))
    return [Place(each) for each in sorted(found)]


def _file_system(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError(f"reading {url}", "remote") from None
    try:
        files, path = url_to_fs(url)
    except (ImportError, ValueError) as error:  # a protocol whose package is missing, or that is unknown
        raise file_error(url, "read", OSError(22, str(error))) from error
    return files, str(path)


@contextmanager
def on_disk(path: Path) -> Iterator[Path]:
    """The path of the file at `path`, or of a temporary copy of the pipe there; errors name the pipe, not its copy.

    Raises:
        FileError: nothing is there (also a FileNotFoundError), or it cannot be read.
    """
    check_readable(path)
    if not is_pipe(path):
        yield path
        return
    with path.open("rb") as stream, spooled(stream, path.name) as copy:
        try:
            yield copy
        except (FormatError, LimitError) as error:
            raise type(error)(str(error).replace(shown(str(copy)), str(path))) from error
