"""LevelTables: how often each level is expected, and what it stands for; one pair of tables for each context.

A context is a class of coordinates of similar spread. It has a table for each of the two quantizers of the trellis: a
frequency for level 0, one for each magnitude, and one for all larger magnitudes ("escape"), whose excess follows in
bits. Both signs of a magnitude have its frequency, or the positive one alone where no coordinate is negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray
from kdcode.errors import OptionError

PRECISION = 15
"""Frequencies of a table add up to two to the power of this."""
TOTAL = 1 << PRECISION
SHIFT_UNIT = 1 / 512
"""What one unit of a stored shift is, as a share of the step."""
_RARE = 0.5
"""Magnitudes that were counted no more often have no frequency of their own."""
_MOST_OWN = 1 << 11
"""The largest magnitude that has a frequency of its own, at most."""
ESCAPE_BITS = 17
"""The longest excess of an escaped value, in bits."""


@dataclass(frozen=True, eq=False)
class LevelTables:
    """Tables as they are stored.

    Args:
        magnitudes: (T, 2) uint16, the largest magnitude with a frequency of its own, by context and quantizer.
        frequencies: (F,) uint16, of all tables in turn: level 0, magnitude 1 (each sign), …, the escape.
        shifts: (T, 2) uint8, by how much levels other than 0 lie nearer to zero than the multiple of the step.
        signs: whether levels may be negative.

    Raises:
        OptionError: tables that do not add up.
    """

    magnitudes: npt.NDArray[np.uint16]
    frequencies: npt.NDArray[np.uint16]
    shifts: npt.NDArray[np.uint8]
    signs: bool = True

    def __post_init__(self) -> None:
        lengths = self.magnitudes.reshape(-1).astype(np.int64) + 2
        if int(lengths.sum()) != len(self.frequencies):
            raise OptionError(
                f"frequencies: expected {int(lengths.sum())} numbers for the given magnitudes, got "
                f"{len(self.frequencies)}"
            )
        if not self.frequencies.all():
            raise OptionError("frequencies: expected numbers of at least 1")
        totals = np.add.reduceat(self.sizes, self.first[:-1])
        if (totals != TOTAL).any():
            at = int((totals != TOTAL).argmax())
            raise OptionError(f"frequencies: those of table {at} add up to {totals[at]}, expected {TOTAL}")

    @property
    def nbytes(self) -> int:
        """Bytes that they take where they are stored."""
        return self.magnitudes.nbytes + self.frequencies.nbytes + self.shifts.nbytes

    @property
    def count(self) -> int:
        """T, the number of contexts."""
        return len(self.magnitudes)

    @cached_property
    def first(self) -> npt.NDArray[np.int64]:
        """(2T + 1,) where the values of each table begin in `sizes` and `starts`; table 2t + q is that of context t."""
        values = 2 * self.magnitudes.reshape(-1).astype(np.int64) + 2
        return np.concatenate([[0], np.cumsum(values)])

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(values,) the frequency of each code value, escape last, of all tables in turn; 0 of one that cannot be."""
        magnitudes = self.magnitudes.reshape(-1).astype(np.int64)
        repeats = np.full(len(self.frequencies), 2)
        ends = np.cumsum(magnitudes + 2)
        repeats[ends - 1] = 1
        repeats[ends - magnitudes - 2] = 1
        found = np.repeat(self.frequencies.astype(np.int64), repeats)
        if not self.signs:
            inside = np.arange(len(found)) - np.repeat(self.first[:-1], np.diff(self.first))
            found[(inside > 0) & (inside % 2 == 0)] = 0
        return found

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """(values,) the frequencies of the values before each one in its table, added up."""
        before = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        return np.asarray(before - np.repeat(before[self.first[:-1]], np.diff(self.first)))

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """(values,) `starts`, each table's moved up by its number times `TOTAL`, so that one search finds a value."""
        return self.starts + np.repeat(np.arange(2 * self.count) * TOTAL, np.diff(self.first))

    @cached_property
    def escapes(self) -> npt.NDArray[np.int64]:
        """(2T,) the code value from which each table escapes."""
        return np.diff(self.first) - 1

    @cached_property
    def shift_of(self) -> FloatArray:
        """(2T,) the shifts in units of the step."""
        return (self.shifts.reshape(-1) * np.float32(SHIFT_UNIT)).astype(np.float32)

    def extended(self, other: LevelTables) -> LevelTables:
        """These tables, and those of the contexts that only `other` has."""
        if other.count <= self.count:
            return self
        begins = int(other.magnitudes[: self.count].astype(np.int64).sum()) + 4 * self.count
        return LevelTables(
            np.concatenate([self.magnitudes, other.magnitudes[self.count :]]),
            np.concatenate([self.frequencies, other.frequencies[begins:]]),
            np.concatenate([self.shifts, other.shifts[self.count :]]),
            self.signs,
        )

    def cut(self, count: int) -> LevelTables:
        """The tables of the first contexts."""
        end = int(self.magnitudes[:count].astype(np.int64).sum()) + 4 * min(count, self.count)
        return LevelTables(self.magnitudes[:count], self.frequencies[:end], self.shifts[:count], self.signs)

    def costs(self, largest: int) -> FloatArray:
        """(2T, largest + 1) bits of a level by its magnitude."""
        return np.stack([self._costs_of(table, largest) for table in range(2 * self.count)]).astype(np.float32)

    def _costs_of(self, table: int, largest: int) -> DoubleArray:
        sizes = self.sizes[self.first[table] : self.first[table + 1]].astype(np.float64)
        own = np.concatenate([sizes[:1], sizes[1:-1:2]])[: largest + 1]
        excess = np.arange(1, largest + 2 - len(own))  # of the escaped magnitudes, from 1
        escaped = PRECISION - np.log2(sizes[-1]) + _escape_bits(excess)
        return np.concatenate([PRECISION - np.log2(own), escaped])


