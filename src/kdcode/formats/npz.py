"""NumPy .npz: the arrays `vectors` and `symbols`, or a single matrix."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.errors import FormatError
from kdcode.formats import matrices
from kdcode.formats.format import Progress, ReadOptions
from kdcode.table import VectorTable

VECTORS, SYMBOLS = "vectors", "symbols"


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of an .npz file.

    `symbols` is an array of N strings, or of bytes: UTF-8 with a line break between symbols.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            headers = {name: _header(archive, name) for name in names}
            shapes = {name: shape for name, (shape, dtype, _) in headers.items() if dtype.kind in "fiu"}
            wanted = VECTORS if options.tensor is None and len(shapes.get(VECTORS, ())) == 2 else options.tensor
            matrix = _array(archive, matrices.choose(path, shapes, wanted))
            stored = _array(archive, SYMBOLS) if SYMBOLS in names and options.symbols is None else None
    except FormatError:
        raise
    except Exception as error:  # zip, deflate and .npy headers: damage ends in any of a dozen exceptions
        raise FormatError(f"{path}: not a usable .npz file: {error}") from None
    if stored is None:
        return matrices.named_table(path, options, matrix[: options.limit], len(matrix))
    symbols = _symbols(path, stored)
    if len(symbols) != len(matrix):
        raise FormatError(
            f"{path}: expected one of the {SYMBOLS!r} per row, found {len(symbols)} for {len(matrix)} rows"
        )
    return VectorTable(symbols[: options.limit], matrix[: options.limit])


def _header(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape and type of an array, and the bytes that its entry should have."""
    with archive.open(f"{name}.npy") as stream:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version} of .npy is not known")
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = reader(stream)
        return shape, dtype, stream.tell() + int(np.prod(shape, dtype=object)) * dtype.itemsize


def _array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """An array of the archive; its header is compared with the size of the entry before memory is set aside."""
    shape, dtype, expected = _header(archive, name)
    stored = archive.getinfo(f"{name}.npy").file_size
    if dtype.hasobject or expected != stored:
        raise ValueError(f"{name!r} of shape {shape} and type {dtype} takes {expected} bytes, the entry has {stored}")
    with archive.open(f"{name}.npy") as stream:
        array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _symbols(path: Path, stored: npt.NDArray[Any]) -> list[str]:
    if stored.ndim != 1 or (stored.dtype != np.uint8 and stored.dtype.kind not in "SU"):
        raise FormatError(
            f"{path}: expected {SYMBOLS!r} to be a list of strings, found {stored.dtype} of shape {stored.shape}"
        )
    names = stored.tobytes().split(b"\n") if stored.dtype == np.uint8 else stored.tolist()
    try:
        return [name.decode("utf-8") if isinstance(name, bytes) else name for name in names]
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: the array {SYMBOLS!r} is not UTF-8: {error.reason}") from None
