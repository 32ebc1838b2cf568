"""Codec: everything that turns codes into vectors and back, with its numbers as they are stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import FloatArray, IntArray
from kdcode.codec.row_writing import RowWriter
from kdcode.codec.spec import CodecSpec
from kdcode.errors import OptionError
from kdcode.stored_array import ArrayInFile, PackedRows

CodeArray = npt.NDArray[np.int64]
Tensors = Mapping[str, npt.NDArray[Any]]
_FLOAT32_MAX = float(np.finfo(np.float32).max)


class RowDecoder(Protocol):
    """Packed rows of a table with their codec."""

    def decode(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows in [0, N).

        Raises:
            StorageError: a code is not one of the codec, or the file is damaged.
        """


@dataclass(frozen=True, eq=False)
class Codec(ABC):
    """What codes mean, and how the rows of a table are kept.

    A code is a row of integers, below `spec.column_ends`: D positions, and what the kind adds to them. A packed row
    has the same in as few bytes as the kind can do with. `decode` takes whole codes and `encode` gives whole codes.

    Args:
        spec: the shape.
        stored: the tensors of `spec.tensor_layout()`, kept as they are.

    Raises:
        OptionError: a tensor is missing, of another type or shape, or has numbers that cannot be.
    """

    kind: ClassVar[str]
    spec: CodecSpec
    stored: Tensors

    def __post_init__(self) -> None:
        layout = self.spec.tensor_layout()
        for name in [*layout, *self.stored]:
            if name not in self.stored:
                raise OptionError(f"{name}: missing")
            if name not in layout:
                raise OptionError(f"{name}: this tensor does not belong to a {self.spec.composition} codec")
            _check_tensor(name, self.stored[name], *layout[name])

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """The stored tensors by name; `codec_from_tensors` makes the codec again."""
        return dict(self.stored)

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The codec whose vectors are `factor` times as long."""

    @cached_property
    def may_overflow(self) -> bool:
        """Whether numbers may leave float32 on the way from a code to its vector; float64 is used where they do.

        Found from the largest numbers of the tensors, so that it costs nothing to ask.
        """
        return self._reach() > _FLOAT32_MAX / 2  # half: sums in float32 are rounded

    @abstractmethod
    def _reach(self) -> float:
        """What no number exceeds on the way to a vector; it may be far more than any vector has."""

    # Codes.

    @abstractmethod
    def check_codes(self, codes: IntArray) -> None:
        """Refuse what is no (n, columns) array of codes in range.

        Raises:
            OptionError: with the shape or the range that was expected.
        """

    @abstractmethod
    def compose(self, codes: IntArray) -> FloatArray:
        """(n, columns) codes to (n, d) vectors, before row scales; infinite where float32 ends."""

    @abstractmethod
    def decode(self, codes: IntArray) -> FloatArray:
        """(n, columns) codes to (n, d) vectors.

        Raises:
            StorageError: a code is out of range, or a vector has a number that float32 cannot hold.
        """

    @abstractmethod
    def encode(self, vectors: npt.ArrayLike, *, beam: int = 8, sweeps: int = 4) -> CodeArray:
        """Codes whose vectors are near the given ones.

        Args:
            vectors: (d,) or (n, d) finite numbers.
            beam: of a search among codewords: partial codes kept per vector.
            sweeps: of a search among codewords: passes that reconsider one position at a time afterwards.

        Returns:
            (columns,) or (n, columns) codes.
        """

    # Packed rows.

    @abstractmethod
    def pack(self, codes: IntArray) -> npt.NDArray[np.uint8]:
        """(n, columns) codes to (n, row bytes) packed rows.

        Raises:
            OptionError: the codes are not those of this codec.
        """

    @abstractmethod
    def unpack(self, packed: npt.NDArray[np.uint8]) -> bitpack.UnsignedArray:
        """(n, row bytes) packed rows to (n, columns) codes.

        Raises:
            StorageError: bytes that stand for no code.
        """

    @abstractmethod
    def decoder(self, packed: PackedRows) -> RowDecoder:
        """What decodes rows of a table."""

    @abstractmethod
    def stored_rows(self, packed: PackedRows) -> PackedRows:
        """(N, row bytes) packed rows in the form that a table keeps them in."""

    @abstractmethod
    def row_writer(self) -> RowWriter:
        """What makes the tensors of `row_tensors` of rows that come in chunks."""

    @abstractmethod
    def check_rows(self, rows: PackedRows) -> None:
        """Check what rows have beside their codes, and `unpack` does not look at: what tells where they begin.

        Raises:
            StorageError: something does not agree.
        """

    @abstractmethod
    def rows_of_equal_length(self, rows: PackedRows) -> Iterable[npt.NDArray[np.uint8]]:
        """The bytes of all rows, those together that are equally long, in whatever order."""

    @abstractmethod
    def row_tensors(self, rows: PackedRows) -> dict[str, ArrayInFile]:
        """What a file keeps of the rows of a table, by name."""

    @abstractmethod
    def rows_of_tensors(self, tensors: Mapping[str, ArrayInFile], count: int) -> PackedRows:
        """The rows of a file; undoes `row_tensors`.

        Raises:
            StorageError: tensors that are not those of `count` rows.
        """


def _check_tensor(name: str, tensor: npt.NDArray[Any], dtype: str, shape: tuple[int, ...]) -> None:
    if tensor.dtype.name != dtype or tensor.shape != shape:
        raise OptionError(f"{name}: expected {dtype} of shape {shape}, got {tensor.dtype} of shape {tensor.shape}")
    if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
        raise OptionError(f"{name}: holds values that are not finite")
