"""NumPy files: .npy holds a matrix, and .npz the arrays `vectors` and `symbols`, or one matrix."""

from __future__ import annotations

import os
import warnings
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.lib.format
import numpy.typing as npt

from kdcode.errors import FormatError, KdcodeError
from kdcode.io import matrices
from kdcode.io.format import ReadOptions
from kdcode.io.lines import SYMBOL_BYTES
from kdcode.io.matrices import MatrixReader, StoredArray
from kdcode.io.places import Place
from kdcode.io.reader import Progress, Reader
from kdcode.limits import MemoryLimit
from kdcode.rows import Rows
from kdcode.table import VectorTable

VECTORS, SYMBOLS = "vectors", "symbols"
_PIECE_BYTES = 1 << 20
_MAX_HEADER_BYTES = 1 << 16
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def open_npy(place: Place, options: ReadOptions, on_progress: Progress | None) -> Reader:
    """The rows of a .npy file; without a file of symbols they are unnamed."""
    with place.opened() as stream:
        try:
            header = read_array_header(stream)
        except ValueError as error:
            raise FormatError(f"{place.name}: not a usable .npy file: {error}") from None
        there = stream.seek(0, os.SEEK_END) - header.start
    if len(header.shape) != 2:
        raise FormatError(f"{place.name}: expected a matrix of shape (rows, dimension), found shape {header.shape}")
    if header.dtype.kind not in "fiu":
        raise FormatError(f"{place.name}: not a usable .npy file: expected real numbers, found a matrix {header}")
    if not 0 < header.nbytes <= there:
        raise FormatError(
            f"{place.name}: not a usable .npy file: a matrix {header} does not fit into its {there} bytes"
        )
    return MatrixReader(place, header, options)


def write_npy(rows: Rows, path: Path, on_progress: Progress | None) -> None:
    """Write a float32 .npy file, and the symbols of a table that has them to `<stem>.symbols.txt` beside it."""
    head = BytesIO()
    shape = (len(rows), rows.embedding_dim)
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
    matrices.write(rows, path, on_progress, head.getvalue())


