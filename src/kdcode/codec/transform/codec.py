"""Transform: a level for each coordinate after a rotation, chosen along a trellis and entropy-coded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import DoubleArray, FloatArray, IntArray, checked_vectors
from kdcode.codec.codec import CodeArray, Codec, Search
from kdcode.codec.row_writing import RowWriter
from kdcode.codec.spec import TRANSFORM
from kdcode.codec.transform.compiled_levels import CompiledLevels
from kdcode.codec.transform.level_tables import LevelTables
from kdcode.codec.transform.ragged_rows import RaggedRows
from kdcode.codec.transform.ragged_writer import RaggedWriter
from kdcode.codec.transform.range_coder import bit_lengths
from kdcode.codec.transform.reflections import product, reflection_vectors
from kdcode.codec.transform.row_coder import RowCoder
from kdcode.codec.transform.row_search import RowProblem, fitting_rows, margin_of, search_rows
from kdcode.codec.transform.spec import SIDE_UNIT, TransformSpec
from kdcode.codec.transform.viterbi import LevelCosts
from kdcode.errors import OptionError
from kdcode.stored_array import ArrayInFile, PackedRows

_ROWS_AT_ONCE, _NUMBERS_AT_ONCE = 1 << 12, 1 << 20
_WEIGHTS = (1 / 4, 4.0)
"""Weights beyond which the error of a row counts no less or more: a step allows no more than so much."""
_MOST_TRADE = 1e6
"""The largest λ, in squared steps for each bit: rows are all zero long before."""
_LARGE = 1e30
"""Vectors of larger numbers are rotated in float64."""
_FEW_ROWS, _FEW_NUMBERS = 64, 1 << 15
"""Rows that compiled code decodes at a time: as many as have so many numbers, and enough to read the rotation for."""


class Transform(Codec):
    """Transform codes.

    A vector is `mean + y Rᵀ`, where R is a product of reflections and y_i the step of the row's class times what level
    i stands for. A code has d columns, the levels as code values (0, 1, 2, 3, 4 for 0, 1, -1, 2, -2), then the class of
    the row, and the sides of its first coordinates: a one, and for each coordinate whether it lies above its level. The
    tensors are, beside `mean`, `steps` and the `reflections`:

        coordinate_contexts, class_contexts   the context of coordinate i in a row of class c is the sum of both, kept
                                              within those that there are
        magnitudes, frequencies, shifts       the tables of each context, see `LevelTables`
        sides                                 (T,) how far from its level a coordinate lies, by context
        search                                λ and nominal step, for those who encode; see `RowProblem`
    """

    kind: ClassVar[str] = TRANSFORM
    scaled_weight: ClassVar[str] = "steps"

    spec: TransformSpec

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.stored["steps"] > 0).all():
            raise OptionError("steps: expected numbers above 0")
        if not (self.stored["search"] > 0).all() or float(self.stored["search"][0]) > _MOST_TRADE:
            raise OptionError(f"search: expected numbers above 0, λ at most {_MOST_TRADE:g}")
        most = int(self.tables.magnitudes.max()) * 2 + 2
        if most > self.spec.codebook_size:
            raise OptionError(f"magnitudes: {most} values in a table, K={self.spec.codebook_size} are allowed")

    @cached_property
    def tables(self) -> LevelTables:
        """The tables of levels."""
        return LevelTables(*(self.stored[name] for name in ("magnitudes", "frequencies", "shifts")))

    @cached_property
    def contexts(self) -> npt.NDArray[np.int64]:
        """(classes, d) the context of each coordinate in rows of a class."""
        found = self.stored["coordinate_contexts"].astype(np.int64) + self.stored["class_contexts"][:, None]
        return np.clip(found, 0, self.spec.contexts - 1)

    @cached_property
    def rotation(self) -> FloatArray | None:
        """The (d, d) matrix R that vectors are multiplied by to be encoded; None for the identity."""
        spec = self.spec
        if not spec.reflections:
            return None
        packed, scales = self.stored["reflections"], self.stored["reflection_scale"]
        vectors = reflection_vectors(packed, scales, spec.embedding_dim, spec.reflection_bits, np.float32)
        return cast(FloatArray, product(vectors))

    @cached_property
    def problem(self) -> RowProblem:
        """What a search for levels knows of this codec."""
        trade = float(self.stored["search"][0])
        bits = self.tables.costs((self.spec.codebook_size - 1) // 2)  # both signs of a magnitude are values below K
        costs = LevelCosts(bits, self.tables.shift_of, self.spec.states)
        margin = margin_of(self.spec.embedding_dim)
        return RowProblem(self.tables, costs, self.contexts, self.coder.lengths, trade, margin)

    @cached_property
    def compiled(self) -> CompiledLevels:
        """The same loops as compiled code, where that is installed."""
        return CompiledLevels(self.coder)

    @cached_property
    def coder(self) -> RowCoder:
        """What turns codes into rows and back."""
        spec, lengths = self.spec, np.array(self.spec.lengths, dtype=np.int64)
        own = (self.stored["steps"], self.side_of, spec.states, spec.most_sides, spec.codebook_size)
        return RowCoder(self.tables, self.contexts, lengths, *own)

    @classmethod
    def from_weights(cls, spec: Any, weights: Any) -> Self:  # noqa: ANN401 - not used
        """There is no such codec without its tables."""
        raise OptionError("a transform codec is made of its tensors, not of weights; use compress")

    def as_float32(self) -> Self:
        """This codec: nothing of it is expanded for each call."""
        return self

    def scaled(self, factor: float) -> Self:
        """The codec whose vectors are `factor` times as long."""
        search = self.stored["search"].copy()
        search[1] *= np.float32(factor)
        changed = {name: (self.stored[name] * np.float64(factor)).astype(np.float32) for name in ("mean", "steps")}
        return replace(self, stored={**self.stored, **changed, "search": search})

    def pack(self, codes: IntArray) -> npt.NDArray[np.uint8]:
        """(n, columns) codes to (n, row bytes) packed rows: the class where there are several, then its bytes.

        Raises:
            OptionError: the codes are not those of this codec, or too long for the class of their row.
        """
        self.check_codes(codes)
        packed = np.zeros((len(codes), self.spec.row_bytes), dtype=np.uint8)
        first = int(self.spec.classes > 1)
        at_once = self._rows_at_once()
        for start in range(0, len(codes), at_once):
            some = slice(start, start + at_once)
            values, classes, sides = self._split(codes[some])
            written, room = self.compiled.write(values, classes, sides) or self.coder.write(values, classes, sides)
            wrong = room != bit_lengths(sides) - 1
            if wrong.any():
                row = int(wrong.argmax())
                length = self.spec.lengths[classes[row]]
                raise OptionError(
                    f"codes: row {start + row} has {bit_lengths(sides)[row] - 1} sides, and the {length} bytes of its "
                    f"class have room for {room[row]}; encode a vector to have a code that fits"
                )
            if first:
                packed[some, 0] = classes
            packed[some, first:] = written[:, : self.spec.row_bytes - first]
        return packed

    def unpack(self, packed: npt.NDArray[np.uint8]) -> bitpack.UnsignedArray:
        """(n, row bytes) packed rows to (n, columns) codes.

        Raises:
            StorageError: bytes that stand for no code.
        """
        codes = np.zeros((len(packed), len(self.spec.widths)), dtype=bitpack.value_dtype(max(self.spec.widths)))
        at_once = self._rows_at_once()
        for start in range(0, len(packed), at_once):
            some = slice(start, start + at_once)
            values, sides = self.compiled.read(packed[some]) or self.coder.read(packed[some])
            codes[some, :-2], codes[some, -1] = values, sides
            codes[some, -2] = packed[some, 0] if self.spec.classes > 1 else 0
        return codes

    def check_codes(self, codes: IntArray) -> None:
        """Refuse what is no (n, columns) array of codes in range."""
        columns = len(self.spec.widths)
        if codes.ndim != 2 or codes.shape[1] != columns or codes.dtype.kind not in "iu":
            raise OptionError(f"codes: expected integers of shape (rows, {columns}), got {codes.dtype} {codes.shape}")
        values, classes, sides = self._split(codes)
        limits = (
            (values, 0, self.spec.codebook_size),
            (classes, 0, self.spec.classes),
            (sides, 1, self.spec.sides_end),
        )
        for part, low, high in limits:
            if part.size and (int(part.min()) < low or int(part.max()) >= high):
                raise OptionError(f"codes: expected values in [{low}, {high}), got {part.min()} to {part.max()}")

    def _split(self, codes: IntArray) -> tuple[CodeArray, CodeArray, CodeArray]:
        """(n, d) code values, (n,) classes and (n,) sides of (n, columns) codes."""
        whole = np.asarray(codes, dtype=np.int64)
        return whole[:, :-2], whole[:, -2], whole[:, -1]

    def stored_rows(self, packed: PackedRows) -> PackedRows:
        """(N, row bytes) packed rows in the form that a table keeps them in: without the zeros after short rows."""
        if self.spec.classes == 1 or isinstance(packed, RaggedRows):
            return packed
        return RaggedRows.of(np.asarray(packed), self.spec.lengths)

    def row_writer(self) -> RowWriter:
        """What makes the tensors of `row_tensors` of rows that come in chunks."""
        return super().row_writer() if self.spec.classes == 1 else RaggedWriter(self.spec.lengths)

    def check_rows(self, rows: PackedRows) -> None:
        """Check that rows begin where those before them end."""
        if isinstance(rows, RaggedRows):
            rows.check()

    def rows_of_equal_length(self, rows: PackedRows) -> Iterable[npt.NDArray[np.uint8]]:
        """The bytes of all rows, those together that are equally long."""
        return rows.of_each_class() if isinstance(rows, RaggedRows) else super().rows_of_equal_length(rows)

    def row_tensors(self, rows: PackedRows) -> dict[str, ArrayInFile]:
        """What a file keeps of the rows of a table, by name."""
        return rows.tensors() if isinstance(rows, RaggedRows) else super().row_tensors(rows)

    def rows_of_tensors(self, tensors: Mapping[str, ArrayInFile], count: int) -> PackedRows:
        """The rows of a file; undoes `row_tensors`."""
        if self.spec.classes == 1:
            return super().rows_of_tensors(tensors, count)
        return RaggedRows.from_tensors(tensors, count, self.spec.lengths)

    def compose(self, codes: IntArray) -> FloatArray:
        """(n, columns) codes to (n, d) vectors of type `dtype`."""
        return self._rotated(self._coordinates_of(*self._split(codes)))

    def _coordinates_of(self, values: CodeArray, classes: CodeArray, sides: CodeArray) -> FloatArray:
        """(n, d) coordinates of codes, times the step of the row."""
        found = self.coder.coordinates(values, classes, sides).astype(self.dtype)
        return np.asarray(found * self.stored["steps"][classes][:, None].astype(self.dtype))

    @cached_property
    def side_of(self) -> FloatArray:
        """(T,) how far from its level a coordinate lies, in steps, where its side is known."""
        return (self.stored["sides"] * np.float32(SIDE_UNIT)).astype(np.float32)

    def decode_packed(self, packed: npt.NDArray[np.uint8]) -> FloatArray:
        """(n, row bytes) packed rows to (n, d) vectors."""
        vectors = np.empty((len(packed), self.spec.embedding_dim), dtype=np.float32)
        self.write_decoded(packed, vectors)
        return vectors

    def write_decoded(self, packed: npt.NDArray[np.uint8], vectors: FloatArray) -> None:
        """The same written to (n, d) vectors, a few rows at a time: new memory costs more than a row."""
        if self.may_overflow or not self.compiled.is_used(len(packed)):
            vectors[:] = self.decode(self.unpack(packed))
            return
        at_once = max(_FEW_ROWS, _FEW_NUMBERS // self.spec.embedding_dim)
        for start in range(0, len(packed), at_once):
            some = slice(start, start + at_once)
            vectors[some] = self._rotated(self.compiled.decode(packed[some]))

    def _rotated(self, coordinates: FloatArray) -> FloatArray:
        """(n, d) coordinates to (n, d) vectors; they may be the same array."""
        if self.rotation is not None:
            coordinates = coordinates @ self.rotation.T
        coordinates += self.stored["mean"].astype(coordinates.dtype)
        return coordinates

    def coordinates(self, vectors: FloatArray) -> FloatArray:
        """(n, d) vectors to (n, d) coordinates, not yet divided by a step."""
        dtype = self.dtype if float(np.abs(vectors).max(initial=0)) < _LARGE else np.dtype(np.float64)
        centred = vectors.astype(dtype) - self.stored["mean"].astype(dtype)
        return np.asarray(centred if self.rotation is None else centred @ self.rotation)

    def encode(
        self, vectors: npt.ArrayLike, *, beam: int = 8, sweeps: int = 4, search: Search | None = None
    ) -> CodeArray:
        """Codes whose vectors are near the given ones: the least squared error plus λ times bits.

        Args:
            vectors: (d,) or (n, d) finite numbers.
            beam: has no effect, since the Viterbi algorithm considers all paths.
            sweeps: has no effect either.
            search: is not called.

        Returns:
            (columns,) or (n, columns) codes.
        """
        array = checked_vectors(vectors, self.spec.embedding_dim)
        if beam < 1 or sweeps < 0:
            raise OptionError(f"beam must be at least 1 and sweeps at least 0, got {beam} and {sweeps}")
        codes = self.encode_weighted(np.atleast_2d(array), None)
        return codes.reshape(*array.shape[:-1], codes.shape[1])

    def encode_weighted(self, vectors: FloatArray, weights: DoubleArray | None, trade: float = 1.0) -> CodeArray:
        """(n, columns) codes of (n, d) vectors whose squared errors count by (n,) weights, 1 where left out.

        Args:
            vectors: finite numbers.
            weights: positive; 1 is that of an average row of the table that the codec was made for.
            trade: what λ is multiplied by: more makes rows shorter.
        """
        coordinates = self.coordinates(vectors)
        levels = self.step_levels
        nominal = float(self.stored["search"][1])
        wanted = np.full(len(vectors), nominal) if weights is None else nominal / np.sqrt(weights.clip(min=1e-12))
        steps = np.log([step for step, _ in levels])
        own = np.abs(steps - np.log(wanted)[:, None]).argmin(axis=1)
        found = np.zeros((len(vectors), len(self.spec.widths)), dtype=np.int64)
        for number, (step, allowed) in enumerate(levels):
            rows = np.flatnonzero(own == number)
            if len(rows):
                reach = 2.0 * self.spec.codebook_size
                with np.errstate(over="ignore"):  # what is beyond reach, in whatever unit, is cut off
                    scaled = np.clip(coordinates[rows] / self.dtype.type(step), -reach, reach).astype(np.float32)
                own_weights = np.ones(len(rows)) if weights is None else weights[rows] * (step / nominal) ** 2
                trades = self.problem.trade * trade / np.clip(own_weights, *_WEIGHTS)
                found[rows] = self._searched(scaled, trades.astype(np.float32), allowed)
        return found

    def _searched(self, scaled: FloatArray, trades: FloatArray, allowed: IntArray) -> CodeArray:
        """(n, columns) codes of (n, d) coordinates in steps, with (n,) λ."""
        steps = (self._levels, self._written)
        values, classes, room = fitting_rows(steps, scaled, trades, allowed, self.problem)
        none = np.ones(len(scaled), dtype=np.int64)
        at_level = self._coordinates_of(values, classes, none) / self.stored["steps"][classes][:, None]
        above = (scaled[:, : self.spec.most_sides] > at_level[:, : self.spec.most_sides]).astype(np.int64)
        sides = none
        for place in range(above.shape[1]):
            sides = np.where(place < room, 2 * sides + above[:, place], sides)
        return np.column_stack([values, classes, sides])

    def _levels(
        self, scaled: FloatArray, trades: FloatArray, allowed: IntArray, problem: RowProblem
    ) -> tuple[CodeArray, CodeArray]:
        found = self.compiled.search(scaled, trades, allowed, problem)
        return found or search_rows(scaled, trades, allowed, problem)

    def _written(self, values: CodeArray, classes: CodeArray) -> tuple[npt.NDArray[np.uint8], CodeArray]:
        return self.compiled.write(values, classes, None) or self.coder.write(values, classes, None)

    @cached_property
    def step_levels(self) -> list[tuple[float, IntArray]]:
        """The steps that there are, each with its classes by length."""
        steps, lengths = self.stored["steps"], np.array(self.spec.lengths)
        ordered = np.argsort(lengths, kind="stable")
        return [(float(step), ordered[steps[ordered] == step]) for step in np.unique(steps)]

    def score_tables(self, queries: DoubleArray) -> None:
        """None: what a level stands for depends on those before it."""
        return None

    def _reach(self) -> float:
        most = self.spec.codebook_size * float(self.stored["steps"].max()) * self.spec.embedding_dim
        return most + float(np.abs(self.stored["mean"]).max())

    def _search(self, vectors: FloatArray, beam: int, sweeps: int) -> CodeArray:
        return self.encode_weighted(vectors, None)[:, : self.spec.code_length]

    def _rows_at_once(self, beam: int = 0) -> int:
        return max(1, min(_ROWS_AT_ONCE, _NUMBERS_AT_ONCE // self.spec.embedding_dim))
