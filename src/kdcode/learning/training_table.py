"""The table as learners see it: normalised where asked for, centred where the codec can give the mean back, scaled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kdcode.arrays import CHUNK_ROWS, DoubleArray, FloatArray, IntArray
from kdcode.codec import CodewordSpec
from kdcode.codec.row_scales import directions
from kdcode.codec.spec import BLOCK_SUM
from kdcode.learning.ranks import ALONE, Ranks
from kdcode.learning.row_share import RowShare
from kdcode.learning.sum_model import SumModel
from kdcode.options import CompressOptions
from kdcode.table import VectorTable
from kdcode.threads import parallel_chunks

_NO_VARIANCE = 1e-14
"""Share of a table's energy below which its variance is nothing but the rounding of float32."""


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """N standardised vectors and how to undo it.

    Args:
        vectors: (N, d), (original − shift) / scale.
        shift: (d,) the table's mean, or zeros where the codec has no place for a mean.
        scale: root mean square of the table around its mean, or around zero where all rows are equal; 0 where all are
            zero.
        variance: what errors are relative to, in standardised units: Σ‖v − mean‖², or Σ‖v‖² where all rows are equal.
        weights: (N,) how much rows count, 1 on average; None where all count the same.
        row_length: the length that rows were normalised to; None where they were not.
        part: which rows of the table these are, where other ranks have the others. Shift, scale and variance are those
            of all rows.
    """

    vectors: FloatArray
    shift: FloatArray
    scale: float
    variance: float
    weights: FloatArray | None = None
    row_length: float | None = None
    part: RowShare | None = None

    @classmethod
    def of(cls, table: VectorTable, options: CompressOptions, part: RowShare | None = None) -> TrainingTable:
        """Standardise a table, or a part of one, in memory, as learning with these options wants it."""
        share = part or RowShare.whole(len(table))
        length = _row_length(table, options, share)
        vectors = rows_of(table, length)
        weights = None
        if table.weights is not None:
            mean = table.weights.mean(dtype=np.float64)
            if not share.ranks.is_alone:
                mean = share.ranks.total(float(mean) * len(table)) / share.total
            weights = (table.weights / mean).astype(np.float32)
        centred = can_centre(options.spec(table.embedding_dim))
        return replace(cls.standardised(vectors, weights, centred=centred, part=part), row_length=length)

    @classmethod
    def standardised(
        cls,
        vectors: FloatArray,
        weights: FloatArray | None = None,
        *,
        centred: bool = True,
        part: RowShare | None = None,
    ) -> TrainingTable:
        """Standardise (N, d) vectors in place."""
        share = part or RowShare.whole(len(vectors))

        def total(of: Callable[[DoubleArray], DoubleArray]) -> DoubleArray:
            return share.ranks.all_sum(_weighted_sum(vectors, weights, of))

        count = share.total if weights is None else share.ranks.total(float(weights.sum(dtype=np.float64)))
        mean = total(lambda rows: rows) / count
        variance = float(total(lambda rows: np.square(rows - mean).sum(axis=1, keepdims=True))[0])
        energy = float(total(lambda rows: np.square(rows).sum(axis=1, keepdims=True))[0])
        reference = variance if variance > _NO_VARIANCE * energy else energy
        numbers = share.total * vectors.shape[1]
        scale = (reference / numbers) ** 0.5
        shift = mean.astype(np.float32) if centred else np.zeros(len(mean), dtype=np.float32)
        for start in range(0, len(vectors), CHUNK_ROWS):  # in float64: tiny numbers have few digits in float32
            rows = vectors[start : start + CHUNK_ROWS]
            rows[:] = (rows.astype(np.float64) - shift) / (scale or 1.0)
        return cls(vectors, shift, scale, float(numbers) if scale else 0.0, weights, part=part)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def share(self) -> RowShare:
        """Which rows of the table are here: all of them, or those of one rank."""
        return self.part or RowShare.whole(len(self))

    @property
    def ranks(self) -> Ranks:
        """Who has the other rows."""
        return ALONE if self.part is None else self.part.ranks

    def some(self, rows: IntArray) -> TrainingTable:
        """The table of (n,) rows of a rank alone, standardised as all are; the variance is taken to be their share."""
        weights = None if self.weights is None else self.weights[rows]
        share = len(rows) / len(self) if self.weights is None else float(self.weights[rows].sum() / self.weights.sum())
        return replace(self, vectors=self.vectors[rows], weights=weights, variance=share * self.variance, part=None)

    def uncentred(self, part: slice) -> FloatArray:
        """(n, d) some of the rows, in units of the scale, with the mean."""
        return self.vectors[part] + self._scaled_shift

    def row_errors(self, codes: IntArray, model: SumModel) -> FloatArray:
        """(N,) squared distances between the vectors and what (N, D) codes compose to."""
        errors = np.empty(len(self), dtype=np.float32)

        def measure(start: int) -> None:
            part = slice(start, start + CHUNK_ROWS)
            left = model.compose(codes[part])
            left -= self.vectors[part]
            np.einsum("nd,nd->n", left, left, out=errors[part])

        parallel_chunks(measure, range(0, len(self), CHUNK_ROWS))
        return errors

    def error(self, codes: IntArray, model: SumModel) -> float:
        """Relative squared error of a solution over the rows of all ranks, counted by their weight."""
        rows = self.row_errors(codes, model).astype(np.float64)
        squared = float(rows.sum() if self.weights is None else rows @ self.weights)
        return self.relative(self.ranks.total(squared))

    def relative(self, squared: float, rows: int | None = None) -> float:
        """A sum of squared errors over some rows, all where left out, relative to their share of the variance."""
        share = self.variance * (1 if rows is None else rows / self.share.total)
        return squared / share if share else 0.0

    def add_mean(self, model: SumModel) -> None:
        """Change a model of centred vectors, in place, into one of `uncentred` ones."""
        if not self.shift.any():
            return
        shift = model.coordinates(self._scaled_shift[None])[0]
        for block in model.spec.blocks:
            words = model.words(block)
            words += shift[block.columns] / np.float32(block.length)

    @property
    def _scaled_shift(self) -> FloatArray:
        return (self.shift.astype(np.float64) / (self.scale or 1.0)).astype(np.float32)


