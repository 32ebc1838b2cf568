"""CodecSpec: what fixes the tensors and the sizes of a codec, whatever the number of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.codec.sizes import Sizes
from kdcode.errors import OptionError
from kdcode.limits import MemoryLimit
from kdcode.stored_array import PackedRows

BLOCK_SUM, LSTM, TRANSFORM = "block-sum", "lstm", "transform"
KINDS = (BLOCK_SUM, LSTM, TRANSFORM)
"""The kinds of codec, as files name them."""

COMPOSITIONS = ("linear", "product", "grouped", "lstm", TRANSFORM)
"""The names by which people ask for a codec."""

MAX_CODEBOOK_SIZE = 1 << 16
"""The largest K."""

MAX_CODE_LENGTH = 1 << 16
"""The largest D."""


@dataclass(frozen=True)
class CodecSpec(ABC):
    """The shape of a codec: a code has D integers below K, its positions, and what else the kind adds to them.

    Args:
        kind: one of `KINDS`.
        embedding_dim: d.
        codebook_size: K.

    Raises:
        OptionError: numbers that do not fit together.
    """

    kind: str
    embedding_dim: int
    codebook_size: int

    if TYPE_CHECKING:  # a field of some kinds, and a property of others

        @property
        def code_length(self) -> int:
            """D."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise OptionError(f"kind: expected one of {', '.join(KINDS)}, got {self.kind!r}")
        within("codebook_size", self.codebook_size, 2, MAX_CODEBOOK_SIZE)
        within("embedding_dim", self.embedding_dim, 1, 1 << 48)
        within("code_length", self.code_length, 1, MAX_CODE_LENGTH)

    @property
    @abstractmethod
    def composition(self) -> str:
        """The name in `COMPOSITIONS` that asks for this shape."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The shape in words."""

    @property
    @abstractmethod
    def is_rotated(self) -> bool:
        """Whether vectors are rotated before they are coded."""

    @property
    @abstractmethod
    def column_ends(self) -> tuple[int, ...]:
        """What the integers of each column of a code are below."""

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Bits of each column of an unpacked code: see `column_ends`."""
        return tuple(bitpack.bits_for(end) for end in self.column_ends)

    @property
    @abstractmethod
    def bits(self) -> int:
        """Bits of one row, before rows are rounded up to whole bytes."""

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """Bytes of one packed row in memory."""

    @property
    @abstractmethod
    def has_invalid_codes(self) -> bool:
        """Whether some bytes of a row stand for no code."""

    @property
    def row_width(self) -> int:
        """The most floats that a row has at once on the way from its code to its vector."""
        return self.embedding_dim

    @abstractmethod
    def tensor_layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The type and shape of every stored tensor but rows and symbols, by name."""

    def blank_tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Placeholder tensors of this shape that make a codec; others take their place."""
        return {name: np.zeros(shape, dtype) for name, (dtype, shape) in self.tensor_layout().items()}

    @abstractmethod
    def row_layout(self, num_embeddings: int) -> dict[str, tuple[str, tuple[int | None, ...]]]:
        """The type and shape of the stored tensors of N rows, by name; None for what the rows themselves decide."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """Learned numbers that all rows share."""

    @abstractmethod
    def sizes(self, num_embeddings: int, symbol_bytes: int = 0) -> Sizes:
        """The bytes of each part of a table of N rows."""

    @abstractmethod
    def sizes_of_rows(self, rows: PackedRows, symbol_bytes: int = 0) -> Sizes:
        """The bytes of each part of a table of given rows."""

    @abstractmethod
    def check_memory(self, limit: MemoryLimit, num_embeddings: int) -> None:
        """Refuse a file whose tensors take too much memory once they are unpacked, or its search.

        Raises:
            LimitError: the tensor is named.
        """

    def ratio(self, num_embeddings: int) -> float:
        """How many times smaller than N x d float32 numbers, symbols left out."""
        return self.sizes(num_embeddings).ratio(num_embeddings, self.embedding_dim)


def within(name: str, value: int, low: int, high: int) -> None:
    """Refuse a number that is not in a range, both ends of which are allowed.

    Raises:
        OptionError: with the name.
    """
    if not low <= value <= high:
        raise OptionError(f"{name}: expected {low} to {high}, got {value}")
