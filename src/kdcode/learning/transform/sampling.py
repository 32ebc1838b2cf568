"""The rows that a transform codec is made from, with their weights as scales, and how many of them make a block.

A squared error that counts w times is that of a row that is √w times as long. So rows are multiplied by about that, and
the codec is made for these longer and shorter rows as if all counted alike. √w is rounded to a power of two, by which
the step of the row is divided; what is left of its weight acts on λ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.transform.spec import MAX_ROWS_PER_BLOCK
from kdcode.learning.planned_table import PlannedTable
from kdcode.symbols import RowNumbers, StoredSymbols

_MOST_NUMBERS = 1 << 25
"""Numbers of the rows that the rotation is found from, at most."""
_SAMPLE_NUMBERS = 1 << 20
_SAMPLE_ROWS = (1024, 8192)
"""Rows that are coded again and again: at least, and at most; in between what makes so many numbers."""
_FEWER = 4
"""One in this many rows of a sample is enough to compare codecs by."""
_EXTREMES = 32
"""How many of the longest rows are looked at, so that a row may be as long as they need."""
_ROWS_AT_ONCE = 4096
_MOST_OCTAVES = 6
_SHORTEST = 1 / 32
"""Of the median length: shorter rows count as if they were as long where directions matter."""
_LEVELS, _MOST_LEVELS = 128, 512
"""Levels of a block, all of which are read for any row of it: as many as a usual row has, and at most."""
_SHORT_BLOCK = 16
"""Bytes of a block below which it may have the most levels."""
_LEAST_BLOCKS = 256
_BITS_PER_BLOCK = 5.0
"""What a block costs beside its levels: bits that say its length, and some that are left over."""
_STRETCHES = 256
"""Stretches of rows that are looked at."""
_ROW_OF_ZEROS = 1 / 32
"""A row of zeros costs about as much beside others as one of this share of their energy does, or less with few bits."""


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
        by_length: (blocks,) places of the blocks of these rows, the shortest block first.
    """

    mean: DoubleArray
    covariance: DoubleArray
    rows: ScaledRows
    extremes: ScaledRows
    numbers: IntArray
    by_length: IntArray

    def fewer(self) -> TableSample:
        """A quarter of the rows that are coded, of all lengths; all of them where they are few."""
        together = len(self.numbers) // len(self.by_length)
        every = min(_FEWER, len(self.numbers) // _SAMPLE_ROWS[0])
        if every < 2:
            return self
        places = self.by_length[every // 2 :: every]
        blocks = np.sort(places)
        rows = (blocks[:, None] * together + np.arange(together)).reshape(-1)
        weights = None if self.rows.weights is None else self.rows.weights[rows]
        some = ScaledRows(self.rows.vectors[rows], weights)
        return replace(self, rows=some, numbers=self.numbers[rows], by_length=np.argsort(np.argsort(places)))

    @property
    def energy(self) -> float:
        """Squared distances of the rows from the mean, by their weights, added up."""
        squares = np.square(self.rows.vectors - self.mean, dtype=np.float64).sum(axis=1)
        return float(squares.sum() if self.rows.weights is None else squares @ self.rows.weights)


def scales_of(weights: DoubleArray) -> DoubleArray:
    """(n,) the powers of two that are nearest to the square roots of weights."""
    octaves = np.rint(np.log2(np.maximum(weights, 1e-12)) / 2)
    return np.asarray(2.0 ** np.clip(octaves, -_MOST_OCTAVES, _MOST_OCTAVES))


def table_sample(table: PlannedTable, seed: int, together: int = 1, *, half: bool = False) -> TableSample:
    """The sample of a table.

    Args:
        table: with at least one block of rows.
        seed: of what is drawn.
        together: rows of a block; the sample has whole blocks.
        half: whether half of the rows, or more, are left out: centroids are to be learned from others than are coded.
    """
    count, dim, blocks = len(table), table.embedding_dim, len(table) // together
    weights = mean_weights(table)
    alike = weights if weights is None or together == 1 else _alike_in_blocks(weights, together)
    lengths = table.norms if alike is None else table.norms * scales_of(alike)
    lengths = np.sqrt(np.square(lengths[: blocks * together]).reshape(blocks, together).sum(axis=1))
    coded = max(_SAMPLE_ROWS[0], min(_SAMPLE_ROWS[1], _SAMPLE_NUMBERS // dim))
    many = np.sort(np.random.default_rng(seed).permutation(count)[: min(count, max(coded, _MOST_NUMBERS // dim))])

    def rows_of(chosen: IntArray) -> IntArray:
        return np.asarray((np.sort(chosen)[:, None] * together + np.arange(together)).reshape(-1))

    def at(rows: IntArray) -> ScaledRows:
        return ScaledRows(table.vectors_at(rows), None if alike is None else alike[rows])

    mean, covariance = _moments(table, many, weights)
    extremes = np.argsort(lengths, kind="stable")[-_EXTREMES:]
    chosen = _of_all_lengths(lengths, min(max(1, blocks // 2) if half else blocks, -(-coded // together)), seed)
    numbers, by_length = rows_of(chosen), np.argsort(np.argsort(chosen))
    return TableSample(mean, covariance, at(numbers), at(rows_of(extremes)), numbers, by_length)


@dataclass(frozen=True, eq=False)
class ByDirection:
    """A table whose rows count by 1/‖v‖², so that the squared errors of normalised rows are what is added up.

    Args:
        table: the table, which may have weights of its own.
    """

    table: PlannedTable

    def __len__(self) -> int:
        return len(self.table)

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""
        return self.table.embedding_dim

    @property
    def packed_symbols(self) -> StoredSymbols | RowNumbers:
        """The symbols of all rows."""
        return self.table.packed_symbols

    @cached_property
    def weights(self) -> FloatArray:
        """(N,) how much rows count."""
        return direction_weights(self.table.norms, self.table.weights)

    @property
    def norms(self) -> DoubleArray:
        """(N,) lengths of the vectors."""
        return self.table.norms

    def vectors_at(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows."""
        return self.table.vectors_at(rows)


def direction_weights(norms: DoubleArray, weights: FloatArray | None) -> FloatArray:
    """(n,) weights over squared lengths; rows that are next to nothing count no more than somewhat longer ones."""
    usual = float(np.median(norms[norms > 0])) if norms.any() else 1.0
    counts = np.square(usual / np.maximum(norms, usual * _SHORTEST))
    return (counts if weights is None else counts * weights).astype(np.float32)


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


def _moments(table: PlannedTable, rows: IntArray, weights: DoubleArray | None) -> tuple[DoubleArray, DoubleArray]:
    """(d,) mean and (d, d) covariance of (n,) rows of a table, by the (N,) weights of all."""
    dim = table.embedding_dim
    counts = np.ones(len(rows)) if weights is None or not weights[rows].any() else weights[rows]
    parts = [slice(start, start + _ROWS_AT_ONCE) for start in range(0, len(rows), _ROWS_AT_ONCE)]
    total = np.zeros(dim)
    for part in parts:
        total += counts[part] @ table.vectors_at(rows[part])
    mean, scatter = total / counts.sum(), np.zeros((dim, dim))
    for part in parts:
        centred = (table.vectors_at(rows[part]) - mean) * np.sqrt(counts[part])[:, None]
        scatter += centred.T @ centred
    return mean, scatter / counts.sum()


def _of_all_lengths(lengths: DoubleArray, count: int, seed: int) -> IntArray:
    """(count,) rows with every so-manyth of the (N,) lengths of all: the bytes of rows follow their length."""
    order = np.argsort(lengths, kind="stable")
    places = (np.arange(count) + np.random.default_rng(seed).random()) * (len(lengths) / count)
    return np.asarray(order[places.astype(np.int64)])


def chosen_rows_per_block(table: PlannedTable, rows: int, bytes_per_row: float, seed: int = 0) -> int:
    """A power of two: 1 unless rows are narrow, or of few bytes.

    Rows of a block share tables of levels that suit rows of one scale. If neighbours differ much in scale, as the rows
    of n-gram tables do, that costs more than a block saves.

    Args:
        table: what is to be compressed, or a sample of it.
        rows: of the final table.
        bytes_per_row: what it may take for each row.
        seed: of the sample.
    """
    dim, most = table.embedding_dim, 1
    while 2 * most <= MAX_ROWS_PER_BLOCK and 2 * most * _LEAST_BLOCKS <= min(rows, len(table)):
        levels = _MOST_LEVELS if most * bytes_per_row < _SHORT_BLOCK else _LEVELS
        if 2 * most * dim > levels:
            break
        most *= 2
    if most == 1:
        return 1
    least = max(_ROW_OF_ZEROS, 0.25 ** (8 * bytes_per_row / dim))
    numbers = _stretches(len(table), most, seed)
    energies, nonzero = _energies(table.vectors_at(numbers).astype(np.float64), least)
    counts = np.ones(len(numbers)) if table.weights is None else table.weights[numbers].astype(np.float64)
    counts = np.maximum(counts, 1e-6 * (counts.max() or 1.0))
    active = min(nonzero, 8 * bytes_per_row)  # a coordinate of less than a bit is mostly zero, whatever its scale

    def cost(together: int) -> float:
        """Bits of a row that are not spent on its levels, or on levels by tables of another scale."""
        mixed = 0.0
        for scales in (energies, counts):  # rows of a block count by the mean of their weights
            blocks = scales.reshape(-1, together)
            mixed += float((np.log2(blocks.mean(axis=1)) - np.log2(blocks).mean(axis=1)).mean())
        return _BITS_PER_BLOCK / together + active / 2 * mixed

    return min((1 << power for power in range(most.bit_length())), key=cost)


def _stretches(count: int, together: int, seed: int) -> IntArray:
    """(n,) numbers of rows: runs of consecutive rows."""
    drawn = np.random.default_rng(seed).permutation(count // together)[:_STRETCHES]
    return np.asarray((np.sort(drawn)[:, None] * together + np.arange(together)).reshape(-1))


def _energies(vectors: DoubleArray, of_zeros: float) -> tuple[DoubleArray, float]:
    """(n,) squared scales of (n, d) rows, and how many numbers of a row are not zero.

    Numbers that are exactly zero tell nothing of a row's scale: a sparse row with few others is not a small one. A row
    of nothing but zeros counts as `of_zeros` of the usual energy.
    """
    is_used = vectors != 0
    count = is_used.sum(axis=1)
    energies = np.square((vectors - vectors.mean(axis=0)) * is_used).sum(axis=1) / np.maximum(count, 1)
    some = count > 0
    usual = max(float(energies.sum()), 1e-300) / max(some.sum(), 1)
    energies = np.where(some, np.maximum(energies, 1e-6 * usual), of_zeros * usual)
    return energies, float(count.sum() / max(some.sum(), 1))
