"""Budget: how many bits the blocks of a table may have."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kdcode.codec.transform.rows import index_bytes
from kdcode.codec.transform.spec import BREAK_BYTES
from kdcode.errors import OptionError

_LEAST_BITS = 1.0
"""Bits of a row at least."""
MOST_BITS = 12
"""Bits of a coordinate at most: float32 numbers have no more that tell rows apart."""


@dataclass(frozen=True)
class Budget:
    """What blocks of rows may take.

    Args:
        total: bytes of everything.
        rows: of the final table.
        dim: of the vectors.
        together: rows of a block.
        spare: the share of the bytes of blocks that is not aimed at.
        most_bits: of a coordinate, on average.
    """

    total: int
    rows: int
    dim: int
    together: int
    spare: float
    most_bits: float = MOST_BITS

    @property
    def blocks(self) -> int:
        """How many blocks the final table has."""
        return -(-self.rows // self.together)

    def left(self, own_bytes: int, classes: int) -> int:
        """Bytes of all blocks, with so many bytes taken by what all share, and so many classes."""
        breaks = BREAK_BYTES if self.together > 1 else 0
        return self.total - own_bytes - index_bytes(self.blocks, classes) - breaks

    def enough(self, own_bytes: int, classes: int) -> int:
        """Bytes of everything that rows of the most bits take, or the total where that is less."""
        taken = self.most_bits * self.together * self.dim * self.blocks / (8 * (1 - self.spare))
        return min(self.total, self.total - self.left(own_bytes, classes) + math.ceil(taken))

    def bits(self, own_bytes: int, classes: int) -> float:
        """Bits of a block.

        Raises:
            OptionError: nothing is left for them.
        """
        left = self.left(own_bytes, classes)
        if left < _LEAST_BITS * self.rows / 8:
            codes = f"{self.rows:,} rows of transform codes of {self.dim} dimensions"
            raise OptionError(f"size: {self.total:,} bytes leave none for {codes}")
        return float(min((1 - self.spare) * 8.0 * left / self.blocks, self.most_bits * self.together * self.dim))
