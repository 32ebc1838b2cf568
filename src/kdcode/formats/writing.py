"""What all writers share: rows checked before they are written, files that appear whole or not at all."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

import numpy as np

from kdcode.errors import FormatError
from kdcode.files import replacing
from kdcode.formats.format import Progress
from kdcode.table import FloatArray

if TYPE_CHECKING:
    from kdcode.evaluation.reconstruction import Rows

ByteStream: TypeAlias = IO[bytes] | gzip.GzipFile

SymbolFault: TypeAlias = Callable[[str], str | None]
"""Why a format cannot hold a symbol, or None if it can."""


@contextmanager
def fresh_file(path: Path) -> Iterator[ByteStream]:
    """A file that takes the place of `path` when the block ends well; gzipped if the name ends in .gz."""
    with ExitStack() as stack:
        temporary = stack.enter_context(replacing(path))
        stream: ByteStream = stack.enter_context(temporary.open("wb"))
        if path.suffix.lower() == ".gz":
            # No name and no time inside: the same table always gives the same bytes.
            stream = stack.enter_context(
                gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=6, mtime=0)
            )
        yield stream


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
            reason = fault(symbol)
            if reason is not None:
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


def plain_symbol_fault(symbol: str) -> str | None:
    """Why a symbol cannot stand where a space or a line end would end it, or None."""
    if not symbol:
        return "is empty, and this format has no place for that"
    if " " in symbol:
        return "holds a space, which ends a symbol in this format"
    if "\n" in symbol:
        return "holds a line break, which ends a row in this format"
    return None


def text_lines(symbols: Sequence[str], vectors: FloatArray) -> bytes:
    """A piece of a table as lines `symbol number … number`.

    Numbers have the fewest digits that give back the same float32.
    """
    numbers = vectors.astype("U32").tolist()
    lines = (f"{symbol} {' '.join(row)}\n" for symbol, row in zip(symbols, numbers, strict=True))
    return "".join(lines).encode("utf-8")


def write_with_header(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write the header "rows dimension" and then one line per row."""
    with fresh_file(path) as stream:
        stream.write(f"{len(rows)} {rows.embedding_dim}\n".encode())
        for symbols, vectors in checked_chunks(rows, path, plain_symbol_fault, on_progress):
            stream.write(text_lines(symbols, vectors))
