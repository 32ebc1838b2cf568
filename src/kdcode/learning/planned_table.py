"""What a plan is asked: for a table, how small or how good; and what that table will be, where there is a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec import SizeLimit
from kdcode.errors import OptionError
from kdcode.option_fields import check_fields, option
from kdcode.symbols import RowNumbers, StoredSymbols

SPARE = 0.001
"""The share of the bytes of rows that is not aimed at where the whole table is there."""


class PlannedTable(Protocol):
    """What a plan asks of a table: sizes, and rows of its choice. A `VectorTable` is one."""

    def __len__(self) -> int: ...

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""

    @property
    def packed_symbols(self) -> StoredSymbols | RowNumbers:
        """The symbols of all rows."""

    @property
    def weights(self) -> FloatArray | None:
        """(N,) how much rows count."""

    @property
    def norms(self) -> DoubleArray:
        """(N,) lengths of the vectors."""

    def vectors_at(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows."""


@dataclass(frozen=True)
class Goal:
    """How small, or how good; exactly one of the three is given.

    Args:
        size: like 20x (times smaller than float32 vectors), 500KB (of the file), or bytes.
        bits: of a code at most, with the scale of its row.
        max_error: the relative squared error not to be exceeded; the smallest table is sought.
    """

    size: str | int | None = None
    bits: int | None = option(None, "Bits of a code at most.", low=1)
    max_error: float | None = option(None, "Relative error not to be exceeded.", low=0, high=1)

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.size, self.bits, self.max_error)) != 1:
            raise OptionError("a plan needs one of size, bits and max_error")
        check_fields(self)
        if self.max_error is None:
            _ = self.limit  # refuses a size that cannot be read

    @classmethod
    def given(cls, **goals: Any) -> Goal | None:  # noqa: ANN401 - the values of the three
        """The goal that is given, or None where none is."""
        return None if all(goal is None for goal in goals.values()) else cls(**goals)

    def __str__(self) -> str:
        name, value = next((name, value) for name, value in vars(self).items() if value is not None)
        return f"{name}={value!r}"

    @property
    def limit(self) -> SizeLimit:
        """The limit that a size or a number of bits sets."""
        return SizeLimit.parse(self.size) if self.size is not None else SizeLimit(bits=self.bits)


@dataclass(frozen=True)
class FinalTable:
    """What a codec is for, where it is learned from a sample.

    Args:
        rows: of the table that will be coded.
        symbol_bytes: that its symbols will take.
        spare: the share of the bytes of transform codes that is not aimed at: other rows than those that a codec is
            made from may take more.
    """

    rows: int
    symbol_bytes: int
    spare: float = SPARE

    @classmethod
    def like(cls, sample: PlannedTable, rows: int, spare: float = SPARE) -> FinalTable:
        """A table of `rows` rows, whose symbols are as long as those of a sample."""
        return cls(rows, -(-sample.packed_symbols.nbytes * rows // len(sample)), spare)
