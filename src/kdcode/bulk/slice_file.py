"""The Parquet file of a slice: ids and packed codes, with a stamp that says which run it belongs to."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kdcode.bulk.losses import RowLosses
from kdcode.bulk.slices import Slice
from kdcode.errors import FormatError, KdcodeError, MissingExtraError

ID_COLUMN, CODE_COLUMN = "id", "code"
_STAMP, _SLICE, _LOSSES = b"kdcode.manifest", b"kdcode.slice", b"kdcode.losses"
_READ_ROWS = 1 << 16

Arrow: TypeAlias = Any
"""The modules and objects of pyarrow, which has no types."""


def require_parquet() -> None:
    """Refuse work whose results could not be written.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    _pyarrow()


def slice_bytes(
    piece: Slice, stamp: str, packed: npt.NDArray[np.uint8], symbols: Sequence[str] | None, losses: RowLosses
) -> bytes:
    """The whole file of a slice.

    Args:
        piece: which slice it is.
        stamp: of the manifest.
        packed: (n, row bytes) codes as they are in a .kdc file.
        symbols: n strings; None where ids are the numbers of rows over all parts.
        losses: how far the vectors are from those of their codes.
    """
    pyarrow = _pyarrow()
    if symbols is None:
        ids = pyarrow.array(np.arange(piece.first_row, piece.first_row + piece.rows, dtype=np.int64))
    else:
        ids = pyarrow.array(symbols, pyarrow.string())
    width = packed.shape[1]
    codes = pyarrow.FixedSizeBinaryArray.from_buffers(
        pyarrow.binary(width), len(packed), [None, pyarrow.py_buffer(np.ascontiguousarray(packed))]
    )
    schema = pyarrow.schema(
        [
            pyarrow.field(ID_COLUMN, ids.type, nullable=False),
            pyarrow.field(CODE_COLUMN, codes.type, nullable=False),
        ],
        metadata={_STAMP: stamp, _SLICE: str(piece.number), _LOSSES: json.dumps(losses.as_json())},
    )
    content = io.BytesIO()
    table = pyarrow.table([ids, codes], schema=schema)
    pyarrow.parquet.write_table(table, content, use_dictionary=False, write_page_checksum=True)
    return content.getvalue()


def is_finished(path: Path, piece: Slice, stamp: str) -> bool:
    """Whether the whole file of a slice is there, and of this manifest. Its rows are read when it is used."""
    pyarrow = _pyarrow()
    try:
        with path.open("rb") as stream:
            found = pyarrow.parquet.ParquetFile(stream)
            told = found.schema_arrow.metadata or {}
            return bool(
                told.get(_STAMP) == stamp.encode()
                and told.get(_SLICE) == str(piece.number).encode()
                and found.metadata.num_rows == piece.rows
            )
    except (OSError, ValueError, pyarrow.ArrowException):
        return False  # there is none, or it is damaged: it is made again


def read_losses(path: Path) -> RowLosses:
    """How far the vectors of a slice are from those of their codes.

    Raises:
        FormatError: the file is damaged.
    """
    try:
        with path.open("rb") as stream:
            schema = _pyarrow().parquet.read_schema(stream)
        return RowLosses.of_json(json.loads(schema.metadata[_LOSSES]))
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, error) from None


def read_slice(path: Path, piece: Slice, row_bytes: int) -> Iterator[tuple[list[str] | None, npt.NDArray[np.uint8]]]:
    """The rows of a finished slice in pieces: symbols, or None, and (n, row bytes) codes.

    Raises:
        FormatError: the file is damaged, or is not what a slice is.
    """
    pyarrow = _pyarrow()
    expected = piece.first_row
    try:
        with path.open("rb") as stream:
            file = pyarrow.parquet.ParquetFile(stream, page_checksum_verification=True)
            if file.schema_arrow.names != [ID_COLUMN, CODE_COLUMN]:
                raise ValueError(f"its columns are {file.schema_arrow.names}")
            for batch in file.iter_batches(_READ_ROWS, use_threads=False):
                ids, codes = batch.column(0), batch.column(1)
                if codes.type != pyarrow.binary(row_bytes) or ids.null_count or codes.null_count:
                    raise ValueError(f"its codes are {codes.type}, or some are missing")
                packed = np.frombuffer(codes.buffers()[1], dtype=np.uint8).reshape(-1, row_bytes)
                packed = packed[codes.offset : codes.offset + len(codes)]
                if pyarrow.types.is_int64(ids.type):
                    numbers = ids.to_numpy()
                    if not np.array_equal(numbers, np.arange(expected, expected + len(numbers))):
                        raise ValueError(f"its row numbers do not go on from {expected}")
                    symbols = None
                else:
                    symbols = ids.to_pylist()
                expected += len(packed)
                yield symbols, packed
    except KdcodeError:
        raise
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise _damaged(path, error) from None
    if expected != piece.first_row + piece.rows:
        raise _damaged(path, ValueError(f"it has {expected - piece.first_row} rows of {piece.rows}"))


def _damaged(path: Path, error: Exception) -> FormatError:
    reason = str(error).strip().partition("\n")[0][:200]
    return FormatError(f"{path}: is damaged: {reason!r}; remove it, and encode again: the other slices are kept")


def _pyarrow() -> Arrow:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("writing codes as Parquet", "parquet") from None
    return pyarrow
