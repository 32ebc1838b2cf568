"""chosen_rows_per_block: how many rows of a table are coded together."""

from __future__ import annotations

import numpy as np

from kdcode.arrays import DoubleArray
from kdcode.codec.transform.spec import MAX_ROWS_PER_BLOCK
from kdcode.learning.planned_table import PlannedTable

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
    energies, nonzero = _energies(table, most, least, seed)
    active = min(nonzero, 8 * bytes_per_row)  # a coordinate of less than a bit is mostly zero, whatever its scale

    def cost(together: int) -> float:
        """Bits of a row that are not spent on its levels, or on levels by tables of another scale."""
        blocks = energies.reshape(-1, together)
        mixed = np.log2(blocks.mean(axis=1)) - np.log2(blocks).mean(axis=1)  # of arithmetic and geometric means
        return _BITS_PER_BLOCK / together + active / 2 * float(mixed.mean())

    return min((1 << power for power in range(most.bit_length())), key=cost)


def _energies(table: PlannedTable, together: int, of_zeros: float, seed: int) -> tuple[DoubleArray, float]:
    """(stretches, rows) squared scales of rows that follow one another, and how many numbers of a row are not zero.

    Numbers that are exactly zero tell nothing of a row's scale: a sparse row with few others is not a small one. A row
    of nothing but zeros counts as `of_zeros` of the usual energy.
    """
    drawn = np.random.default_rng(seed).permutation(len(table) // together)[:_STRETCHES]
    numbers = (np.sort(drawn)[:, None] * together + np.arange(together)).reshape(-1)
    vectors = table.vectors_at(numbers).astype(np.float64)
    is_used = vectors != 0
    count = is_used.sum(axis=1)
    energies = np.square((vectors - vectors.mean(axis=0)) * is_used).sum(axis=1) / np.maximum(count, 1)
    if table.weights is not None:
        energies *= table.weights[numbers]
    some = count > 0
    usual = max(float(energies.sum()), 1e-300) / max(some.sum(), 1)
    energies = np.where(some, np.maximum(energies, 1e-6 * usual), of_zeros * usual)
    return energies.reshape(-1, together), float(count.sum() / max(some.sum(), 1))
