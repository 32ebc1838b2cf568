"""Rows: what every kind of table has, and all that writing one needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from kdcode.arrays import CHUNK_ROWS, FloatArray


class Rows(Protocol):
    """Anything that hands out symbols and float32 vectors in order: VectorTable, CodedTable."""

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""
        ...

    def __len__(self) -> int: ...

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[tuple[Sequence[str], FloatArray]]:
        """Pieces of the table in order: up to `rows` symbols and their (rows, d) vectors."""
        ...