def rows_of(table: VectorTable, row_length: float | None) -> FloatArray:
    """(N, d) rows of a table, normalised to a length where one is given."""
    vectors = np.empty((len(table), table.embedding_dim), dtype=np.float32)
    start = 0
    for _, chunk in table.chunks(CHUNK_ROWS):
        vectors[start : start + len(chunk)] = (
            chunk if row_length is None else directions(chunk) * np.float32(row_length)
        )
        start += len(chunk)
    return vectors


def can_centre(spec: CodewordSpec) -> bool:
    """Whether a codec can give a constant vector back: by moving it into its codewords."""
    return spec.kind == BLOCK_SUM and spec.inner_dim == spec.embedding_dim


def _row_length(table: VectorTable, options: CompressOptions, share: RowShare) -> float | None:
    """The length that rows are normalised to: 1 where scales keep lengths, the mean length where nothing does."""
    if options.scale_bits:
        return 1.0
    if options.loss == "squared":
        return None
    # In float64: squares of very long and very short vectors leave float32.
    lengths = sum(float(np.linalg.norm(rows.astype(np.float64), axis=1).sum()) for _, rows in table.chunks())
    return share.ranks.total(lengths) / share.total


def _weighted_sum(
    vectors: FloatArray, weights: FloatArray | None, of: Callable[[DoubleArray], DoubleArray]
) -> DoubleArray:
    """Σ over rows, by weight, of what `of` makes of them in float64, of which there is never more than a chunk."""
    total: DoubleArray | float = 0.0
    for start in range(0, len(vectors), CHUNK_ROWS):
        values = of(vectors[start : start + CHUNK_ROWS].astype(np.float64))
        counted = None if weights is None else weights[start : start + CHUNK_ROWS].astype(np.float64)
        total = total + (values.sum(axis=0) if counted is None else counted @ values)
    return np.asarray(total)
