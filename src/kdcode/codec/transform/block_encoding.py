"""BlockEncoder: vectors to codes, by the search for the levels of each block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.transform.centroids import Centroids
from kdcode.codec.transform.compiled_levels import CompiledLevels
from kdcode.codec.transform.row_blocks import BlockCodes, RowBlocks, Values
from kdcode.codec.transform.row_coder import RowCoder
from kdcode.codec.transform.row_search import MOST_WIDER, WIDER, RowProblem, fitting_rows, search_rows
from kdcode.errors import OptionError

_WEIGHTS = (1 / 4, 4.0)
"""Weights beyond which the error of a row counts no less or more: a step allows no more than so much."""


@dataclass(frozen=True, eq=False)
class BlockEncoder:
    """Finds the codes of vectors.

    Args:
        blocks: how rows make up blocks.
        problem: what a search for levels knows of the codec.
        coder: what turns codes into bytes.
        compiled: the same loops as compiled code.
        nominal: the step of rows that count as usual.
        coordinates: turns (n, d) vectors into (n, d) coordinates, not yet divided by a step.
        centroids: that they are measured from, or None.
    """

    blocks: RowBlocks
    problem: RowProblem
    coder: RowCoder
    compiled: CompiledLevels
    nominal: float
    coordinates: Callable[[FloatArray], FloatArray]
    centroids: Centroids | None = None

    def encode(
        self,
        vectors: FloatArray,
        weights: DoubleArray | None,
        trade: float = 1.0,
        longest: int | None = None,
        numbers: Values | None = None,
    ) -> Values:
        """(n, columns) codes of (n, d) vectors; see `Transform.encode_weighted`."""
        coordinates, numbers = self._from_centroids(self.coordinates(vectors), numbers)
        count = len(coordinates)
        means = np.ones(count) if weights is None else _block_means(weights, self.blocks.rows)
        wanted = np.log(self.nominal / np.sqrt(means.clip(min=1e-12)))
        own = np.abs(np.log([step for step, _ in self.step_levels]) - wanted[:, None]).argmin(axis=1)
        found = BlockCodes(np.zeros(coordinates.shape, dtype=np.int64), numbers, *np.zeros((2, count), dtype=np.int64))
        whole = len(vectors) // self.blocks.rows
        for number, (step, classes) in enumerate(self.step_levels):
            allowed = classes if longest is None else self._up_to(classes, longest)
            chosen = np.flatnonzero(own == number)
            trades = self.problem.trade * trade / np.clip(means * (step / self.nominal) ** 2, *_WEIGHTS)
            for some in (chosen[chosen < whole], chosen[chosen >= whole]):
                if len(some):
                    scaled = self._scaled(coordinates[some], step)
                    used = (len(vectors) - int(some[0]) * self.blocks.rows) * self.blocks.dim
                    search = self._searched if some[0] < whole else self._searched_in_part
                    for part, new in zip(
                        found, search(scaled, numbers[some], trades[some], allowed, used), strict=True
                    ):
                        part[some] = new
        return self.blocks.row_codes(found, *np.divmod(np.arange(len(vectors)), self.blocks.rows))

    def _from_centroids(self, coordinates: FloatArray, numbers: Values | None) -> tuple[FloatArray, Values]:
        """(m, levels) coordinates of blocks, as they lie from the centroids of rows, and (m, rows) their numbers."""
        if self.centroids is None:
            return self.blocks.joined(coordinates), np.zeros((self.blocks.count(len(coordinates)), 0), dtype=np.int64)
        if numbers is None:
            numbers = self.centroids.nearest(coordinates, self.problem.trade * self.nominal**2)
        own = self.blocks.joined(coordinates - self.centroids.vectors[numbers])
        return own, self.blocks.numbers_of(numbers[:, None])

    def written(self, values: Values, numbers: Values, classes: Values) -> tuple[npt.NDArray[np.uint8], Values]:
        """(m, bytes) blocks of code values, and (m,) for how many sides they have room, below 0 if too long."""
        parts = (values, numbers, classes, None)
        return self.compiled.write(*parts) or self.coder.write(*parts)

    @cached_property
    def step_levels(self) -> list[tuple[float, IntArray]]:
        """The steps that there are, each with its classes by length."""
        steps = self.coder.steps
        ordered = np.argsort(self.coder.lengths, kind="stable")
        return [(float(step), ordered[steps[ordered] == step]) for step in np.unique(steps)]

    def _up_to(self, classes: IntArray, longest: int) -> IntArray:
        """Those of some classes that are no longer than that, the shortest in any case."""
        return classes[: max(1, int((self.coder.lengths[classes] <= longest).sum()))]

    def _scaled(self, coordinates: FloatArray, step: float) -> FloatArray:
        """Coordinates in steps; what is beyond reach, in whatever unit, is cut off."""
        reach = 2.0 * self.coder.codebook_size
        low = -reach if self.coder.tables.signs else 0.0
        with np.errstate(over="ignore"):
            return np.asarray(np.clip(coordinates / coordinates.dtype.type(step), low, reach), dtype=np.float32)

    def _searched(
        self, scaled: FloatArray, numbers: Values, trades: DoubleArray, allowed: IntArray, used: int
    ) -> BlockCodes:
        """Codes of (m, levels) coordinates of blocks in steps, with (m,) λ."""
        steps = (self._levels, self.written)
        values, classes, room = fitting_rows(steps, scaled, numbers, trades.astype(np.float32), allowed, self.problem)
        return BlockCodes(values, numbers, classes, self._sides(scaled, values, classes, room))

    def _searched_in_part(
        self, scaled: FloatArray, numbers: Values, trades: DoubleArray, allowed: IntArray, used: int
    ) -> BlockCodes:
        """The same for the last block, where only the first `used` levels are of rows: others are zero, as in `pack`.

        A search would choose other levels for some of them, to come to states where zeros take fewer bits.

        Raises:
            OptionError: it does not fit into any class.
        """
        for _ in range(MOST_WIDER):
            values, _, classes, _ = self._searched(scaled, numbers, trades, allowed, used)
            values[:, used:] = 0
            for own in allowed[int((allowed == classes[0]).argmax()) :]:
                room = self.written(values, numbers, np.array([own]))[1]
                if room[0] >= 0:
                    classes = np.array([own])
                    return BlockCodes(values, numbers, classes, self._sides(scaled, values, classes, room))
            trades = trades * WIDER
        raise OptionError(f"lengths: blocks of {self.coder.lengths[allowed[-1]]} bytes are too short for any code")

    def _sides(self, scaled: FloatArray, values: Values, classes: Values, room: Values) -> Values:
        """(m,) on which side of their levels the first coordinates lie, of as many as there is room for."""
        sides, most = np.ones(len(scaled), dtype=np.int64), self.coder.most_sides
        above = (scaled[:, :most] > self.coder.points(values[:, :most], classes)).astype(np.int64)
        for place in range(above.shape[1]):
            sides = np.where(place < room, 2 * sides + above[:, place], sides)
        return sides

    def _levels(
        self, scaled: FloatArray, trades: FloatArray, taken: FloatArray, allowed: IntArray, problem: RowProblem
    ) -> tuple[Values, Values]:
        parts = (scaled, trades, taken, allowed, problem)
        return self.compiled.search(*parts) or search_rows(*parts)


def _block_means(weights: DoubleArray, rows: int) -> DoubleArray:
    """(m,) the means of (n,) weights over blocks of so many rows."""
    first = np.arange(0, len(weights), rows)
    return np.asarray(np.add.reduceat(weights, first) / np.diff([*first, len(weights)]))
