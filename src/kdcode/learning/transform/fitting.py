"""A transform codec from a sample of rows: the step, the lengths of rows and the tables of levels.

All follow from each other: tables say what levels cost, costs decide which levels are chosen, and these are what tables
count. So the sample is coded a few times, each time with the tables of the time before, and with a step that brings the
rows nearer to the length that they are to have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.spec import TRANSFORM
from kdcode.codec.transform import Transform, TransformSpec
from kdcode.codec.transform.level_tables import PRECISION, LevelTables
from kdcode.codec.transform.row_search import WORTH, margin_of
from kdcode.codec.transform.spec import MAX_CLASSES, MOST_SIDES
from kdcode.evaluation.rate_distortion import water_level
from kdcode.learning.transform.coding import encoded
from kdcode.learning.transform.level_statistics import (
    GRID,
    computed_tables,
    context_of,
    counted_sides,
    counted_tables,
)
from kdcode.learning.transform.rotation import Rotation

TRADE = 0.45
"""λ in squared steps: what a bit may cost in squared error."""
_MOST_LEVEL = 32000
_NATURAL_ROUNDS = 5
_FINAL_ROUNDS = 3
_ADJUSTMENTS = 4
_MOST_CLASS_BITS = 6
_CLOSE = 0.0005
"""How near to the bits that are asked for, as a share of them, is near enough."""
_LONGEST = 4.0
"""How many times the mean length the longest of all lengths that are looked at is."""


@dataclass(frozen=True, eq=False)
class Draft:
    """A codec on its way.

    Args:
        step: of all rows.
        lengths: (classes,) bytes of rows.
        contexts: (d,) of coordinates.
        offsets: (classes,) what the class of a row adds to them.
        tables: of levels.
        sides: (T,) how far from their level coordinates lie, as stored.
        largest: magnitude of a level.
        states: of the trellis.
    """

    step: float
    lengths: tuple[int, ...]
    contexts: IntArray
    offsets: IntArray
    tables: LevelTables
    sides: npt.NDArray[np.uint8]
    largest: int
    states: int

    def codec(self, rotation: Rotation, mean_length: float = 0.0) -> Transform:
        """The codec."""
        dim, classes = rotation.dim, len(self.lengths)
        spec = TransformSpec(
            kind=TRANSFORM,
            embedding_dim=dim,
            codebook_size=2 * self.largest + 2,
            code_length=dim,
            inner_dim=dim,
            basis=rotation.reflections > 0,
            reflections=rotation.reflections,
            reflection_bits=rotation.bits,
            states=self.states,
            contexts=self.tables.count,
            frequencies=len(self.tables.frequencies),
            lengths=self.lengths,
            mean_length=mean_length,
        )
        stored = {
            **rotation.tensors,
            "steps": np.full(classes, self.step, dtype=np.float32),
            "coordinate_contexts": self.contexts.astype(np.uint8),
            "class_contexts": self.offsets.astype(np.int8),
            "magnitudes": self.tables.magnitudes,
            "frequencies": self.tables.frequencies,
            "shifts": self.tables.shifts,
            "sides": self.sides,
            "search": np.array([TRADE, self.step], dtype=np.float32),
        }
        return Transform(spec, stored)

    def with_room_for_zeros(self) -> Draft:
        """The same with a longest class that rows of zeros fit into: what fits into no other has to go somewhere."""
        contexts = np.clip(self.contexts + self.offsets[-1], 0, self.tables.count - 1)
        frequency = self.tables.sizes[self.tables.first[2 * contexts]]
        bits = float((PRECISION - np.log2(frequency)).sum()) + margin_of(len(contexts)) + 4
        longest = max(self.lengths[-1], int(np.ceil(bits / 8)))
        return replace(self, lengths=(*self.lengths[:-1], longest))


@dataclass(frozen=True)
class Outcome:
    """What coding a sample came to.

    Args:
        draft: the tables that follow from it, and a step that brings rows nearer to their length.
        bits: of a row on average, without its class.
        error: squared, of all rows together.
        lengths: (n,) bytes of the rows.
    """

    draft: Draft
    bits: float
    error: float
    lengths: IntArray


class Fit:
    """A sample of rows, and codecs for it.

    Args:
        coordinates: (n, d) of the sample, rotated and centred.
        rotation: that they were rotated with.
        states: of the trellis.
        weights: (n,) how much the rows count, 1 on average; None where all count alike.
    """

    def __init__(
        self, coordinates: FloatArray, rotation: Rotation, states: int = 8, weights: DoubleArray | None = None
    ) -> None:
        self.coordinates, self.rotation, self.states, self.weights = coordinates, rotation, states, weights
        self.spread = np.sqrt(np.square(coordinates, dtype=np.float64).mean(axis=0))
        self.reach = float(np.abs(coordinates).max(initial=0))
        self._plain = Rotation({"mean": np.zeros(rotation.dim, dtype=np.float32)})

    def weighted(self, numbers: DoubleArray) -> float:
        """The sum of (n,) numbers of rows, each counted by its weight."""
        return float(numbers.sum() if self.weights is None else numbers @ self.weights)

    def natural(self, bits: float) -> Outcome:
        """Rows of any length, of so many bits on average."""
        every = int(_LONGEST * bits / 8) + 48
        lengths = tuple(range(0, every, -(-every // MAX_CLASSES)))
        step = float(np.sqrt(4.0 * water_level(np.square(self.spread), bits)))
        draft = self._any_length(step, lengths, None)
        for _ in range(_NATURAL_ROUNDS):
            found = self._coded(draft, bits)
            draft = self._any_length(found.draft.step, lengths, found.draft)
        return replace(found, draft=draft)

    def with_classes(self, natural: Outcome, bits: float, classes: int) -> Outcome:
        """Rows of so many lengths at most."""
        draft = self._with_classes(natural, classes)
        best: Outcome | None = None
        for _ in range(_FINAL_ROUNDS):
            found = self._coded(draft, bits)
            draft = found.draft
            best = found
        return best or natural

    def adjusted(self, found: Outcome, bits: float) -> Outcome:
        """The same with a step that suits so many bits; the tables stay as they are."""
        draft = found.draft
        for _ in range(_ADJUSTMENTS):
            again = self._coded(draft, bits)
            kept = replace(draft, step=again.draft.step)
            found, draft = replace(again, draft=draft), kept
            if abs(again.bits - bits) <= _CLOSE * bits:
                break
        return found

    def _any_length(self, step: float, lengths: tuple[int, ...], before: Draft | None) -> Draft:
        contexts = np.maximum(context_of(self.spread / step), 0)
        largest = min(_MOST_LEVEL, int(self.reach / (2 * step)) + 2)
        if before is None:
            count = int(contexts.max()) + 1
            tables, sides = computed_tables(count, largest), np.full(count, 64, dtype=np.uint8)
        else:
            tables, sides, largest = before.tables, before.sides, max(largest, before.largest)
        contexts = np.minimum(contexts, tables.count - 1)
        return Draft(
            step, lengths, contexts, np.zeros(len(lengths), np.int64), tables, sides, largest, self.states
        ).with_room_for_zeros()

    def _with_classes(self, natural: Outcome, classes: int) -> Draft:
        """Lengths that suit the natural ones, and contexts that suit rows of these lengths."""
        chosen = chosen_lengths(natural.lengths, classes)
        own = np.minimum(np.searchsorted(chosen, natural.lengths), len(chosen) - 1)
        spread, draft = np.maximum(self.spread, 1e-30), natural.draft
        heard = np.square(spread) / (np.square(spread) + draft.step**2 / 3)
        energy = (np.square(self.coordinates / spread) * heard).sum(axis=1) / heard.sum()
        scale = [np.log2(energy[own == place].mean() + 1e-9) / 2 for place in range(len(chosen))]
        offsets = np.clip(np.rint(np.array(scale) / GRID), -100, 100).astype(np.int64)
        return replace(draft, lengths=chosen, offsets=offsets).with_room_for_zeros()

    def _coded(self, draft: Draft, bits: float) -> Outcome:
        codec = draft.codec(self._plain)
        codes = encoded(codec, self.coordinates, self.weights)
        classes = codes[:, -2]
        scaled = (self.coordinates / np.float32(draft.step)).astype(np.float32)
        taken = 8.0 * float(codec.problem.lengths[classes].mean())
        contexts = codec.contexts[classes]
        shape = (draft.tables.count, draft.largest)
        tables = counted_tables(scaled, codes[:, :-2], contexts, self.states, shape)
        at_level = codec.compose(np.column_stack([codes[:, :-1], np.ones(len(codes), np.int64)])) / draft.step
        sides = counted_sides(scaled - at_level, contexts, draft.tables.count)
        errors = np.square(codec.compose(codes) - self.coordinates, dtype=np.float64).sum(axis=1)
        active = max(1, int((self.spread > draft.step / 2).sum()))
        step = draft.step * 2.0 ** ((taken - bits) / active)
        after = replace(draft, step=step, tables=tables, sides=sides).with_room_for_zeros()
        return Outcome(after, taken, self.weighted(errors), codec.problem.lengths[classes])


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


def chosen_classes(lengths: IntArray) -> int:
    """How many lengths (n,) natural ones should become: more take more bits to say, fewer leave more bits over."""

    def cost(classes: int) -> float:
        chosen = np.array(chosen_lengths(lengths, classes))
        left = 8.0 * (chosen[np.searchsorted(chosen, lengths)] - lengths)
        return math.log2(classes) + float((left - WORTH * np.minimum(left, MOST_SIDES)).mean())

    return min([1 << bits for bits in range(_MOST_CLASS_BITS + 1)], key=cost)
