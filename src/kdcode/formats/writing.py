"""What all writers share: rows checked before they are written, files that appear whole or not at all."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np

from kdcode.arrays import FloatArray
from kdcode.errors import FormatError
from kdcode.files import replacing
from kdcode.formats.format import Progress
from kdcode.rows import Rows

ByteStream: TypeAlias = IO[bytes] | gzip.GzipFile

SymbolFault: TypeAlias = Callable[[str], str | None]
"""Why a format cannot hold a symbol, or None if it can."""


@contextmanager
def fresh_file(path: Path) -> Iterator[ByteStream]:
    """A file that takes the place of `path` when the block ends well; gzipped if the name ends in .gz."""
    with replacing(path) as temporary, temporary.open("wb") as stream:
        if path.suffix.lower() != ".gz":
            yield stream
            return
        # No name and no time inside: the same table always gives the same bytes.
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=6, mtime=0) as packed:
            yield packed


def checked_chunks(
    rows: Rows, path: Path, fault: SymbolFault, on_progress: Progress | None
) -> Iterator[tuple[Sequence[str], FloatArray]]:
    """Pieces of `rows`, each checked before it is handed on: (n) symbols and (n, d) vectors.

    Raises:
        FormatError: a symbol that the format cannot hold, or a number that is not finite; the message names the row.
    """
    done = 0
    for symbols, vectors in rows.chunks():
        for row, symbol in enumerate(symbols, done):
            if reason := fault(symbol):
                raise FormatError(
                    f"{path}: row {row}: the symbol {symbol!r} {reason}; "
                    "the format 'parquet' holds any symbol, or rename this one"
                )
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            row = int(finite.argmin())
            raise FormatError(f"{path}: row {done + row}: {symbols[row]!r} has a number that is not finite")
        yield symbols, vectors
        done += len(symbols)
        if on_progress:
            on_progress(done, len(rows))
