"""GGUF, the files of llama.cpp: one matrix of a model, float or quantised, with the model's tokens as symbols."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray
from kdcode.errors import FormatError, KdcodeError, MissingExtraError
from kdcode.formats import matrices
from kdcode.formats.file_rows import FileRows
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.gguf_header import TOKENS, GgufHeader, TensorEntry, read_gguf_header
from kdcode.limits import MemoryLimit
from kdcode.table import VectorTable

INPUT_TABLE, OUTPUT_TABLE = "token_embd.weight", "output.weight"
"""What every model calls the vectors of its tokens, and those of its output layer where these are not the same."""

_NUMBERS_AT_ONCE = 1 << 20
_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
"""Types of tensors that numpy reads as they lie in the file."""


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table of tokens in a GGUF file, or the matrix that was named.

    Symbols are the model's tokens as the file spells them, where there is one for each row.
    """
    known = _known_types()
    limit = options.memory_limit(path)
    try:
        header = read_gguf_header(path, limit)
        tensors = {name: _Tensor.of(name, entry, known, header.file_bytes) for name, entry in header.tensors.items()}
        shapes = {name: tensor.shape for name, tensor in tensors.items() if tensor.is_readable}
        others = {name: f"of the type {tensor.type_name}" for name, tensor in tensors.items() if not tensor.is_readable}
        wanted = INPUT_TABLE if options.tensor is None and INPUT_TABLE in tensors else options.tensor
        name = matrices.choose(path, shapes, wanted, others)
        rows = shapes[name][0]
        if 0 in shapes[name]:
            raise FormatError(f"{path}: {name}: the matrix is empty, shape {shapes[name]}")
        kept = rows if options.limit is None else min(rows, options.limit)
        named = options.symbols is None and _names_rows(path, name, rows, header)
        symbols = _symbols(path, header.tokens or [], kept, limit) if named else None
        matrix = tensors[name].matrix(path, kept, limit, on_progress)
    except KdcodeError:
        raise
    except ValueError as error:
        raise FormatError(f"{path}: not a usable GGUF file: {error}") from None
    return matrices.named_table(path, options, matrix, rows) if symbols is None else VectorTable(symbols, matrix)


@dataclass(frozen=True)
class _Type:
    """A type of tensor, as the gguf package has it.

    Args:
        kind: its number and name, a `gguf.GGMLQuantizationType`.
        block_size: how many numbers are stored together.
        block_bytes: how many bytes they take.
    """

    kind: Any
    block_size: int
    block_bytes: int

    @cached_property
    def is_readable(self) -> bool:
        """Whether its numbers can be had as floats."""
        if self.kind.name in _FLOATS:
            return True
        try:
            self.dequantized(np.zeros((1, self.block_bytes), dtype=np.uint8))
        except NotImplementedError:
            return False
        return True

    def dequantized(self, stored: npt.NDArray[np.uint8]) -> FloatArray:
        """(rows, bytes) as they are stored to (rows, numbers)."""
        from gguf.quants import dequantize

        with np.errstate(all="ignore"):  # what is not finite is refused with its row
            numbers: FloatArray = dequantize(stored, self.kind)
        return numbers


def _known_types() -> dict[int, _Type]:
    """The types that the gguf package knows, by number."""
    try:
        from gguf.constants import GGML_QUANT_SIZES
    except ImportError as error:
        raise MissingExtraError("reading GGUF", "gguf") from error
    return {int(kind): _Type(kind, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}


@dataclass(frozen=True)
class _Tensor:
    """A tensor of a file, which lies within it."""

    name: str
    shape: tuple[int, ...]
    start: int
    kind: _Type | None
    type_name: str

    @classmethod
    def of(cls, name: str, entry: TensorEntry, known: dict[int, _Type], file_bytes: int) -> _Tensor:
        """The tensor of an entry, once it is known to fit the file; the bytes of an unknown type are not known."""
        kind = known.get(entry.kind)
        if kind is None:
            unknown = f"number {entry.kind}, which this version of gguf does not know"
            return cls(name, entry.shape, entry.start, None, unknown)
        if entry.shape[-1] % kind.block_size:
            raise ValueError(
                f"the tensor {name[:80]!r} has rows of {entry.shape[-1]} numbers; expected a multiple of the "
                f"{kind.block_size} that {kind.kind.name} stores together"
            )
        nbytes = math.prod(entry.shape) // kind.block_size * kind.block_bytes
        if entry.start + nbytes > file_bytes:
            raise ValueError(
                f"the tensor {name[:80]!r} of shape {entry.shape} would end at byte {entry.start + nbytes} of "
                f"{file_bytes}; is the file truncated?"
            )
        return cls(name, entry.shape, entry.start, kind, kind.kind.name)

    @property
    def is_readable(self) -> bool:
        """Whether its numbers can be had as floats."""
        return self.kind is not None and self.kind.is_readable

    def matrix(self, path: Path, rows: int, limit: MemoryLimit, on_progress: Progress | None) -> npt.NDArray[Any]:
        """Its first rows: left in the file where numpy has the type, else as float32, converted piece by piece."""
        kind, dim = self.kind, self.shape[1]
        if kind is None:
            raise FormatError(f"{path}: {self.name}: the type {self.type_name} cannot be read")
        if self.type_name in _FLOATS:
            return np.memmap(path, _FLOATS[self.type_name], "r", self.start, (rows, dim))
        limit.check(f"the tensor {self.name[:80]!r} as float32", 4 * rows * dim)
        width = dim // kind.block_size * kind.block_bytes
        stored = np.memmap(path, np.uint8, "r", self.start, (rows, width))
        matrix = np.empty((rows, dim), dtype=np.float32)
        at_once = max(1, _NUMBERS_AT_ONCE // dim)
        for first in range(0, rows, at_once):
            matrix[first : first + at_once] = kind.dequantized(np.array(stored[first : first + at_once]))
            if on_progress is not None:
                on_progress(min(first + at_once, rows) * width, rows * width)
        return matrix


def _names_rows(path: Path, name: str, rows: int, header: GgufHeader) -> bool:
    """Whether the tokens of a file are the symbols of a matrix; its two tables of tokens must have one for each row."""
    count = 0 if header.tokens is None else len(header.tokens)
    if count and count != rows and name in (INPUT_TABLE, OUTPUT_TABLE):
        raise FormatError(
            f"{path}: expected one token in {TOKENS} for each of the {rows} rows of {name}, found {count}; "
            "name a file of symbols with symbols="
        )
    return count == rows


def _symbols(path: Path, tokens: list[bytes], kept: int, limit: MemoryLimit) -> list[str]:
    """The first tokens as text; refused where one is not UTF-8 or stands twice."""
    rows = FileRows(path, "token", limit)
    for number, token in enumerate(tokens[:kept]):
        rows.add(number, token)
    return list(rows.numbers)
