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
    energies = _energies(table, most, seed)
    active = min(dim, 8 * bytes_per_row)  # a coordinate of less than a bit is mostly zero, whatever its scale

    def cost(together: int) -> float:
        """Bits of a row that are not spent on its levels, or on levels by tables of another scale."""
        blocks = energies.reshape(-1, together)
        mixed = np.log2(blocks.mean(axis=1)) - np.log2(blocks).mean(axis=1)  # of arithmetic and geometric means
        return _BITS_PER_BLOCK / together + active / 2 * float(mixed.mean())

    return min((1 << power for power in range(most.bit_length())), key=cost)


def _energies(table: PlannedTable, together: int, seed: int) -> DoubleArray:
    """(stretches, rows) squared distances from the mean, times weights, of rows that follow one another."""
    drawn = np.random.default_rng(seed).permutation(len(table) // together)[:_STRETCHES]
    numbers = (np.sort(drawn)[:, None] * together + np.arange(together)).reshape(-1)
    vectors = table.vectors_at(numbers).astype(np.float64)
    energies = np.square(vectors - vectors.mean(axis=0)).sum(axis=1)
    if table.weights is not None:
        energies *= table.weights[numbers]
    return np.asarray(np.maximum(energies, 1e-6 * max(energies.mean(), 1e-300)).reshape(-1, together))
