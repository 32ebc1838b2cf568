"""append: rows coded by the codec of a file, and added to it; the codes that are there stay what they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdcode.bulk.encoding import encoded_chunks
from kdcode.bulk.losses import RowLosses
from kdcode.bulk.settings import EncodeSettings
from kdcode.coded import CodedTable
from kdcode.errors import CheckpointInUseError, KdcodeError, OptionError, TableError, file_error
from kdcode.file_locks import locked
from kdcode.io import Reader, open_reader
from kdcode.storage import load
from kdcode.stream_storage import writing_table
from kdcode.symbols import RowNumbers
from kdcode.threads import using_threads

_APPENDED = ("appended_rows", "appended_error", "appended_squared_length")
_MOST_ROWS = 1 << 48
_MOST_ERROR = 1e80
"""More than squares of float32 numbers add up to."""


@dataclass(frozen=True)
class AppendReport:
    """What `append` did.

    Args:
        path: the file that was written.
        file_bytes: its bytes.
        rows_before: how many rows there were.
        rows_added: how many were added.
        relative_error: of the rows that were added: squared error over their variance.
    """

    path: Path
    file_bytes: int
    rows_before: int
    rows_added: int
    relative_error: float


def append(
    path: str | os.PathLike[str],
    rows: str | os.PathLike[str] | Reader,
    output: str | os.PathLike[str] | None = None,
    *,
    settings: EncodeSettings | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AppendReport:
    """Add rows to a .kdc file, coded by its codec, which is not learned anew; the rows that are there keep their codes.

    Neither the file nor the new rows need to fit into memory. The file is replaced when the new one is whole. A
    codebook without rows becomes a table.

    Args:
        path: a .kdc file.
        rows: the path, pattern or URL of .npy, safetensors or Parquet files, or a source that is open.
        output: the file to write; that at `path` where left out.
        settings: how codes are searched for.
        threads: on how many threads; on as many as there are CPUs if None.
        progress: called with rows encoded and rows to encode.

    Raises:
        TableError: a symbol is there already; it is named with both rows.
        OptionError: the vectors are not those of the table, or only one of the two has symbols.
        FormatError: a new row is damaged or not finite.
        CheckpointInUseError: another process appends to the same file.
        FileError: a file cannot be read or written.
    """
    target = Path(path if output is None else output)
    source = rows if isinstance(rows, Reader) else open_reader(os.fspath(rows))
    with _held(target):
        table = load(path)
        _check(table, source, Path(path))
        losses = RowLosses.none(table.embedding_dim)
        with writing_table(target, table.codec) as writer:
            writer.add_table(table)
            with using_threads(threads):
                for symbols, packed in encoded_chunks(table.codec, source, settings or EncodeSettings(), losses):
                    writer.add(packed, symbols)
                    if progress is not None:
                        progress(losses.rows, len(source))
            try:
                size = writer.finish(_provenance(table, losses))
            except TableError as error:
                raise TableError(f"{source.name}: {error}; the rows of {path} are 0 to {len(table) - 1}") from error
    return AppendReport(target, size, len(table), losses.rows, losses.relative_error)


@contextmanager
def _held(target: Path) -> Iterator[None]:
    """The file to write, which no other process appends to meanwhile: one of the two would be lost."""
    try:
        with locked(target):
            yield
    except KdcodeError:
        raise
    except BlockingIOError as error:
        raise CheckpointInUseError(
            f"{target}: another process is writing it: {error.strerror}; append again when it has ended",
            error.strerror or "",
        ) from error
    except OSError as error:
        raise file_error(target, "written", error) from error


def _check(table: CodedTable, source: Reader, path: Path) -> None:
    if source.embedding_dim != table.embedding_dim:
        raise OptionError(
            f"{source.name}: its vectors have {source.embedding_dim} dimensions, those of {path} {table.embedding_dim}"
        )
    has_symbols = not isinstance(table.symbols, RowNumbers)
    if len(table) and has_symbols != source.has_symbols:
        which = ("have", "has none") if has_symbols else ("have no", "has some")
        raise OptionError(
            f"{source.name}: the rows of {path} {which[0]} symbols and this file {which[1]}; rows of both must be alike"
        )


def _provenance(table: CodedTable, losses: RowLosses) -> dict[str, Any]:
    """What was measured holds for the rows that were there; of all that were ever appended there are means.

    `appended_error` is their squared error over their squared length, `appended_squared_length` the mean of the latter:
    from these two, and how many rows they are of, the next call can go on.
    """
    before = table.provenance
    rows, squared, energy = losses.rows, losses.squared, losses.energy
    earlier = _earlier(before.get("appended"))
    if earlier is not None:
        count, error, mean_energy = earlier
        rows, squared, energy = rows + count, squared + error * count * mean_energy, energy + count * mean_energy
    values = (rows, squared / energy if energy else 0.0, energy / rows)
    learned = before.get("taken_from", {"rows": len(table), **before})
    return {"taken_from": learned, "appended": dict(zip(_APPENDED, values, strict=True))}


def _earlier(values: Any) -> tuple[int, float, float] | None:  # noqa: ANN401 - what a file says
    """Rows that were appended before, their error and their mean squared length; None where a file has no such numbers.

    Provenance is text of strangers, which no reader depends on: numbers that cannot be are left out.
    """
    if not isinstance(values, dict) or any(type(values.get(name)) not in (int, float) for name in _APPENDED):
        return None
    rows, *errors = (values[name] for name in _APPENDED)
    if type(rows) is not int or not 0 <= rows < _MOST_ROWS or not all(0 <= error < _MOST_ERROR for error in errors):
        return None
    return rows, float(errors[0]), float(errors[1])
