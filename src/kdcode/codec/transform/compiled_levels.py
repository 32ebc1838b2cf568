"""CompiledLevels: reading, writing and searching levels by compiled code, where that is installed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray, IntArray
from kdcode.codec.transform.level_tables import ESCAPE_BITS, PRECISION, as_lookup
from kdcode.codec.transform.row_search import MOST_WIDER, WIDER, WORTH, RowProblem
from kdcode.codec.transform.trellis import transitions
from kdcode.compiled import kernels
from kdcode.errors import StorageError

Values = npt.NDArray[np.int64]
LOOKUP_BITS = 8


class CompiledLevels:
    """The loops of a transform codec as compiled code; every method gives None where that is not to be used.

    Args:
        problem: the codec.
        steps: (classes,) of rows.
        side_of: (T,) how far from its level a coordinate lies, in steps, where its side is known.
        most_sides: that a row has.
    """

    def __init__(self, problem: RowProblem, steps: FloatArray, side_of: FloatArray, most_sides: int) -> None:
        self._problem, self._steps, self._side_of, self._most_sides = problem, steps, side_of, most_sides

    @cached_property
    def _tables(self) -> tuple[npt.NDArray[Any], ...]:
        tables = self._problem.tables
        return tables.first, tables.starts, tables.sizes, as_lookup(tables, LOOKUP_BITS)

    @cached_property
    def _following(self) -> npt.NDArray[Any]:
        return transitions(self._problem.costs.states).copy()

    @cached_property
    def _limits(self) -> npt.NDArray[np.int64]:
        return np.array([PRECISION, LOOKUP_BITS, ESCAPE_BITS, self._most_sides])

    @cached_property
    def _codec(self) -> tuple[npt.NDArray[Any], ...]:
        return self._problem.contexts, self._problem.lengths, self._following

    def read(self, rows: npt.NDArray[np.uint8], classes: Values) -> tuple[Values, Values] | None:
        """(n, d) code values and (n,) sides of (n, bytes) rows of (n,) classes."""
        compiled = kernels(len(rows))
        if compiled is None:
            return None
        values = np.empty((len(rows), self._problem.contexts.shape[1]), dtype=np.int64)
        sides = np.empty(len(rows), dtype=np.int64)
        rows = np.ascontiguousarray(rows)
        wrong = compiled.read_levels(rows, classes, self._codec, self._tables, self._limits, values, sides)
        if wrong == compiled.TOO_LONG:
            raise StorageError("codes: the levels of a row take more bytes than it has")
        if wrong == compiled.TOO_MANY:
            raise StorageError(f"codes: a level has more than {ESCAPE_BITS} bits")
        return values, sides

    def write(
        self, values: Values, classes: Values, sides: Values | None
    ) -> tuple[npt.NDArray[np.uint8], Values] | None:
        """(n, bytes) rows, and (n,) for how many sides they have room."""
        compiled = kernels(len(values))
        if compiled is None:
            return None
        written = np.zeros((len(values), int(self._problem.lengths.max()) + 8), dtype=np.uint8)
        room = np.empty(len(values), dtype=np.int64)
        sides = np.zeros(len(values), dtype=np.int64) if sides is None else np.ascontiguousarray(sides)
        arrays = (np.ascontiguousarray(values), np.ascontiguousarray(classes), sides)
        compiled.write_levels(*arrays, self._codec, self._tables, self._limits, written, room)
        return written, room

    def decode(self, rows: npt.NDArray[np.uint8], classes: Values) -> FloatArray | None:
        """(n, d) coordinates, times the step."""
        read = self.read(rows, classes)
        compiled = kernels(len(rows))
        if read is None or compiled is None:
            return None
        values, sides = read
        found = np.empty(values.shape, dtype=np.float32)
        problem = self._problem
        codec = (problem.contexts, problem.costs.shifts, self._side_of, self._following, self._steps)
        compiled.coordinates_of(values, classes, sides, codec, found)
        return found

    def search(
        self, coordinates: FloatArray, trades: FloatArray, allowed: IntArray, problem: RowProblem
    ) -> tuple[Values, Values] | None:
        """(n, d) levels and (n,) classes of coordinates in steps; as `search_rows`."""
        compiled = kernels(len(coordinates))
        if compiled is None:
            return None
        levels, classes = np.empty(coordinates.shape, dtype=np.int64), np.empty(len(coordinates), dtype=np.int64)
        costs = problem.costs
        codec = (problem.contexts, problem.lengths, allowed, costs.bits, costs.shifts, self._following)
        settings = np.array([problem.margin, WORTH, WIDER, MOST_WIDER], dtype=np.float64)
        compiled.search_rows(np.ascontiguousarray(coordinates), trades, codec, settings, levels, classes)
        return levels, classes
