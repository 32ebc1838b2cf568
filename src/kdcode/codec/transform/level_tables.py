"""LevelTables: how often each level is expected; a pair of tables for each context.

A context is a class of coordinates of similar spread. It has a table for each of the two quantizers of the trellis: a
weight for level 0, one for each larger magnitude, and one for all beyond ("escape"). Weights are sixteenths of an
octave, a byte each. Both signs of a magnitude have its weight, or the positive one alone where no level is negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray
from kdcode.errors import OptionError

MAX_CONTEXTS = 64
MAX_MAGNITUDE = 2047
"""The largest magnitude that has a weight of its own, at most."""
_STEPS_OF_OCTAVE = 16
_RARE = 0.5
"""Magnitudes that were counted no more often have no weight of their own."""


@dataclass(frozen=True, eq=False)
class LevelTables:
    """Tables as they are stored.

    Args:
        magnitudes: (T, 2) uint16, M, the largest magnitude with a weight of its own, by context and quantizer.
        weights: (F,) uint8, of all tables in turn: level 0, magnitudes 1 to M, the escape.
        signs: whether levels may be negative.

    Raises:
        OptionError: the numbers of weights do not fit the magnitudes.
    """

    magnitudes: npt.NDArray[np.uint16]
    weights: npt.NDArray[np.uint8]
    signs: bool = True

    def __post_init__(self) -> None:
        wanted = int((self.magnitudes.astype(np.int64) + 2).sum())
        if wanted != len(self.weights):
            raise OptionError(f"weights: expected {wanted} numbers for the given magnitudes, got {len(self.weights)}")

    @property
    def nbytes(self) -> int:
        """Bytes that they take where they are stored."""
        return self.magnitudes.nbytes + self.weights.nbytes

    @property
    def count(self) -> int:
        """T, the number of contexts."""
        return len(self.magnitudes)

    @cached_property
    def first(self) -> npt.NDArray[np.int64]:
        """(2T + 1,) where the weights of each table begin; table 2t + q is that of context t and quantizer q."""
        return np.concatenate([[0], np.cumsum(self.magnitudes.reshape(-1).astype(np.int64) + 2)])

    @cached_property
    def shares(self) -> tuple[DoubleArray, ...]:
        """Of each table how often each magnitude is expected, both signs together; that of the escape is the last."""
        found = []
        for begin, end in zip(self.first[:-1], self.first[1:], strict=True):
            share = np.exp2(self.weights[begin:end] / _STEPS_OF_OCTAVE)
            share[1:-1] *= 1 + self.signs
            found.append(share / share.sum())
        return tuple(found)

    @cached_property
    def zero_bits(self) -> DoubleArray:
        """(T,) bits of level 0 of quantizer 0, which all coordinates of a row of zeros have."""
        return np.array([-np.log2(share[0]) for share in self.shares[::2]])

    @cached_property
    def entropies(self) -> DoubleArray:
        """(T,) bits of a level on average, signs included, if both quantizers are as frequent."""
        bits = [float(-(share @ np.log2(share)) + self.signs * share[1:-1].sum()) for share in self.shares]
        return np.asarray(np.array(bits).reshape(-1, 2).mean(axis=1))

    def extended(self, other: LevelTables) -> LevelTables:
        """These tables, and those of the contexts that only `other` has."""
        if other.count <= self.count:
            return self
        return LevelTables(
            np.concatenate([self.magnitudes, other.magnitudes[self.count :]]),
            np.concatenate([self.weights, other.weights[other.first[2 * self.count] :]]),
            self.signs,
        )

    def cut(self, count: int) -> LevelTables:
        """The tables of the first contexts."""
        return LevelTables(self.magnitudes[:count], self.weights[: self.first[2 * min(count, self.count)]], self.signs)


def fitted_tables(counts: DoubleArray, *, stored_bits: float = 0.0, signs: bool = True) -> LevelTables:
    """Tables for (T, 2, M + 1) counts of magnitudes.

    Magnitudes above the last one that was seen at all are escaped, and so are those that take fewer bits as escapes
    than a stored weight does: `stored_bits`, in bits of what was counted.
    """
    found = [_weights(table, stored_bits, 2 if signs else 1) for table in counts.reshape(-1, counts.shape[2])]
    magnitudes = np.array([len(own) - 2 for own in found], dtype=np.uint16).reshape(counts.shape[:2])
    return LevelTables(magnitudes, np.concatenate(found), signs)


def _weights(counts: DoubleArray, stored_bits: float, signs: int) -> npt.NDArray[np.uint8]:
    """Level 0, magnitudes, escape: sixteenths of an octave below the largest, which has 255."""
    seen = np.flatnonzero(counts > _RARE)
    last = min(int(seen[-1]), MAX_MAGNITUDE) if len(seen) else 0
    if stored_bits:
        last = _last_worth_storing(counts, last, stored_bits, signs)
    shares = np.concatenate([counts[: last + 1], [counts[last + 1 :].sum() + _RARE]])
    shares[1:-1] /= signs
    octaves = np.log2(np.maximum(shares, _RARE / 4) / shares.max())
    return np.asarray(np.clip(np.rint(255 + _STEPS_OF_OCTAVE * octaves), 0, 255), dtype=np.uint8)


def _last_worth_storing(counts: DoubleArray, most: int, stored_bits: float, signs: int) -> int:
    """The last magnitude that has a weight of its own, with the fewest bits for levels and weights together."""
    excess = 2 * np.floor(np.log2(2 * np.arange(1, len(counts) + 1))) + 1  # bits of an escape, sign and all
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
