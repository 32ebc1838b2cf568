"""How much of a table is lost when another stands in for it, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kdcode.errors import TableError
from kdcode.table import CHUNK_ROWS, FloatArray


class Rows(Protocol):
    """Anything that hands out symbols and float32 vectors in order: VectorTable, CodedTable."""

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""
        ...

    def __len__(self) -> int: ...

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[tuple[Sequence[str], FloatArray]]:
        """Pieces of the table in order."""
        ...


@dataclass(frozen=True)
class TableComparison:
    """What is left of a table in its copy.

    Args:
        relative_error: Σ‖v − v'‖² / Σ‖v − mean‖², 0 for a perfect copy, 1 for the mean alone.
        mean_cosine: mean cosine between a row and its copy; rows of length zero count as 1 when both are zero.
        norm_error: mean of |‖v'‖ − ‖v‖| / ‖v‖ over rows that are not zero.
    """

    relative_error: float
    mean_cosine: float
    norm_error: float

    def as_dict(self) -> dict[str, float]:
        """The three numbers by name."""
        return asdict(self)


def evaluate(original: Rows, copy: Rows) -> TableComparison:
    """Compare two tables with the same rows in the same order, in bounded memory."""
    if (len(original), original.embedding_dim) != (len(copy), copy.embedding_dim):
        raise TableError(
            f"tables to compare must have one shape, got {len(original)} x {original.embedding_dim} "
            f"and {len(copy)} x {copy.embedding_dim}"
        )
    mean = _mean(original)
    squared = variance = cosines = norm_errors = 0.0
    nonzero = 0
    for (_, true_rows), (_, near_rows) in zip(original.chunks(), copy.chunks(), strict=True):
        # In float64, because the squares of very long and very short float32 vectors leave the range of float32.
        true, near = true_rows.astype(np.float64), near_rows.astype(np.float64)
        squared += float(np.square(true - near).sum())
        variance += float(np.square(true - mean).sum())
        length, near_length = np.linalg.norm(true, axis=1), np.linalg.norm(near, axis=1)
        both = length * near_length
        dots = np.einsum("ij,ij->i", true, near)
        cosine = np.divide(dots, both, out=(length == near_length).astype(np.float64), where=both > 0)
        cosines += float(cosine.sum())
        kept = length > 0
        nonzero += int(kept.sum())
        norm_errors += float((np.abs(near_length - length)[kept] / length[kept]).sum())
    return TableComparison(
        relative_error=_ratio(squared, variance),
        mean_cosine=cosines / len(original),
        norm_error=norm_errors / max(nonzero, 1),
    )


def relative_error(original: Rows, copy: Rows) -> float:
    """Squared error over variance around the mean; see `TableComparison`."""
    return evaluate(original, copy).relative_error


def _ratio(squared: float, variance: float) -> float:
    if variance > 0:
        return squared / variance
    return 0.0 if squared == 0 else float("inf")  # a table of one distinct vector has no variance


def _mean(rows: Rows) -> npt.NDArray[np.float64]:
    total = np.zeros(rows.embedding_dim, dtype=np.float64)
    for _, vectors in rows.chunks():
        total += vectors.sum(axis=0, dtype=np.float64)
    return total / len(rows)
