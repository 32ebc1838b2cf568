"""Files by their path or by a URL that fsspec knows, such as s3://bucket/part.parquet, and what a pattern names."""

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

from kdcode.errors import FileError, MissingExtraError, file_error
from kdcode.files import check_readable

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

    def fingerprint(self) -> str:
        """What changes when the file does: its name, its size, and when it was written, as far as that is known."""
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
    """The files that a path, a URL, a folder or a pattern names, sorted by name; a file is always itself.

    Of a folder these are its files, but for those whose names begin with a dot or an underscore, as writers of parts
    leave them beside their parts.

    Raises:
        FileError: there is nothing.
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
    """What fsspec opens a URL with, and the path there."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError(f"reading {url}", "remote") from None
    try:
        files, path = url_to_fs(url)
    except (ImportError, ValueError) as error:  # a protocol whose package is missing, or that is unknown
        raise file_error(url, "read", OSError(22, str(error))) from error
    return files, str(path)
