"""Matrices in .npy and safetensors files, read by seeking: nothing is mapped, so memory stays what a piece takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray
from kdcode.errors import FormatError
from kdcode.formats import matrices, npy, safetensors_file
from kdcode.formats.format import ReadOptions
from kdcode.formats.small_floats import as_float32
from kdcode.safetensors_header import DTYPES
from kdcode.sources.places import Place
from kdcode.sources.source import Chunk, RowSource
from kdcode.sources.symbol_lines import SymbolLines


@dataclass(frozen=True)
class MatrixPlace:
    """Where the numbers of a matrix are in a file.

    Args:
        start: the byte of the first.
        rows: N.
        dim: d.
        dtype: what they are stored as.
        is_bfloat16: whether they are bfloat16, which `dtype` has as 16-bit integers.
    """

    start: int
    rows: int
    dim: int
    dtype: np.dtype[Any]
    is_bfloat16: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.dim * self.dtype.itemsize

    def as_vectors(self, raw: bytes) -> FloatArray:
        """(n, d) float32 numbers of the bytes of n rows."""
        stored: npt.NDArray[Any] = np.frombuffer(raw, dtype=self.dtype).reshape(-1, self.dim)
        if self.is_bfloat16:
            return as_float32(stored, "bfloat16")
        with np.errstate(over="ignore", invalid="ignore"):  # what is inf or NaN as float32 is refused
            return stored.astype(np.float32)


def npy_matrix(stream: BinaryIO, name: str, options: ReadOptions) -> MatrixPlace:
    """The matrix of an open .npy file.

    Raises:
        FormatError: there is none, or its numbers lie column by column.
    """
    header = npy.matrix_header(stream, name)
    if header.order == "F" and 1 not in header.shape:
        raise FormatError(
            f"{name}: its numbers lie column by column, so rows cannot be read one after another; "
            "save it again with numpy.save(path, numpy.ascontiguousarray(matrix))"
        )
    rows, dim = header.shape
    return MatrixPlace(header.data_start, rows, dim, header.dtype)


def safetensors_matrix(stream: BinaryIO, name: str, options: ReadOptions) -> MatrixPlace:
    """The matrix of an open safetensors file: the one that was named, the only one, or the obvious one."""
    header, floats = safetensors_file.float_tensors(stream, Path(name))
    chosen = matrices.choose(Path(name), floats, options.tensor)
    safetensors_file.check_not_empty(Path(name), chosen, floats[chosen])
    place = header.place(chosen)
    dtype = np.dtype(DTYPES[place.dtype]).newbyteorder("<")
    rows, dim = place.shape
    return MatrixPlace(header.data_start + place.start, rows, dim, dtype, place.dtype == "BF16")


class MatrixSource(RowSource):
    """The rows of a matrix in a file.

    Args:
        place: the file.
        matrix: where its numbers are.
        options: which file has its symbols; one that is found beside a file on this machine, where none is named.
    """

    def __init__(self, place: Place, matrix: MatrixPlace, options: ReadOptions) -> None:
        self.place, self.matrix = place, matrix
        named = options.symbols
        if named is None and not place.is_remote:
            beside = matrices.found_beside(Path(place.name), matrix.dim)
            named = None if beside is None else str(beside)
        self.symbols = None if named is None else SymbolLines(Place(named), matrix.rows, place.name)
        rows = min(matrix.rows, options.limit or matrix.rows)
        super().__init__(place.name, rows, matrix.dim, has_symbols=self.symbols is not None)

    def _read(self, start: int, stop: int, rows: int) -> Iterator[Chunk]:
        width = self.matrix.row_bytes
        names = None if self.symbols is None else self.symbols.read(start, stop)
        with self.place.opened() as stream:
            stream.seek(self.matrix.start + start * width)
            for first in range(start, stop, rows):
                wanted = min(rows, stop - first) * width
                raw = stream.read(wanted)
                if len(raw) < wanted:
                    raise FormatError(f"{self.name}: ends inside row {first + len(raw) // width}; has it changed?")
                vectors = self.matrix.as_vectors(raw)
                yield None if names is None else list(islice(names, len(vectors))), vectors

    def fingerprint(self) -> str:
        """That of the file, and of the file of its symbols."""
        parts = [self.place.fingerprint()] + ([] if self.symbols is None else [self.symbols.place.fingerprint()])
        return " ".join(parts)
