"""A transform codec from a sample of rows: the step, the lengths of rows and the tables of levels.

All follow from each other: tables say what levels cost, costs decide which levels are chosen, and these are what tables
count. So the sample is coded a few times, each time with the tables of the time before, and with a step that brings the
rows nearer to the length that they are to have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.transform.centroids import Centroids
from kdcode.codec.transform.level_tables import MAX_CONTEXTS, LevelTables
from kdcode.codec.transform.spec import MAX_CLASSES, MOST_SIDES
from kdcode.evaluation.rate_distortion import water_level
from kdcode.learning.transform.coding import encoded
from kdcode.learning.transform.level_statistics import LevelStatistics, counted_sides
from kdcode.learning.transform.quantizer import Quantizer
from kdcode.learning.transform.rotation import Rotation
from kdcode.learning.transform.row_lengths import with_spare_lengths

_MOST_LEVEL = 16000
_LEAST_STEP = 1e-9
_NATURAL_ROUNDS, _CLASS_ROUNDS, _STORED_ROUNDS = 20, 8, 6
"""How often a sample is coded at most: with all lengths of rows, with those chosen, and with tables as stored."""
_NATURALLY_CLOSE = 0.015
"""How near to the bits that are asked for, as a share of them, natural rows have to come."""
_NATURAL_GAIN, _CLASS_GAIN = 0.005, 0.001
"""By what share the cost has to fall for another round."""
_ADJUSTMENTS = 24
"""Steps that are tried at most, to come near to the bits that are asked for."""
_MOST_OCTAVES = 0.3
"""By how much the step changes at once, at most."""
_ACTIVE = 0.3
"""Coordinates that are larger, in steps, take a bit more where the step is halved."""
_OCTAVES = (0.25, 0.5, 1.0)
"""How far contexts may lie apart."""
_LOST_PER_SQUARE = math.log(2) / 12
"""Bits that a coordinate takes more if contexts are an octave apart: they are wrong by up to half an octave."""
_FIRST_SIDE = 64
_ENTROPY = 2.0
"""Levels of normal coordinates take log2 of so many times their spread in steps, where that is large."""
_MOST_OFFSET = 60
"""What the class of a row adds to contexts, at most: a factor of two to the power of 15."""
_CLOSE = 0.0005
"""How near to the bits that are asked for, as a share of them, is near enough."""
_LONGEST = 4.0
"""How many times the mean length the longest of all lengths that are looked at is."""


@dataclass(frozen=True)
class Outcome:
    """What coding a sample came to.

    Args:
        quantizer: the tables that follow from it, and a step that brings rows nearer to their length.
        bits: of a block on average, without its class.
        error: squared, of all blocks together.
        slope: by how much the error of all blocks falls with a bit more for each.
        lengths: (n,) bytes of the blocks.
        expected: (n,) bytes that the blocks are expected to take with the step of `quantizer`.
        stored: the tables of `quantizer` with the weights alone that are worth storing.
    """

    quantizer: Quantizer
    bits: float
    error: float
    slope: float
    lengths: IntArray
    expected: DoubleArray
    stored: LevelTables

    def cost(self, bits: float) -> float:
        """The error that is to be expected if the rows took so many bits."""
        return self.error + self.slope * (self.bits - bits)


class NamedCentroids(NamedTuple):
    """Which centroids rows are measured from: their numbers take bits of the rows.

    Args:
        centroids: without their coordinates: all of them zero.
        numbers: (rows of the sample,).
        of_extremes: (rows of the extremes,).
    """

    centroids: Centroids
    numbers: IntArray
    of_extremes: IntArray


class Grid(NamedTuple):
    """What is fixed where coordinates have few values: twice the step lies between them.

    Args:
        step: of levels.
        active: how many coordinates of a row have levels; the others are left out.
    """

    step: float
    active: int


class Fit:
    """A sample of blocks of rows, and codecs for it; mostly a block is one row.

    Args:
        coordinates: (n, rows · d) of the sample, rotated and centred.
        extremes: (m, rows · d) of the longest blocks of all, which have to fit too.
        states: of the trellis.
        weights: (n,) how much the blocks count, 1 on average; None where all count alike.
        statistics: of levels.
        together: rows of a block.
        named: the centroids that the coordinates are measured from, or None.

    Attributes:
        grid: the step, and how many coordinates of a row have levels, where both are fixed.
    """

    grid: Grid | None = None

    def __init__(
        self,
        coordinates: FloatArray,
        extremes: FloatArray,
        states: int = 64,
        weights: DoubleArray | None = None,
        statistics: LevelStatistics | None = None,
        together: int = 1,
        named: NamedCentroids | None = None,
    ) -> None:
        self.coordinates, self.extremes, self.states, self.weights = coordinates, extremes, states, weights
        self.statistics, self.together, self.named = statistics or LevelStatistics(), together, named
        self.dim = coordinates.shape[1] // together
        rows = coordinates.reshape(-1, self.dim)
        spread = np.maximum(np.sqrt(np.square(rows, dtype=np.float64).mean(axis=0)), 1e-30)
        self.spread = np.tile(spread, together)
        self.reach = max(float(np.abs(part).max(initial=0)) for part in (coordinates, extremes))
        self._not_zero = (1 - self.statistics.zeros) * len(self.spread)
        self._plain = Rotation({"mean": np.zeros(self.dim, dtype=np.float32)})
        self._number_bits = 0.0 if named is None else together * float(named.centroids.costs[named.numbers].mean())

    def weighted(self, numbers: DoubleArray) -> float:
        """The sum of (n,) numbers of rows, each counted by its weight."""
        return float(numbers.sum() if self.weights is None else numbers @ self.weights)

    def natural(self, bits: float, trade: float, before: Quantizer | None = None) -> Outcome:
        """Rows of any length, for a mean number of bits; quicker from a quantizer for about as many."""
        longest = np.sqrt(np.square(self.extremes / self.spread).mean(axis=1).max(initial=1))
        every = int((_LONGEST * bits + len(self.spread) * np.log2(max(longest, 1.0))) / 8) + 48
        lengths = tuple(range(0, every, -(-every // MAX_CLASSES)))
        quantizer = self._first(bits, trade, lengths) if before is None else replace(before, trade=trade)
        least, last = math.inf, None
        for _ in range(_NATURAL_ROUNDS):
            found = self._coded(quantizer, bits)
            used = replace(found, quantizer=quantizer)
            if last is not None and (last.bits - bits) * (used.bits - bits) < 0:  # the step went too far
                step = self._secant_step(last, used, bits) or found.quantizer.step
                found = replace(found, quantizer=self._with_step(found.quantizer, step))
            quantizer, last = self._renewed(found, lengths), used
            if self.grid is not None or abs(found.bits - bits) <= _NATURALLY_CLOSE * bits:
                if found.cost(bits) > (1 - _NATURAL_GAIN) * least:
                    break
                least = found.cost(bits)
        return replace(found, quantizer=quantizer)

    def with_fewer_contexts(self, natural: Outcome, blocks: int) -> Fit | None:
        """The same with contexts that lie farther apart, if the tables of so many blocks cost more than that loses."""
        bits = 8.0 * natural.stored.nbytes / blocks
        now = self.statistics.octaves
        active = float((self.spread > _ACTIVE * natural.quantizer.step).sum())
        best = min(_OCTAVES, key=lambda octaves: bits * now / octaves + _LOST_PER_SQUARE * octaves**2 * active)
        if best <= now:
            return None
        return self.with_octaves(best)

    def with_octaves(self, octaves: float) -> Fit:
        """The same with contexts so far apart."""
        statistics = replace(self.statistics, octaves=octaves)
        own = (self.coordinates, self.extremes, self.states, self.weights, statistics, self.together, self.named)
        found = Fit(*own)
        found.grid = self.grid
        return found

    def with_classes(self, natural: Outcome, bits: float, classes: int) -> Outcome:
        """Rows of so many lengths at most, and tables as they are stored."""
        needed = self._lengths_of_extremes(natural.quantizer)
        lengths = with_spare_lengths(np.concatenate([natural.lengths, needed]), classes, bits / 8)
        if len(lengths) == 1:  # so that bits will not tell any more whether the step is right
            again = self._coded(natural.quantizer, bits)
            stored = replace(again.quantizer, tables=again.stored).with_room_for_zeros()
            natural = replace(natural, quantizer=self.adjusted(replace(again, quantizer=stored), bits).quantizer)
        quantizer = self._renewed(natural, lengths)
        least = math.inf
        for _ in range(_CLASS_ROUNDS):
            found = self._coded(quantizer, bits)
            quantizer = found.quantizer
            if found.cost(bits) > (1 - _CLASS_GAIN) * least:
                break
            least = found.cost(bits)
        return self._with_stored_tables(found, bits)

    def _with_stored_tables(self, found: Outcome, bits: float) -> Outcome:
        """The same with the weights alone that are worth storing, as long as levels that suit these lower the cost.

        While lengths and contexts are found, tables are whole: one that was cut short because few rows had it would
        make all others avoid it.
        """
        best, least = found, math.inf
        for _ in range(_STORED_ROUNDS):
            stored = replace(found.quantizer, tables=found.stored).with_room_for_zeros()
            found = self._coded(stored, bits)
            if found.cost(bits) > (1 - _CLASS_GAIN) * least:
                break
            best, least = replace(found, quantizer=stored), found.cost(bits)
        return best

    def adjusted(self, found: Outcome, bits: float) -> Outcome:
        """The same with a step that suits so many bits; the tables stay as they are."""
        quantizer, before = found.quantizer, None
        for _ in range(_ADJUSTMENTS):
            found = self._coded(quantizer, bits)
            step, found = found.quantizer.step, replace(found, quantizer=quantizer)
            if self.grid is not None or abs(found.bits - bits) <= _CLOSE * bits:
                break
            if before is not None:
                step = self._secant_step(before, found, bits) or step
            quantizer, before = self._with_step(quantizer, step), found
        return found

    def _with_step(self, quantizer: Quantizer, step: float) -> Quantizer:
        """The same with another step, and room for the levels that it leads to."""
        return replace(quantizer, step=step, largest=max(quantizer.largest, self._largest(step)))

    def _secant_step(self, one: Outcome, other: Outcome, bits: float) -> float | None:
        """The step that should give so many bits, by the secant through two outcomes; None if bits do not fall with it.

        Where most coordinates are zero, bits change less with the step than the rule of `_coded` expects.
        """
        octaves = math.log2(other.quantizer.step / one.quantizer.step)
        if octaves == 0 or (other.bits - one.bits) / octaves >= 0:
            return None
        change = (bits - other.bits) * octaves / (other.bits - one.bits)
        return self._coarse_enough(other.quantizer.step * 2.0 ** float(np.clip(change, -_MOST_OCTAVES, _MOST_OCTAVES)))

    def _first(self, bits: float, trade: float, lengths: tuple[int, ...]) -> Quantizer:
        """A quantizer with the tables of normal coordinates, which are the same for rows of all lengths."""
        zeros, count = self.statistics.zeros, len(self.spread)
        bits = max(1.0, bits - self._number_bits)
        of_others = max(bits, (bits - count * self.statistics.bits_of_zeros) / (1 - zeros))
        step = self._coarse_enough(float(np.sqrt(4.0 * water_level(np.square(self.spread) / (1 - zeros), of_others))))
        contexts = self._contexts(step)
        tables = self.statistics.computed_tables(int(contexts.max()) + 1, self._largest(step))
        sides = np.full(min(MOST_SIDES, self.dim), _FIRST_SIDE, dtype=np.uint8)
        offsets = np.zeros(len(lengths), dtype=np.int64)
        centroids = None if self.named is None else self.named.centroids
        own = (self._largest(step), self.states, trade, self.together, centroids)
        return Quantizer(step, lengths, contexts, offsets, tables, sides, *own).with_room_for_zeros()

    def _contexts(self, step: float) -> IntArray:
        """(d,) contexts of coordinates."""
        active = self.dim if self.grid is None else self.grid.active
        return np.asarray(np.maximum(self.statistics.context_of(self.spread[:active] / step), 0))

    def _coarse_enough(self, step: float) -> float:
        """A step of which no coordinate is too large a multiple, and next to nothing where all are zero."""
        if self.grid is not None:
            return self.grid.step
        return max(step, self.reach / (2 * _MOST_LEVEL), _LEAST_STEP)

    def _largest(self, step: float) -> int:
        return min(_MOST_LEVEL, int(self.reach / (2 * step)) + 2)

    def _renewed(self, found: Outcome, lengths: tuple[int, ...]) -> Quantizer:
        """What follows from an outcome: other lengths, and contexts that suit its step and these lengths."""
        quantizer = found.quantizer
        contexts = self._contexts(quantizer.step)
        largest = max(quantizer.largest, self._largest(quantizer.step))
        tables = quantizer.tables
        offsets = self._offsets(found, lengths)
        count = min(MAX_CONTEXTS, int(contexts.max() + max(0, offsets.max())) + 1)
        tables = tables.extended(self.statistics.computed_tables(count, largest)).cut(count)
        return replace(
            quantizer,
            lengths=lengths,
            contexts=np.minimum(contexts, tables.count - 1),
            offsets=offsets,
            tables=tables,
            largest=largest,
        ).with_room_for_zeros()

    def _offsets(self, found: Outcome, lengths: tuple[int, ...]) -> IntArray:
        """(classes,) what rows of some lengths add to contexts: the logarithm of their scale, which grows with them.

        How long rows of a scale are follows, about, from the entropy of normal coordinates. Rows also differ in length
        for other reasons, so that the scale of long rows is not as large as that: by how much a regression tells.
        """
        if self.grid is not None:
            return np.zeros(len(lengths), dtype=np.int64)
        offsets = np.arange(-_MOST_OFFSET, _MOST_OFFSET)
        spread = self.spread / found.quantizer.step * 2.0 ** (self.statistics.octaves * offsets[:, None])
        bits = 0.5 * np.log2(1 + np.square(_ENTROPY * spread)).sum(axis=1)
        heard = np.square(self.spread) / (np.square(self.spread) + found.quantizer.step**2 / 3)
        energy = (np.square(self.coordinates / self.spread) * heard).sum(axis=1) / heard.sum()
        scale = np.log2(energy + 1e-9) / 2 / self.statistics.octaves
        bits += self._number_bits
        expected = np.interp(8 * found.expected, bits, offsets)
        variance = float(expected.var())
        share = float(np.clip(np.mean((expected - expected.mean()) * scale) / variance, 0, 1)) if variance > 0 else 0.0
        wanted = scale.mean() + share * (np.interp(8 * np.array(lengths, dtype=float), bits, offsets) - expected.mean())
        low, high = max(scale.min(), -_MOST_OFFSET), min(scale.max() + 1, _MOST_OFFSET - 1)
        return np.asarray(np.rint(np.clip(wanted, low, high)), dtype=np.int64)

    def _lengths_of_extremes(self, quantizer: Quantizer) -> IntArray:
        """(m,) bytes that the longest rows take."""
        numbers = None if self.named is None else self.named.of_extremes
        found = encoded(quantizer.codec(self._plain), self.extremes.reshape(-1, self.dim), numbers=numbers)
        return np.asarray(np.array(quantizer.lengths)[found.classes])

    def _coded(self, quantizer: Quantizer, bits: float) -> Outcome:
        codec = quantizer.codec(self._plain)
        weights = None if self.weights is None else np.repeat(self.weights, self.together)
        numbers = None if self.named is None else self.named.numbers
        found = encoded(codec, self.coordinates.reshape(-1, self.dim), weights, numbers=numbers)
        lengths = np.array(quantizer.lengths)[found.classes]
        taken = 8.0 * float(lengths.mean())
        tables = self.statistics.counted_tables(codec, found, quantizer.largest)
        scaled = (self.coordinates / np.float32(quantizer.step)).astype(np.float32)
        away = scaled - found.multiples
        first = away.reshape(-1, self.dim)[:: self.together, :MOST_SIDES]
        sides = counted_sides(first)
        lost = np.square(away, dtype=np.float64).sum(axis=1)
        known = np.arange(first.shape[1]) < found.others[:, 1:2]
        with_sides = np.abs(np.abs(first) - codec.side_of)
        lost += (known * (np.square(with_sides, dtype=np.float64) - np.square(first, dtype=np.float64))).sum(axis=1)
        errors = quantizer.step**2 * lost
        active = (np.abs(scaled) > _ACTIVE).sum(axis=1)
        octaves = float(np.clip((taken - bits) / self._not_zero, -_MOST_OCTAVES, _MOST_OCTAVES))
        step = self._coarse_enough(quantizer.step * 2.0**octaves)
        after = replace(self._with_step(quantizer, step), tables=tables.whole, sides=sides).with_room_for_zeros()
        expected = np.maximum(lengths - active * octaves / 8, 0)
        slope = quantizer.trade * quantizer.step**2 * len(scaled)
        return Outcome(after, taken, self.weighted(errors), slope, lengths, expected, tables.stored)
