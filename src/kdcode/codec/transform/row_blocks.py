"""RowBlocks: the codes of single rows, and those of blocks of rows that are entropy-coded together.

A row that is coded alone wastes some bits: those that say its length, and what is left of its last byte. A block of
several narrow rows wastes them once. Its levels are those of its rows, one after another, along one trellis. The code
of a row is its own part of them, with all else that its vector follows from: the state of the trellis before its first
coordinate, the class of its block, and the sides that are known of its own coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode.arrays import IntArray
from kdcode.codec.transform.range_coder import bit_lengths
from kdcode.codec.transform.trellis import states_before
from kdcode.errors import OptionError

Values = npt.NDArray[np.int64]


class BlockCodes(NamedTuple):
    """Codes of m blocks.

    Args:
        values: (m, rows · d) code values of all levels.
        numbers: (m, rows) of the centroids of the rows; (m, 0) where there are none.
        classes: (m,) of the blocks.
        sides: (m,) of the first coordinates of each block: a one, and a bit for each.
    """

    values: Values
    numbers: Values
    classes: Values
    sides: Values


@dataclass(frozen=True)
class RowBlocks:
    """How rows make up blocks.

    Args:
        rows: of a block.
        dim: d.
        states: of the trellis.
        numbered: whether rows have centroids.
    """

    rows: int
    dim: int
    states: int
    numbered: bool = False

    def count(self, rows: int) -> int:
        """How many blocks so many rows make."""
        return -(-rows // self.rows)

    def joined(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(m, rows · d) blocks of (n, d) rows; the last one is filled up with zeros."""
        if self.rows == 1:
            return rows
        found = np.zeros((self.count(len(rows)) * self.rows, self.dim), dtype=rows.dtype)
        found[: len(rows)] = rows
        return found.reshape(-1, self.rows * self.dim)

    def numbers_of(self, rows: Values) -> Values:
        """(m, rows) numbers of centroids of (n, 1) rows, or (m, 0) of (n, 0); missing rows have the first."""
        if not self.numbered:
            return np.zeros((self.count(len(rows)), 0), dtype=np.int64)
        found = np.zeros(self.count(len(rows)) * self.rows, dtype=np.int64)
        found[: len(rows)] = rows[:, 0]
        return found.reshape(-1, self.rows)

    def own(self, blocks: npt.NDArray[Any], numbers: IntArray, places: IntArray) -> npt.NDArray[Any]:
        """(n, d) what rows have in (m, rows · d) blocks, by (n,) numbers of blocks and places in them."""
        return np.asarray(blocks.reshape(len(blocks), self.rows, self.dim)[numbers, places])

    def row_codes(self, blocks: BlockCodes, numbers: IntArray, places: IntArray) -> Values:
        """(n, columns) codes of the rows at (n,) places of blocks."""
        if self.rows == 1:
            return np.column_stack([blocks.values, blocks.numbers, blocks.classes, blocks.sides])[numbers]
        before = states_before(blocks.values, self.states)[:, :: self.dim]
        known = (bit_lengths(blocks.sides) - 1)[numbers]
        own = np.clip(known - places * self.dim, 0, self.dim)
        after = np.maximum(known - places * self.dim - own, 0)
        sides = 1 << own | blocks.sides[numbers] >> after & (1 << own) - 1
        values = self.own(blocks.values, numbers, places)
        own_number = blocks.numbers[numbers, places][:, None] if self.numbered else blocks.numbers[numbers]
        return np.column_stack([values, own_number, before[numbers, places], blocks.classes[numbers], sides])

    def block_codes(self, codes: IntArray) -> BlockCodes:
        """The codes of blocks, of (n, columns) codes of all their rows in order; undoes `row_codes`.

        Raises:
            OptionError: rows that are no blocks.
        """
        whole: Values = np.asarray(codes, dtype=np.int64)
        values, classes, sides = self.joined(whole[:, : self.dim]), whole[:, -2], whole[:, -1]
        numbers = self.numbers_of(whole[:, self.dim : self.dim + self.numbered])
        if self.rows == 1:
            return BlockCodes(values, numbers, classes, sides)
        first = np.arange(0, len(codes), self.rows)
        block = np.arange(len(codes)) // self.rows
        before = states_before(values, self.states)[:, :: self.dim].reshape(-1)[: len(codes)]
        known = bit_lengths(sides) - 1
        total = np.add.reduceat(known, first)
        wanted = np.clip(total[block] - np.arange(len(codes)) % self.rows * self.dim, 0, self.dim)
        wrong = (classes != classes[first][block]) | (before != whole[:, -3]) | (known != wanted)
        if wrong.any():
            row = int(wrong.argmax())
            raise OptionError(
                f"codes: row {row} does not follow the rows before it; {self.rows} rows are coded together here, so "
                "that codes are those of all rows that were encoded, in their order"
            )
        joined = np.ones(len(first), dtype=np.int64)
        for place in range(min(self.rows, int(total.max(initial=0)))):  # a row for each side, at most
            rows = np.arange(place, len(codes), self.rows)
            joined[: len(rows)] = joined[: len(rows)] << known[rows] | sides[rows] & (1 << known[rows]) - 1
        return BlockCodes(values, numbers, classes[first], joined)
