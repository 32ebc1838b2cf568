"""How much of a table is lost when another stands in for it, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kdcode.arrays import CHUNK_ROWS, FloatArray
from kdcode.errors import TableError

_NO_VARIANCE = 1e-20
"""Share of a table's energy below which its variance is nothing but rounding."""


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
        relative_error: Σ‖v − v'‖² / Σ‖v − mean‖², 0 for a perfect copy, 1 for the mean alone. A table whose rows are
            all equal has no variance: its error is relative to Σ‖v‖².
        mean_cosine: mean cosine between a row and its copy; rows of length zero count as 1 when both are zero.
        norm_error: mean of |‖v'‖ − ‖v‖| / ‖v‖ over rows that are not zero.
        weighted_error: the relative error with rows counted by weight; None where no weights are given.
    """

    relative_error: float
    mean_cosine: float
    norm_error: float
    weighted_error: float | None = None

    def as_dict(self) -> dict[str, float]:
        """The numbers by name, without those that are not there."""
        return {name: value for name, value in vars(self).items() if value is not None}


def evaluate(original: Rows, copy: Rows, weights: FloatArray | None = None) -> TableComparison:
    """Compare two tables with the same rows in the same order, in bounded memory; `weights` are (N,)."""
    if (len(original), original.embedding_dim) != (len(copy), copy.embedding_dim):
        raise TableError(
            f"tables to compare must have one shape, got {len(original)} x {original.embedding_dim} "
            f"and {len(copy)} x {copy.embedding_dim}"
        )
    plain = _Sums(_mean(original, None))
    weighted = None if weights is None else _Sums(_mean(original, weights))
    cosines = norm_errors = 0.0
    nonzero = start = 0
    for (_, true_rows), (_, near_rows) in zip(original.chunks(), copy.chunks(), strict=True):
        # In float64, because the squares of very long and very short float32 vectors leave the range of float32.
        true, near = true_rows.astype(np.float64), near_rows.astype(np.float64)
        plain.add(true, near, None)
        if weighted is not None and weights is not None:
            weighted.add(true, near, weights[start : start + len(true)])
        start += len(true)
        length, near_length = np.linalg.norm(true, axis=1), np.linalg.norm(near, axis=1)
        both = length * near_length
        dots = np.einsum("ij,ij->i", true, near)
        cosine = np.divide(dots, both, out=(length == near_length).astype(np.float64), where=both > 0)
        cosines += float(cosine.sum())
        kept = length > 0
        nonzero += int(kept.sum())
        norm_errors += float((np.abs(near_length - length)[kept] / length[kept]).sum())
    return TableComparison(
        relative_error=plain.relative_error,
        mean_cosine=cosines / len(original),
        norm_error=norm_errors / max(nonzero, 1),
        weighted_error=None if weighted is None else weighted.relative_error,
    )


def relative_error(original: Rows, copy: Rows) -> float:
    """Squared error over variance around the mean; see `TableComparison`."""
    return evaluate(original, copy).relative_error


def error_ratio(squared: float, variance: float, energy: float) -> float:
    """Squared error relative to the variance, or to the energy Σ‖v‖² where there is no variance to speak of."""
    reference = variance if variance > _NO_VARIANCE * energy else energy
    if reference > 0:
        return squared / reference
    return 0.0 if squared == 0 else float("inf")


class _Sums:
    """Squared error, variance and energy of a table, added up over chunks of rows."""

    def __init__(self, mean: npt.NDArray[np.float64]) -> None:
        self.mean = mean
        self.squared = self.variance = self.energy = 0.0

    def add(self, true: npt.NDArray[np.float64], near: npt.NDArray[np.float64], weights: FloatArray | None) -> None:
        for name, rows in (("squared", true - near), ("variance", true - self.mean), ("energy", true)):
            by_row = np.einsum("ij,ij->i", rows, rows)
            total = by_row.sum() if weights is None else by_row @ weights.astype(np.float64)
            setattr(self, name, getattr(self, name) + float(total))

    @property
    def relative_error(self) -> float:
        return error_ratio(self.squared, self.variance, self.energy)


def _mean(rows: Rows, weights: FloatArray | None) -> npt.NDArray[np.float64]:
    total = np.zeros(rows.embedding_dim, dtype=np.float64)
    start = 0
    for _, vectors in rows.chunks():
        part = np.ones(len(vectors)) if weights is None else weights[start : start + len(vectors)].astype(np.float64)
        total += part @ vectors
        start += len(vectors)
    return total / (len(rows) if weights is None else weights.sum(dtype=np.float64))
