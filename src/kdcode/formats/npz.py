"""NumPy .npz: the arrays `vectors` and `symbols`, or a single matrix. Only the rows that are asked for are unpacked."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from kdcode.errors import FormatError, KdcodeError
from kdcode.formats import matrices
from kdcode.formats.file_rows import SYMBOL_BYTES
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.npy_header import ArrayHeader, read_array_header
from kdcode.limits import MemoryLimit
from kdcode.table import VectorTable

VECTORS, SYMBOLS = "vectors", "symbols"
_PIECE_BYTES = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
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
            kept = rows if options.limit is None else min(rows, options.limit)
            named = entries.get(SYMBOLS) if options.symbols is None else None
            symbols = None if named is None else _symbols(path, named, rows, kept, options.memory_limit(path))
            matrix = chosen.matrix(kept, options.memory_limit(path))
    except KdcodeError:
        raise
    except Exception as error:  # zip and deflate: damage ends in any of a dozen exceptions
        raise FormatError(f"{path}: not a usable .npz file: {error}") from None
    if symbols is None:
        return matrices.named_table(path, options, matrix, rows)
    return VectorTable(symbols, matrix)


@dataclass(frozen=True)
class _Entry:
    """An array in an archive: its name, its place in the archive, and what it is."""

    archive: zipfile.ZipFile
    name: str
    info: zipfile.ZipInfo
    header: ArrayHeader

    def check(self) -> None:
        """Compare what the header promises with the size of the entry."""
        promised = self.header.data_start + self.header.nbytes
        if self.header.dtype.kind not in "fiuSU" or promised != self.info.file_size:
            raise ValueError(f"{self.name!r} {self.header} takes {promised} bytes, the entry has {self.info.file_size}")

    def open(self) -> IO[bytes]:
        """The stream of its elements."""
        stream = self.archive.open(self.info)
        stream.read(self.header.data_start)
        return stream

    def matrix(self, rows: int, limit: MemoryLimit) -> npt.NDArray[Any]:
        """Its first rows; all are unpacked where they do not lie one after the other."""
        self.check()
        header = self.header
        taken = header.shape[0] if header.order == "F" else rows
        nbytes = taken * header.shape[1] * header.dtype.itemsize
        limit.check(f"the array {self.name!r}, {taken} x {header.shape[1]} {header.dtype},", nbytes)
        data = np.empty(nbytes, dtype=np.uint8)
        with self.open() as stream:
            for start in range(0, nbytes, _PIECE_BYTES):
                data[start : start + _PIECE_BYTES] = np.frombuffer(
                    _exactly(stream, min(_PIECE_BYTES, nbytes - start)), np.uint8
                )
        shape = (taken, header.shape[1])
        return data.view(header.dtype).reshape(shape, order="F" if header.order == "F" else "C")[:rows]


def _exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise ValueError("an entry of the archive ends early")
    return data


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
    if header.dtype.kind == "V" or header.dtype.hasobject:
        entry.check()
    packed = header.dtype == np.uint8
    if len(header.shape) != 1 or not (packed or header.dtype.kind in "SU"):
        raise FormatError(
            f"{path}: expected {SYMBOLS!r} to be a list of strings, found {header.dtype} of shape {header.shape}"
        )
    entry.check()
    unpacked = header.nbytes if packed else kept * header.dtype.itemsize
    limit.check(f"{kept} of the {SYMBOLS!r}", unpacked + kept * SYMBOL_BYTES)
    with entry.open() as stream:
        joined = _exactly(stream, header.nbytes) if packed else b""
        count = joined.count(b"\n") + 1 if packed else header.shape[0]
        if count != rows:
            raise FormatError(f"{path}: expected one of the {SYMBOLS!r} per row, found {count} for {rows} rows")
        if packed:
            return [_text(path, row, name) for row, name in enumerate(joined.split(b"\n", kept)[:kept])]
        size = header.dtype.itemsize
        step = max(1, _PIECE_BYTES // max(1, size))
        names: list[str] = []
        for start in range(0, kept, step):
            piece = _exactly(stream, min(step, kept - start) * size)
            for place in range(min(step, kept - start)):
                names.append(_fixed(path, start + place, piece[place * size : (place + 1) * size], header.dtype))
        return names


def _fixed(path: Path, row: int, raw: bytes, dtype: np.dtype[Any]) -> str:
    """A string of an array whose strings all take as many bytes."""
    if dtype.kind == "S":
        return _text(path, row, raw.rstrip(b"\0"))
    try:
        return raw.decode("utf-32-be" if dtype.byteorder == ">" else "utf-32-le").rstrip("\0")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: row {row}: the symbol is not text: {error.reason}") from None


def _text(path: Path, row: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{path}: row {row}: the symbol in the array {SYMBOLS!r} is not UTF-8: {error.reason}"
        ) from None