def _escape_bits(excess: npt.NDArray[np.int64]) -> DoubleArray:
    """Bits of the excess of escaped magnitudes, from 1 on, sign and all."""
    return np.asarray(2 * np.floor(np.log2(2 * excess)) + 1)


def fitted_tables(
    counts: DoubleArray, shifts: DoubleArray, *, stored_bits: float = 0.0, signs: bool = True
) -> LevelTables:
    """Tables for (T, 2, M + 1) counts of magnitudes and (T, 2) shifts in units of the step.

    Magnitudes above the last one that was seen at all have no frequency of their own, nor have those that take fewer
    bits as escapes than a stored frequency does: `stored_bits`, in bits of what was counted.
    """
    found = [_frequencies(table, stored_bits, 2 if signs else 1) for table in counts.reshape(-1, counts.shape[2])]
    return LevelTables(
        np.array([len(own) - 2 for own in found], dtype=np.uint16).reshape(counts.shape[:2]),
        np.concatenate(found).astype(np.uint16),
        np.clip(np.rint(shifts / SHIFT_UNIT), 0, 255).astype(np.uint8),
        signs,
    )


def _frequencies(counts: DoubleArray, stored_bits: float, signs: int) -> npt.NDArray[np.int64]:
    """Level 0, magnitudes, escape: whole numbers of at least 1 that add up to `TOTAL`, each of 1 or 2 signs counted."""
    seen = np.flatnonzero(counts > _RARE)
    last = min(int(seen[-1]), _MOST_OWN) if len(seen) else 0
    if stored_bits:
        last = _last_worth_storing(counts, last, stored_bits, signs)
    weight = np.full(last + 2, float(signs))
    weight[[0, -1]] = 1
    shares = np.concatenate([counts[: last + 1], [counts[last + 1 :].sum() + _RARE]]) / weight
    shares = np.maximum(shares, _RARE / 4)
    found: npt.NDArray[np.int64] = np.maximum(
        1, np.floor(shares / (shares * weight).sum() * (TOTAL - 2 * weight.sum()))
    ).astype(np.int64)
    left = int(TOTAL - (found * weight).sum())
    if last and left > 1:
        most = 1 + int(shares[1:-1].argmax())
        if shares[most] > shares[0]:
            found[most] += left // signs
            left %= signs
    found[0] += left
    return found


def _last_worth_storing(counts: DoubleArray, most: int, stored_bits: float, signs: int) -> int:
    """The last magnitude that has a frequency of its own, with the fewest bits for levels and frequencies together."""
    excess = _escape_bits(np.arange(1, len(counts) + 1))
    own_bits = np.cumsum(_information(counts[: most + 1]))
    sign_bits = (signs - 1) * (np.cumsum(counts[: most + 1]) - counts[0])

    def bits(last: int) -> float:
        escaped = counts[last + 1 :]
        taken = own_bits[last] + sign_bits[last] + _information(escaped.sum()) + excess[: len(escaped)] @ escaped
        return float(taken + stored_bits * last)

    tried = sorted({most, *(int(most * 2 ** (-power / 2)) for power in range(1, 24))})
    return min(tried, key=bits)


def _information(counts: DoubleArray) -> DoubleArray:
    return np.asarray(-counts * np.log2(np.maximum(counts, 1e-30)))


def as_lookup(tables: LevelTables, bits: int) -> npt.NDArray[Any]:
    """(2T, 2^bits) for the leading bits of a place in a table, the first code value that may be there."""
    keys = (np.arange(1 << bits) << (PRECISION - bits)) + np.arange(2 * tables.count)[:, None] * TOTAL
    found = np.searchsorted(tables.places, keys, side="right") - 1
    return np.asarray(found - tables.first[:-1, None], dtype=np.uint16)
