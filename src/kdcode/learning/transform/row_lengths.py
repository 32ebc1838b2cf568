"""How long rows may be: what a size leaves for them, and the few lengths that a codec has.

Lengths are few enough to say which, and enough that little is left over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kdcode import bitpack
from kdcode.arrays import DoubleArray, IntArray
from kdcode.codec.transform.rows import index_bytes
from kdcode.codec.transform.spec import BREAK_BYTES, MAX_CLASSES, MOST_SIDES
from kdcode.errors import OptionError

_LEAST_BITS = 1.0
"""Bits of a row at least."""
MOST_BITS = 12
"""Bits of a coordinate at most: float32 numbers have no more that tell rows apart."""
_WORTH = 0.5
"""What a bit is worth that is left for sides, beside one that is spent on levels."""
_LONGER, _SHORTER = 16, 0.8
"""The longest class has room for one of so many parts more than the longest row of the sample needs."""
_SEVERAL, _LITTLE_SHORTER = 8, 0.95
_MOST_CLASS_BITS = 6
_FEW_ROWS, _FEW_LENGTHS = 16, 4
"""A scale that fewer than one of so many rows have, has so many lengths."""


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
        """Bytes of all blocks, given the bytes of what all rows share, and the classes."""
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


class RowKind(NamedTuple):
    """Rows that are multiplied by the same scale, and equally long: the place of their length among all."""

    scale: float
    place: int


def row_kinds(lengths: Sequence[int], taken: IntArray, scales: DoubleArray | None) -> list[RowKind]:
    """The kinds of rows that a codec has: all lengths, or for each scale of rows those that it needs.

    Where that would be more than a codec may have, all scales make do with fewer lengths.

    Args:
        lengths: that there are, in bytes.
        taken: (n,) those of rows.
        scales: (n,) that rows are multiplied by; one that few rows have makes do with a few lengths. None for 1.
    """
    if scales is None:
        return [RowKind(1.0, place) for place in range(len(lengths))]
    most = len(lengths)
    while len(kinds := _kinds_of_scales(lengths, taken, scales, most)) > MAX_CLASSES:
        most //= 2
    return kinds


def _kinds_of_scales(lengths: Sequence[int], taken: IntArray, scales: DoubleArray, most: int) -> list[RowKind]:
    """For each scale up to `most` of the lengths that its rows take, and the shortest and the longest of all."""
    kinds = []
    for scale in np.unique(scales):
        own = taken[scales == scale]
        few = len(own) * _FEW_ROWS < len(scales)
        needed = chosen_lengths(own, min(most, _FEW_LENGTHS) if few else most)
        places = {int(place) for place in np.searchsorted(lengths, needed)} | {0, len(lengths) - 1}
        kinds += [RowKind(float(scale), min(place, len(lengths) - 1)) for place in sorted(places)]
    return kinds


def chosen_lengths(lengths: IntArray, classes: int) -> tuple[int, ...]:
    """Up to so many lengths in bytes, the longest among them, with the least bytes in all if rows are rounded up."""
    values, counts = np.unique(lengths, return_counts=True)
    if len(values) <= classes:
        return tuple(int(value) for value in values)
    before = np.concatenate([[0], np.cumsum(counts)])
    cost = np.full(len(values) + 1, np.inf)
    cost[0] = 0
    last: list[IntArray] = []
    for _ in range(classes):
        total = cost[:-1, None] + values[None, :] * (before[None, 1:] - before[:-1, None])
        total[np.tril_indices(len(values), -1)] = np.inf
        last.append(total.argmin(axis=0))
        cost = np.concatenate([[np.inf], total.min(axis=0)])
        cost[0] = 0
    found, end = [], len(values) - 1
    for begins in reversed(last):
        if end < 0:
            break
        found.append(int(values[end]))
        end = int(begins[end]) - 1
    return tuple(reversed(found))


def with_spare_lengths(natural: IntArray, classes: int, mean: float) -> tuple[int, ...]:
    """Up to so many lengths for (n,) natural ones, and a longer and a shorter one as far as there are classes for them.

    The shorter one is for when rows take more bytes than the sample told, and have to be coded again. It takes the
    place of one of several others, if all of them are about as long as the mean. The longer one is for rows that are
    longer than any of the sample.
    """
    lengths, shortest = chosen_lengths(natural, classes), int(_SHORTER * mean)
    if len(lengths) == 1:
        return (max(1, int(mean)),)
    spare = (1 << bitpack.bits_for(len(lengths))) - len(lengths)
    shorter: tuple[int, ...] = ()
    if lengths[0] > (shortest if spare else _LITTLE_SHORTER * mean) and (spare or len(lengths) >= _SEVERAL):
        lengths = lengths if spare else chosen_lengths(natural, len(lengths) - 1)
        shorter, spare = (shortest,), max(0, spare - 1)
    longer = (lengths[-1] + 2 + lengths[-1] // _LONGER,) if spare else ()
    return (*shorter, *lengths, *longer)


def chosen_classes(lengths: IntArray) -> int:
    """How many lengths (n,) natural ones should become: more take more bits to say, fewer leave more bits over."""

    def cost(classes: int) -> float:
        chosen = np.array(chosen_lengths(lengths, classes))
        left = 8.0 * (chosen[np.searchsorted(chosen, lengths)] - lengths)
        return math.log2(classes) + float((left - _WORTH * np.minimum(left, MOST_SIDES)).mean())

    return min([1 << bits for bits in range(_MOST_CLASS_BITS + 1)], key=cost)
