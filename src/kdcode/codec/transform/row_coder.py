"""RowCoder: levels, classes and sides to bytes and back, and to what they stand for; a row here is a block of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray, IntArray
from kdcode.codec.transform.centroids import Centroids
from kdcode.codec.transform.level_tables import LevelTables
from kdcode.codec.transform.range_coder import RangeReader, RangeWriter, bit_lengths
from kdcode.codec.transform.trellis import parity, signed, states_before, transitions
from kdcode.errors import StorageError

Values = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class RowCoder:
    """How rows are coded.

    Args:
        tables: of levels.
        contexts: (classes, levels) of coordinates by class; those of the rows of a block are the same.
        lengths: (classes,) bytes of a row.
        steps: (classes,) of rows.
        side_of: (T,) how far from its level a coordinate lies, in steps, where its side is known.
        states: of the trellis.
        most_sides: that a row has.
        codebook_size: K.
        rows: of a block.
        centroids: of rows, or None.
    """

    tables: LevelTables
    contexts: IntArray
    lengths: Values
    steps: FloatArray
    side_of: FloatArray
    states: int
    most_sides: int
    codebook_size: int
    rows: int = 1
    centroids: Centroids | None = None

    @property
    def numbers(self) -> int:
        """How many centroids a row names: as many as it has rows, or none."""
        return 0 if self.centroids is None else self.rows

    def write(self, values: Values, numbers: Values, classes: Values, sides: Values | None) -> tuple[Bytes, Values]:
        """(n, bytes) rows of (n, d) code values, and (n,) for how many sides they have room, below 0 if too long."""
        following, contexts = transitions(self.states), self.contexts[classes]
        writer = RangeWriter(len(values), int(self.lengths.max()))
        state = np.zeros(len(values), dtype=np.int64)
        dim = values.shape[1] // self.rows
        for position in range(values.shape[1]):
            if self.centroids is not None and position % dim == 0:
                writer.write(self.centroids, np.zeros(len(values), dtype=np.int64), numbers[:, position // dim])
            writer.write(self.tables, 2 * contexts[:, position] + (state & 1), values[:, position])
            state = following[state, parity(values[:, position])]
        room = np.minimum(writer.capacity(self.lengths[classes]), self.most_sides)
        if sides is not None:
            writer.write_bits(sides)
        return writer.finish(), room

    def read(self, packed: Bytes) -> tuple[Values, Values, Values]:
        """(n, d) code values, (n, rows) numbers of centroids and (n,) sides of (n, row bytes) packed rows.

        Raises:
            StorageError: bytes that stand for no code.
        """
        rows, classes = self._parts(packed)
        following, contexts = transitions(self.states), self.contexts[classes]
        reader = RangeReader(rows)
        values = np.empty(contexts.shape, dtype=np.int64)
        numbers = np.empty((len(rows), self.numbers), dtype=np.int64)
        dim = contexts.shape[1] // self.rows
        state = np.zeros(len(rows), dtype=np.int64)
        for position in range(contexts.shape[1]):
            if self.centroids is not None and position % dim == 0:
                numbers[:, position // dim] = reader.read(self.centroids, np.zeros(len(rows), dtype=np.int64))
            values[:, position] = reader.read(self.tables, 2 * contexts[:, position] + (state & 1))
            state = following[state, parity(values[:, position])]
        room = np.minimum(reader.capacity(self.lengths[classes]), self.most_sides)
        if (room < 0).any():
            raise StorageError("codes: the levels of a row take more bytes than it has")
        if int(values.max(initial=0)) >= self.codebook_size:
            raise StorageError(f"codes: found a code value that is not below K={self.codebook_size}")
        return values, numbers, reader.read_bits(room)

    def _parts(self, packed: Bytes) -> tuple[Bytes, Values]:
        """The bytes of rows, and their classes."""
        if len(self.lengths) == 1:
            return packed, np.zeros(len(packed), dtype=np.int64)
        classes = packed[:, 0].astype(np.int64)
        if int(classes.max(initial=0)) >= len(self.lengths):
            raise StorageError(f"row_classes: found a class that is not below {len(self.lengths)}")
        return packed[:, 1:], classes

    def coordinates(
        self, values: Values, classes: Values, sides: Values, first_states: Values | None = None
    ) -> FloatArray:
        """(n, d) coordinates of (n, d) code values, (n,) classes and (n,) sides, in steps.

        They are those of whole blocks, or of single rows, whose trellis begins with (n,) states.
        """
        return self.with_sides(self.points(values, classes, first_states), classes, sides)

    def points(self, values: Values, classes: Values, first_states: Values | None = None) -> FloatArray:
        """The same where no sides are known: what levels stand for."""
        quantizer, level = states_before(values, self.states, first_states) & 1, signed(values)
        shift = self.tables.shift_of[2 * self.contexts[classes, : values.shape[1]] + quantizer]
        lies = np.where(level != 0, 2 * np.abs(level) - quantizer - shift, 0).astype(np.float32)
        return np.where(level < 0, -lies, lies)

    def with_sides(self, points: FloatArray, classes: Values, sides: Values) -> FloatArray:
        """(n, d) points, the first of which are moved to their side of the level, in place."""
        counts = bit_lengths(sides) - 1
        most = int(counts.max(initial=0))
        away = self.side_of[self.contexts[classes, :most]]
        for place in range(most):
            above = sides >> np.maximum(counts - 1 - place, 0) & 1
            points[:, place] += np.where(place < counts, np.where(above, 1, -1) * away[:, place], 0)
        return points
