"""Files as blocks of bytes and blocks of lines, in bounded memory. Gzip is known by its first bytes, not its name."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from kdcode.errors import FormatError, file_error
from kdcode.formats.format import Progress
from kdcode.limits import MemoryLimit

BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 21
"""A longer line is taken as a sign that the file is not text; 2 MB hold some 200,000 numbers."""

GZIP_MAGIC = b"\x1f\x8b"
_LINE_COST = 100
"""Bytes that each line of a gzipped file counts for beside its own: many short ones take time rather than memory."""


def is_gzip(path: Path) -> bool:
    """Whether the file begins like a gzip file."""
    with path.open("rb") as stream:
        return stream.read(2) == GZIP_MAGIC


def byte_blocks(path: Path, on_progress: Progress | None = None, limit: MemoryLimit | None = None) -> Iterator[bytes]:
    """The file's content, unpacked if it is gzipped, in blocks of at most `BLOCK_BYTES`.

    Args:
        path: the file.
        on_progress: called after each block.
        limit: how much the content of a gzipped file may become; without end if None.

    Raises:
        FormatError: the file cannot be read, or its gzip data is damaged or ends early.
        LimitError: there is more in the gzipped file than the limit allows.
    """
    unpacked = lines = 0
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == GZIP_MAGIC
            stream = gzip.GzipFile(fileobj=raw) if packed else raw
            total = path.stat().st_size
            while block := stream.read(BLOCK_BYTES):
                unpacked += len(block)
                if packed and limit is not None:
                    lines += block.count(b"\n")
                    limit.check("the content of the gzipped file", unpacked + _LINE_COST * lines)
                yield block
                if on_progress:
                    on_progress(raw.tell(), total)
    except EOFError:
        raise FormatError(
            f"{path}: the gzip data ends early, in the megabyte after {unpacked} unpacked bytes; "
            "the file is truncated, fetch it again"
        ) from None
    except (zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"{path}: the gzip data is damaged after {unpacked} unpacked bytes: {error}") from None
    except OSError as error:
        raise file_error(path, "read", error) from error


def line_blocks(
    path: Path, on_progress: Progress | None = None, limit: MemoryLimit | None = None
) -> Iterator[tuple[int, list[bytes]]]:
    r"""The file's lines without their `\n`, as (number of the first line from 1, lines); arguments as `byte_blocks`.

    Only `\n` ends a line: word lists hold characters such as U+0085, which Python's own splitting would break at.
    """
    number, rest = 1, bytearray()
    for block in byte_blocks(path, on_progress, limit):
        first, *lines = block.split(b"\n")
        rest += first
        if lines:
            last = lines.pop()
            yield number, [bytes(rest), *lines]
            number += 1 + len(lines)
            rest = bytearray(last)
        if len(rest) > MAX_LINE_BYTES:
            raise FormatError(f"{path}: line {number} is longer than {MAX_LINE_BYTES} bytes; this is not a text file")
    if rest:
        yield number, [bytes(rest)]


def first_bytes(path: Path, count: int) -> bytes:
    """Up to `count` bytes of the content, unpacked if it is gzipped."""
    return next(byte_blocks(path), b"")[:count]