def read_npz(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of an .npz file.

    `symbols` is an array of N strings, or of bytes: UTF-8 with a line break between symbols.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _entries(archive)
            shapes = {name: entry.header.shape for name, entry in entries.items() if entry.header.dtype.kind in "fiu"}
            wanted = VECTORS if options.tensor is None and len(shapes.get(VECTORS, ())) == 2 else options.tensor
            chosen = entries[matrices.choose(path, shapes, wanted)]
            rows = chosen.header.shape[0]
            kept = options.rows_of(rows)
            limit = options.memory_limit(path)
            named = entries.get(SYMBOLS) if options.symbols is None else None
            symbols = None if named is None else _symbols(path, named, rows, kept, limit)
            matrix = chosen.matrix(kept, limit)
    except KdcodeError:
        raise
    except Exception as error:  # zip and deflate: damage ends in any of a dozen exceptions
        raise FormatError(f"{path}: not a usable .npz file: {error}") from None
    if symbols is None:
        return matrices.named_table(path, options, matrix, rows)
    return VectorTable(symbols, matrix)


def read_array_header(stream: IO[bytes]) -> StoredArray:
    """The array at the beginning of a stream, as .npy files and the entries of .npz archives begin.

    numpy evaluates the header as a Python literal of limited length. A hostile one ends in warnings and in many
    errors of Python's parser.

    Raises:
        ValueError: there is none, or it is not what numpy writes.
    """
    raw = stream.read(12)
    width = 2 if raw[6:7] == b"\1" else 4
    length = int.from_bytes(raw[8 : 8 + width], "little")
    if length > _MAX_HEADER_BYTES:
        raise ValueError(f"its header claims {length} bytes")
    begin = BytesIO(raw + stream.read(8 + width + length - len(raw)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(begin)
            read = np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
            shape, by_columns, dtype = read(begin)
    except Exception as error:  # RecursionError, MemoryError, TokenError and others of the parser
        raise ValueError(f"its header is malformed: {str(error)[:200]}") from None
    if len(shape) > 64 or any(type(size) is not int or not 0 <= size < 1 << 48 for size in shape):
        raise ValueError(f"its header is malformed: an array of shape {str(shape)[:80]}")
    return StoredArray(begin.tell(), shape, dtype, "F" if by_columns else "C")


@dataclass(frozen=True)
class _Entry:
    """An array in an archive."""

    archive: zipfile.ZipFile
    name: str
    info: zipfile.ZipInfo
    header: StoredArray

    def check(self) -> None:
        """Compare what the header promises with the size of the entry."""
        promised = self.header.start + self.header.nbytes
        if self.header.dtype.kind not in "fiuSU" or promised != self.info.file_size:
            raise ValueError(f"{self.name!r} {self.header} takes {promised} bytes, the entry has {self.info.file_size}")

    def elements(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """The first bytes of its elements."""
        data = np.empty(nbytes, dtype=np.uint8)
        with self.archive.open(self.info) as stream:
            stream.read(self.header.start)
            for start in range(0, nbytes, _PIECE_BYTES):
                piece = data[start : start + _PIECE_BYTES]
                raw = stream.read(len(piece))
                if len(raw) < len(piece):
                    raise ValueError("an entry of the archive ends early")
                piece[:] = np.frombuffer(raw, np.uint8)
        return data

    def matrix(self, rows: int, limit: MemoryLimit) -> npt.NDArray[Any]:
        """Its first rows; all are unpacked where columns lie one after another."""
        self.check()
        header = self.header
        taken = header.shape[0] if header.order == "F" else rows
        nbytes = taken * header.shape[1] * header.dtype.itemsize
        limit.check(f"the array {self.name!r}, {taken} x {header.shape[1]} {header.dtype},", nbytes)
        shape = (taken, header.shape[1])
        order: Any = header.order
        return self.elements(nbytes).view(header.dtype).reshape(shape, order=order)[:rows]


def _entries(archive: zipfile.ZipFile) -> dict[str, _Entry]:
    """The arrays of an archive by name."""
    entries: dict[str, _Entry] = {}
    for info in archive.infolist():
        if not info.filename.endswith(".npy"):
            continue
        name = info.filename.removesuffix(".npy")
        if name in entries:
            raise ValueError(f"two of its arrays are called {name!r}")
        if info.compress_type not in _METHODS:
            raise ValueError(f"{name!r} is compressed by method {info.compress_type}; expected none, or deflate")
        try:
            with archive.open(info) as stream:
                entries[name] = _Entry(archive, name, info, read_array_header(stream))
        except ValueError as error:
            raise ValueError(f"{name!r} is no array: {error}") from None
    return entries


def _symbols(path: Path, entry: _Entry, rows: int, kept: int, limit: MemoryLimit) -> list[str]:
    """The first `kept` of the symbols, of which there must be one for each of `rows` rows."""
    header = entry.header
    packed = header.dtype == np.uint8
    if len(header.shape) != 1 or not (packed or header.dtype.kind in "SU"):
        raise FormatError(
            f"{path}: expected {SYMBOLS!r} to be a list of strings, found {header.dtype} of shape {header.shape}"
        )
    entry.check()
    size = header.dtype.itemsize
    unpacked = header.nbytes if packed else min(kept, header.shape[0]) * size
    limit.check(f"{kept} of the {SYMBOLS!r}", unpacked + kept * SYMBOL_BYTES)
    raw = entry.elements(unpacked).tobytes()
    count = raw.count(b"\n") + 1 if packed else header.shape[0]
    if count != rows:
        raise FormatError(f"{path}: expected one of the {SYMBOLS!r} per row, found {count} for {rows} rows")
    if packed:
        return [_text(path, row, name) for row, name in enumerate(raw.split(b"\n", kept)[:kept])]
    names = (raw[row * size : (row + 1) * size] for row in range(kept))
    if header.dtype.kind == "S":
        return [_text(path, row, name.rstrip(b"\0")) for row, name in enumerate(names)]
    encoding = "utf-32-be" if header.dtype.byteorder == ">" else "utf-32-le"
    return [_text(path, row, name, encoding).rstrip("\0") for row, name in enumerate(names)]


def _text(path: Path, row: int, raw: bytes, encoding: str = "utf-8") -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: row {row}: the symbol is not {encoding.upper()} text: {error.reason}") from None
