"""NumPy .npz: the arrays `vectors` and `symbols`, or a single matrix."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from kdcode.errors import FormatError
from kdcode.formats import symbol_file, tensors
from kdcode.formats.format import Progress, ReadOptions
from kdcode.table import VectorTable

VECTORS, SYMBOLS = "vectors", "symbols"


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of an .npz file.

    `symbols` is an array of N strings, or of bytes: UTF-8 with a line break between symbols.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            shapes = {
                name: shape
                for name in _names(archive)
                for shape, dtype in [_header(archive, name)]
                if dtype.kind in "fiu"
            }
            wanted = VECTORS if options.tensor is None and len(shapes.get(VECTORS, ())) == 2 else options.tensor
            matrix = _array(archive, tensors.choose(path, shapes, wanted))
            stored = _array(archive, SYMBOLS) if SYMBOLS in _names(archive) else None
    except FormatError:
        raise
    except Exception as error:  # zip, deflate and .npy headers: damage ends in any of a dozen exceptions
        raise FormatError(f"{path}: not a usable .npz file: {error}") from None
    if stored is None or options.symbols is not None:
        symbols = symbol_file.symbols_for(path, options, (matrix.shape[0], matrix.shape[1]))
        return VectorTable(symbols, matrix[: options.limit])
    names = _symbols(path, stored)
    if len(names) != len(matrix):
        raise FormatError(f"{path}: expected one of the {SYMBOLS!r} per row, found {len(names)} for {len(matrix)} rows")
    return VectorTable(names[: options.limit], matrix[: options.limit])


def _names(archive: zipfile.ZipFile) -> list[str]:
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def _header(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with archive.open(f"{name}.npy") as stream:
        return _read_header(stream)


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of .npy is not known")
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = reader(stream)
    return shape, dtype


def _array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """An array of the archive; its header is compared with the size of the entry before memory is set aside."""
    with archive.open(f"{name}.npy") as stream:
        shape, dtype = _read_header(stream)
        start = stream.tell()
    expected = start + int(np.prod(shape, dtype=object)) * dtype.itemsize
    stored = archive.getinfo(f"{name}.npy").file_size
    if dtype.hasobject or expected != stored:
        raise ValueError(f"{name!r} of shape {shape} and type {dtype} takes {expected} bytes, the entry has {stored}")
    with archive.open(f"{name}.npy") as stream:
        array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _symbols(path: Path, stored: npt.NDArray[Any]) -> list[str]:
    try:
        if stored.ndim == 1 and stored.dtype == np.uint8:
            return stored.tobytes().decode("utf-8").split("\n")
        if stored.ndim == 1 and stored.dtype.kind == "S":
            return [name.decode("utf-8") for name in stored.tolist()]
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: the array {SYMBOLS!r} is not UTF-8: {error.reason}") from None
    if stored.ndim != 1 or stored.dtype.kind != "U":
        raise FormatError(
            f"{path}: expected {SYMBOLS!r} to be a list of strings, found {stored.dtype} of shape {stored.shape}"
        )
    return list(map(str, stored.tolist()))
