"""Tables of levels from the levels that rows were given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.transform import EncodedBlocks, LevelTables, Transform, fitted_tables
from kdcode.codec.transform.spec import SIDE_UNIT

LOWEST = -3.0
"""The spread of the first context: two to the power of this, in steps."""
_PRIOR = 24.0
"""How many levels a table is worth that was computed and not counted."""


_STORED_BITS = 8
"""Bits of a weight that is stored."""


class CountedTables(NamedTuple):
    """Tables of counted levels.

    Args:
        whole: with all weights, to go on fitting with. A context that few coordinates have keeps the table that
            coordinates of its spread should have, so that others may come to it.
        stored: with the weights alone that are worth what they take in a file.
    """

    whole: LevelTables
    stored: LevelTables


@dataclass(frozen=True)
class LevelStatistics:
    """Which contexts there are, and what levels are expected in each.

    Args:
        octaves: of spread between one context and the next. The closer they are, the more tables have to be stored.
        share: of all rows that are counted. The fewer rows a table is for, the fewer weights are worth storing.
        zeros: the share of coordinates that are exactly zero.
        signs: whether coordinates may be negative.
    """

    octaves: float = 0.25
    share: float = 0.0
    zeros: float = 0.0
    signs: bool = True

    @property
    def bits_of_zeros(self) -> float:
        """Bits of a coordinate that say whether it is zero."""
        shares = [share for share in (self.zeros, 1 - self.zeros) if share > 0]
        return -sum(share * math.log2(share) for share in shares)

    def spread_of(self, context: IntArray | int) -> DoubleArray:
        """The spread of coordinates of a context, in steps."""
        return np.asarray(2.0 ** (LOWEST + self.octaves * np.asarray(context, dtype=np.float64)))

    def context_of(self, spread: DoubleArray) -> IntArray:
        """The context of coordinates of a spread, in steps; it may be below 0."""
        return np.rint((np.log2(np.maximum(spread, 2.0**-60)) - LOWEST) / self.octaves).astype(np.int64)

    def computed_counts(self, contexts: int, largest: int) -> DoubleArray:
        """(T, 2, largest + 1) shares of magnitudes: coordinates are zero or normal, with somewhat heavier tails."""
        size = np.arange(largest + 1, dtype=np.float64)
        found = np.empty((contexts, 2, largest + 1))
        for context in range(contexts):
            spread = np.sqrt(self.spread_of(context) ** 2 / (1 - self.zeros) + 1 / 3)
            for quantizer in (0, 1):
                lies = np.where(size > 0, 2 * size - quantizer, 0.0) / spread
                density = np.exp(-np.square(lies) / 2) + 0.02 * np.exp(-lies * 0.7)
                density[1:] *= 2
                found[context, quantizer] = (1 - self.zeros) * density / density.sum()
                found[context, quantizer, 0] += self.zeros
        return found

    def computed_tables(self, contexts: int, largest: int) -> LevelTables:
        """Tables to begin with."""
        counts = self.computed_counts(contexts, largest) * (1 << 15)
        return fitted_tables(counts, signs=self.signs)

    def counted_tables(self, codec: Transform, encoded: EncodedBlocks, largest: int) -> CountedTables:
        """Tables of the levels of blocks, with as many contexts as the codec has.

        Args:
            codec: of the blocks.
            encoded: the blocks.
            largest: the largest magnitude.
        """
        count = codec.spec.contexts
        counts = np.zeros((count, 2, largest + 1), dtype=np.int64)
        used = (encoded.rows - 1) % codec.spec.rows_per_block + 1
        codec.core.count(encoded.multiples, encoded.others, used, counts)
        expected = counts + _PRIOR * self.computed_counts(count, largest)
        return CountedTables(
            fitted_tables(expected, signs=self.signs),
            fitted_tables(expected, stored_bits=_STORED_BITS * self.share, signs=self.signs),
        )


def counted_sides(errors: FloatArray) -> npt.NDArray[np.uint8]:
    """(k,) how far from their level the first coordinates lie on average, as stored, of (n, k) errors in steps.

    Nothing where most of them lie on it, so that zeros stay zeros.
    """
    distance = np.abs(errors)
    exact = 2 * (distance == 0).sum(axis=0) > len(distance)
    mean = np.where(exact, 0.0, (distance.sum(axis=0, dtype=np.float64) + _PRIOR / 2) / (len(distance) + _PRIOR))
    return np.clip(np.rint(mean / SIDE_UNIT), 0, 255).astype(np.uint8)
