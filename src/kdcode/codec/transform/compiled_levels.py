"""CompiledLevels: reading, writing and searching levels by compiled code, where that is installed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray, IntArray
from kdcode.codec.transform.level_tables import ESCAPE_BITS, PRECISION, TOTAL, as_lookup
from kdcode.codec.transform.row_coder import RowCoder, Values
from kdcode.codec.transform.row_search import MOST_WIDER, WIDER, WORTH, RowProblem
from kdcode.codec.transform.trellis import arrivals, signed, transitions
from kdcode.compiled import Kernels, kernels
from kdcode.errors import StorageError

LOOKUP_BITS = 8

_NO_FLOATS, _NO_VALUES = np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CompiledLevels:
    """The loops of a transform codec as compiled code; methods give None where that is not to be used.

    Args:
        coder: the same without compiled code.
    """

    coder: RowCoder

    @cached_property
    def _following(self) -> npt.NDArray[Any]:
        return transitions(self.coder.states).copy()

    @cached_property
    def _arrivals(self) -> npt.NDArray[np.int64]:
        """(states · 4,) the two ways into each state: from which state, and by which of the four choices.

        There is a choice for each quantizer and parity, in this order.
        """
        ways = arrivals(self.coder.states)
        return np.array([[(source, 2 * (source & 1) + odd) for source, odd in two] for two in ways]).reshape(-1)

    @cached_property
    def _read_tables(self) -> tuple[npt.NDArray[Any], ...]:
        """What `read_rows` knows of the tables, each of which has an entry more here than it has values.

        first     (2T + 1,) where the entries of each table begin
        entries   uint32, the frequencies of the values before each one, times 2^16, plus its own; `TOTAL` ends a table
        lookup    (2T · 256,) for the leading bits of a place in a table, the first value that may be there
        lies      float32, what each value stands for, in steps
        shifts    (2T,) of the tables
        """
        tables, numbers = self.coder.tables, np.arange(2 * self.coder.tables.count)
        first = tables.first + np.arange(len(tables.first))
        inside = np.arange(len(tables.sizes)) + np.repeat(numbers, np.diff(tables.first))
        entries, lies = np.zeros(first[-1], dtype=np.uint32), np.zeros(first[-1], dtype=np.float32)
        entries[first[1:] - 1] = TOTAL << 16
        entries[inside] = tables.starts << 16 | tables.sizes
        table = np.repeat(numbers, np.diff(tables.first))
        level = signed(np.arange(len(tables.sizes)) - tables.first[table])
        lies[inside] = np.sign(level) * (2 * np.abs(level) - (table & 1) - tables.shift_of[table])
        return first, entries, as_lookup(tables, LOOKUP_BITS).reshape(-1), lies, tables.shift_of

    @cached_property
    def _read_codec(self) -> tuple[npt.NDArray[Any], ...]:
        contexts = self.coder.contexts.astype(np.uint8)
        return (
            contexts,
            self.coder.lengths,
            self._following.astype(np.uint8).reshape(-1),
            self.coder.steps,
            self.coder.side_of,
        )

    @cached_property
    def _centroids(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Where the frequencies of each centroid end, and the coordinates of all; empty where there are none."""
        if self.coder.centroids is None:
            return np.empty(0, dtype=np.uint32), _NO_FLOATS
        own = self.coder.centroids
        with np.errstate(over="ignore"):  # numbers beyond float32 are not decoded here
            return (own.starts + own.sizes).astype(np.uint32), own.vectors.astype(np.float32).reshape(-1)

    @cached_property
    def _number_table(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The starts and sizes of the frequencies of centroids."""
        own = self.coder.centroids
        return (_NO_VALUES, _NO_VALUES) if own is None else (own.starts, own.sizes)

    def read(self, packed: npt.NDArray[np.uint8]) -> tuple[Values, Values, Values] | None:
        """(n, d) code values, (n, rows) numbers of centroids and (n,) sides of (n, row bytes) packed rows.

        Raises:
            StorageError: bytes that stand for no code.
        """
        compiled = kernels(len(packed))
        if compiled is None:
            return None
        values = np.empty((len(packed), self.coder.contexts.shape[1]), dtype=np.int64)
        numbers = np.empty((len(packed), self.coder.numbers), dtype=np.int64)
        sides = np.empty(len(packed), dtype=np.int64)
        self._read(compiled, packed, (values.reshape(-1), numbers.reshape(-1), sides), _NO_FLOATS)
        return values, numbers, sides

    def is_used(self, rows: int) -> bool:
        """Whether so many rows are to be decoded by compiled code."""
        return kernels(rows) is not None

    def decode(self, packed: npt.NDArray[np.uint8]) -> FloatArray:
        """(n, d) coordinates of (n, row bytes) packed rows, times the step; where compiled code is used.

        Raises:
            StorageError: bytes that stand for no code.
        """
        compiled = kernels(len(packed))
        found = np.empty((len(packed), self.coder.contexts.shape[1]), dtype=np.float32)
        self._read(compiled, packed, (_NO_VALUES, _NO_VALUES, _NO_VALUES), found.reshape(-1))
        return found

    def _read(
        self,
        compiled: Kernels,
        packed: npt.NDArray[np.uint8],
        codes: tuple[Values, Values, Values],
        found: FloatArray,
    ) -> None:
        limits = np.array([ESCAPE_BITS, self.coder.most_sides, self.coder.codebook_size, self.coder.rows])
        known = (self._read_codec, self._read_tables, self._centroids, limits)
        wrong = compiled.read_rows(np.ascontiguousarray(packed), *known, codes, found)
        if wrong:
            raise StorageError(self._complaint(compiled, wrong))

    def _complaint(self, compiled: Kernels, wrong: int) -> str:
        if wrong & compiled.NO_CLASS:
            return f"row_classes: found a class that is not below {len(self.coder.lengths)}"
        if wrong & compiled.TOO_MANY:
            return f"codes: a level has more than {ESCAPE_BITS} bits"
        if wrong & compiled.NO_VALUE:
            return "codes: a row is a number that stands for no level"
        if wrong & compiled.TOO_LARGE:
            return f"codes: found a code value that is not below K={self.coder.codebook_size}"
        return "codes: the levels of a row take more bytes than it has"

    def write(
        self, values: Values, numbers: Values, classes: Values, sides: Values | None
    ) -> tuple[npt.NDArray[np.uint8], Values] | None:
        """(n, bytes) rows, and (n,) for how many sides they have room."""
        compiled = kernels(len(values))
        if compiled is None:
            return None
        written = np.zeros((len(values), int(self.coder.lengths.max()) + 8), dtype=np.uint8)
        room = np.empty(len(values), dtype=np.int64)
        sides = np.zeros(len(values), dtype=np.int64) if sides is None else np.ascontiguousarray(sides)
        arrays = (*(np.ascontiguousarray(one) for one in (values, numbers, classes)), sides)
        codec = (self.coder.contexts, self.coder.lengths, self._following)
        tables = (self.coder.tables.first, self.coder.tables.starts, self.coder.tables.sizes, *self._number_table)
        compiled.write_levels(*arrays, codec, tables, np.array([PRECISION, self.coder.most_sides]), written, room)
        return written, room

    def search(
        self, coordinates: FloatArray, trades: FloatArray, taken: FloatArray, allowed: IntArray, problem: RowProblem
    ) -> tuple[Values, Values] | None:
        """(n, d) levels and (n,) classes of coordinates in steps; as `search_rows`."""
        compiled = kernels(len(coordinates))
        if compiled is None:
            return None
        levels, classes = np.empty(coordinates.shape, dtype=np.int64), np.empty(len(coordinates), dtype=np.int64)
        costs = problem.costs
        codec = (problem.contexts, problem.lengths, allowed, costs.bits, costs.shifts, self._arrivals)
        settings = np.array([problem.margin, WORTH, WIDER, MOST_WIDER], dtype=np.float64)
        compiled.search_rows(np.ascontiguousarray(coordinates), trades, taken, codec, settings, levels, classes)
        return levels, classes
