"""The rows that a transform codec is made from, with their weights as scales.

A squared error that counts w times is that of a row that is √w times as long. So rows are multiplied by about that, and
the codec is made for these longer and shorter rows as if all counted alike. √w is rounded to a power of two, by which
the step of the row is divided; what is left of its weight acts on λ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.learning.planned_table import PlannedTable

_MOST_NUMBERS = 1 << 26
"""Numbers of the rows that the rotation is found from, at most."""
_SAMPLE_NUMBERS = 1 << 20
_SAMPLE_ROWS = (1024, 8192)
"""Rows that are coded again and again: at least, and at most; in between what makes so many numbers."""
_FEWER = 4
_EXTREMES = 32
"""How many of the longest rows are looked at, so that a row may be as long as they need."""
_ROWS_AT_ONCE = 4096
_MOST_OCTAVES = 6


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Some rows.

    Args:
        vectors: (n, d).
        weights: (n,) how much they count, 1 on average over the table; None where all count alike.
    """

    vectors: FloatArray
    weights: DoubleArray | None

    @property
    def scales(self) -> DoubleArray | None:
        """(n,) powers of two that rows are multiplied by."""
        return None if self.weights is None else scales_of(self.weights)

    @property
    def left_weights(self) -> DoubleArray | None:
        """(n,) how much the multiplied rows count."""
        return None if self.weights is None else self.weights / scales_of(self.weights) ** 2

    def scaled(self, coordinates: FloatArray) -> FloatArray:
        """(n, d) coordinates of these rows, multiplied."""
        scales = self.scales
        return coordinates if scales is None else (coordinates * scales[:, None]).astype(np.float32)


@dataclass(frozen=True, eq=False)
class TableSample:
    """What a codec is made from.

    Args:
        mean: (d,) of many rows, by their weights.
        covariance: (d, d) of many rows, by their weights.
        rows: that are coded.
        extremes: the longest rows, once multiplied.
        numbers: (n,) of the rows that are coded, in the table.
    """

    mean: DoubleArray
    covariance: DoubleArray
    rows: ScaledRows
    extremes: ScaledRows
    numbers: IntArray

    @property
    def energy(self) -> float:
        """Squared distances of the rows from the mean, by their weights, added up."""
        squares = np.square(self.rows.vectors - self.mean, dtype=np.float64).sum(axis=1)
        return float(squares.sum() if self.rows.weights is None else squares @ self.rows.weights)


def scales_of(weights: DoubleArray) -> DoubleArray:
    """(n,) the powers of two that are nearest to the square roots of weights."""
    octaves = np.rint(np.log2(np.maximum(weights, 1e-12)) / 2)
    return np.asarray(2.0 ** np.clip(octaves, -_MOST_OCTAVES, _MOST_OCTAVES))


def table_sample(
    table: PlannedTable, seed: int, together: int = 1, *, few: bool = False, half: bool = False
) -> TableSample:
    """The sample of a table.

    Args:
        table: with at least one block of rows.
        seed: of what is drawn.
        together: rows of a block; the sample has whole blocks.
        few: whether an estimate is enough, from fewer rows than a codec needs.
        half: whether half of the rows, or more, are left out: centroids are to be learned from others than are coded.
    """
    count, dim, blocks = len(table), table.embedding_dim, len(table) // together
    weights = mean_weights(table)
    alike = weights if weights is None or together == 1 else _alike_in_blocks(weights, together)
    lengths = table.norms if alike is None else table.norms * scales_of(alike)
    lengths = np.sqrt(np.square(lengths[: blocks * together]).reshape(blocks, together).sum(axis=1))
    coded = max(_SAMPLE_ROWS[0], min(_SAMPLE_ROWS[1], _SAMPLE_NUMBERS // dim) // (_FEWER if few else 1))
    many = np.sort(np.random.default_rng(seed).permutation(count)[: min(count, max(coded, _MOST_NUMBERS // dim))])

    def rows_of(chosen: IntArray) -> IntArray:
        return np.asarray((np.sort(chosen)[:, None] * together + np.arange(together)).reshape(-1))

    def at(rows: IntArray) -> ScaledRows:
        return ScaledRows(table.vectors_at(rows), None if alike is None else alike[rows])

    mean, covariance = _moments(ScaledRows(table.vectors_at(many), None if weights is None else weights[many]))
    extremes = np.argsort(lengths, kind="stable")[-_EXTREMES:]
    chosen = _of_all_lengths(lengths, min(max(1, blocks // 2) if half else blocks, -(-coded // together)), seed)
    numbers = rows_of(chosen)
    return TableSample(mean, covariance, at(numbers), at(rows_of(extremes)), numbers)


def _alike_in_blocks(weights: DoubleArray, together: int) -> DoubleArray:
    """(N,) weights that are the same for all rows of a block: their mean, which is how the codec counts them."""
    first = np.arange(0, len(weights), together)
    sizes = np.diff([*first, len(weights)])
    return np.asarray(np.repeat(np.add.reduceat(weights, first) / sizes, sizes))


def mean_weights(table: PlannedTable) -> DoubleArray | None:
    """(N,) weights of all rows, 1 on average; None where all count alike."""
    if table.weights is None or not table.weights.any():
        return None
    own = table.weights.astype(np.float64)
    return np.asarray(own / own.mean())


def _moments(rows: ScaledRows) -> tuple[DoubleArray, DoubleArray]:
    """(d,) mean and (d, d) covariance of rows, by their weights."""
    vectors, count = rows.vectors, len(rows.vectors)
    weights = np.ones(count) if rows.weights is None or not rows.weights.any() else rows.weights
    mean = (weights @ vectors) / weights.sum() if rows.weights is not None else vectors.mean(axis=0, dtype=np.float64)
    scatter = np.zeros((vectors.shape[1], vectors.shape[1]))
    for start in range(0, count, _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        centred = (vectors[some] - mean) * np.sqrt(weights[some])[:, None]
        scatter += centred.T @ centred
    return np.asarray(mean), scatter / weights.sum()


def _of_all_lengths(lengths: DoubleArray, count: int, seed: int) -> IntArray:
    """(count,) rows with every so-manyth of the (N,) lengths of all: the bytes of rows follow their length."""
    order = np.argsort(lengths, kind="stable")
    places = (np.arange(count) + np.random.default_rng(seed).random()) * (len(lengths) / count)
    return np.asarray(order[places.astype(np.int64)])
