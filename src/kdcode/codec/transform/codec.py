"""Transform: a level for each coordinate after a rotation, chosen along a trellis and entropy-coded."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import DoubleArray, FloatArray, IntArray, checked_vectors
from kdcode.codec.codec import CodeArray, Codec, Search
from kdcode.codec.spec import TRANSFORM
from kdcode.codec.transform.block_encoding import BlockEncoder
from kdcode.codec.transform.centroids import Centroids
from kdcode.codec.transform.compiled_levels import CompiledLevels
from kdcode.codec.transform.level_tables import LevelTables
from kdcode.codec.transform.range_coder import bit_lengths
from kdcode.codec.transform.reflections import product, reflection_vectors
from kdcode.codec.transform.row_blocks import BlockCodes
from kdcode.codec.transform.row_coder import RowCoder
from kdcode.codec.transform.row_forms import TransformRows
from kdcode.codec.transform.row_search import RowProblem, margin_of
from kdcode.codec.transform.spec import SIDE_UNIT, TransformSpec
from kdcode.codec.transform.viterbi import LevelCosts
from kdcode.errors import OptionError

_ROWS_AT_ONCE, _NUMBERS_AT_ONCE = 1 << 12, 1 << 20
_MOST_TRADE = 1e6
"""The largest λ, in squared steps for each bit: rows are all zero long before."""
_LARGE = 1e30
"""Vectors of larger numbers are rotated in float64."""
_FEW_ROWS, _FEW_NUMBERS = 64, 1 << 15
"""Rows that compiled code decodes at a time: as many as have so many numbers, and enough to read the rotation for."""


class Transform(TransformRows, Codec):
    """Transform codes.

    A vector is `mean + y Rᵀ`, where R is a product of reflections and y_i the step of the row's class times what level
    i stands for, plus that coordinate of the row's centroid where there are centroids. A code has d columns, the levels
    as code values (0, 1, 2, 3, 4 for 0, 1, -1, 2, -2), the number of the centroid, if any, then the class of the row,
    and the sides of its first coordinates: a one, and for each coordinate whether it lies above its level. Where
    several rows make a block, they share a class, and before it there is a column for the state of the trellis (see
    `RowBlocks`). The tensors are, beside `mean`, `steps`, the `reflections` and those of `Centroids`:

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
        _ = self.centroids  # which are checked, too

    @cached_property
    def tables(self) -> LevelTables:
        """The tables of levels."""
        magnitudes, frequencies, shifts = (self.stored[name] for name in ("magnitudes", "frequencies", "shifts"))
        return LevelTables(magnitudes, frequencies, shifts, self.spec.signs)

    @cached_property
    def centroids(self) -> Centroids | None:
        """What rows are measured from; None where that is the mean alone."""
        if not self.spec.centroids:
            return None
        packed, scales = self.stored["centroids"], self.stored["centroid_scales"]
        return Centroids(packed, scales, self.stored["centroid_frequencies"], self.spec.centroid_bits)

    @cached_property
    def contexts(self) -> npt.NDArray[np.int64]:
        """(classes, levels) the context of each coordinate in blocks of a class."""
        found = self.stored["coordinate_contexts"].astype(np.int64) + self.stored["class_contexts"][:, None]
        return np.tile(np.clip(found, 0, self.spec.contexts - 1), self.spec.rows_per_block)

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
        margin = margin_of(self.spec.block_levels)
        numbers = None if self.centroids is None else self.centroids.costs
        return RowProblem(self.tables, costs, self.contexts, self.coder.lengths, trade, margin, numbers)

    @cached_property
    def compiled(self) -> CompiledLevels:
        """The same loops as compiled code, where that is installed."""
        return CompiledLevels(self.coder)

    @cached_property
    def coder(self) -> RowCoder:
        """What turns codes into rows and back."""
        spec, lengths = self.spec, np.array(self.spec.lengths, dtype=np.int64)
        own = (self.stored["steps"], self.side_of, spec.states, spec.most_block_sides, spec.codebook_size)
        return RowCoder(self.tables, self.contexts, lengths, *own, spec.rows_per_block, self.centroids)

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
        names = self.spec.weight_shapes()
        changed = {name: (self.stored[name] * np.float64(factor)).astype(np.float32) for name in names}
        return replace(self, stored={**self.stored, **changed, "search": search})

    def pack(self, codes: IntArray) -> npt.NDArray[np.uint8]:
        """(n, columns) codes to (n, row bytes) packed rows: the class where there are several, then its bytes.

        Where several rows make a block, codes are those of all rows that were encoded, in order, and a packed row is
        its place in the block and the whole block.

        Raises:
            OptionError: the codes are not those of this codec, or too long for the class of their block.
        """
        self.check_codes(codes)
        packed = np.zeros((len(codes), self.spec.row_bytes), dtype=np.uint8)
        at_once = self._rows_at_once()
        for start in range(0, len(codes), at_once):
            some = slice(start, start + at_once)
            packed[some] = self._packed(codes[some], start)
        return packed

    def _packed(self, codes: IntArray, start: int) -> npt.NDArray[np.uint8]:
        """(n, row bytes) packed rows of a few codes, of rows from number `start` on."""
        spec = self.spec
        values, numbers, classes, sides = spec.row_blocks.block_codes(codes)
        left = -len(codes) % spec.rows_per_block  # rows that the last block has not
        if left:
            room = self.encoder.written(values[-1:], numbers[-1:], classes[-1:])[1]
            sides[-1] <<= max(0, int(room[0]) - (spec.rows_per_block - left) * spec.embedding_dim)
        parts = (values, numbers, classes, sides)
        written, room = self.compiled.write(*parts) or self.coder.write(*parts)
        wrong = room != bit_lengths(sides) - 1
        if wrong.any():
            block = int(wrong.argmax())
            length, row = spec.lengths[classes[block]], start + block * spec.rows_per_block
            raise OptionError(
                f"codes: row {row} has {bit_lengths(sides)[block] - 1} sides, and the {length} bytes of its "
                f"class have room for {room[block]}; encode a vector to have a code that fits"
            )
        first = int(spec.classes > 1)
        blocks = np.empty((len(values), spec.block_bytes), dtype=np.uint8)
        blocks[:, :first] = classes[:, None]
        blocks[:, first:] = written[:, : spec.block_bytes - first]
        if spec.rows_per_block == 1:
            return blocks
        number, place = np.divmod(np.arange(len(codes)), spec.rows_per_block)
        return np.column_stack([place.astype(np.uint8), blocks[number]])

    def unpack(self, packed: npt.NDArray[np.uint8]) -> bitpack.UnsignedArray:
        """(n, row bytes) packed rows to (n, columns) codes.

        Raises:
            StorageError: bytes that stand for no code.
        """
        codes = np.zeros((len(packed), len(self.spec.widths)), dtype=bitpack.value_dtype(max(self.spec.widths)))
        at_once = self._rows_at_once()
        for start in range(0, len(packed), at_once):
            some = slice(start, start + at_once)
            blocks, numbers, places = self.blocks_of(packed[some])
            values, centroids, sides = self.compiled.read(blocks) or self.coder.read(blocks)
            classes = blocks[:, 0].astype(np.int64) if self.spec.classes > 1 else np.zeros(len(blocks), dtype=np.int64)
            found = BlockCodes(values, centroids, classes, sides)
            codes[some] = self.spec.row_blocks.row_codes(found, numbers, places)
        return codes

    def check_codes(self, codes: IntArray) -> None:
        """Refuse what is no (n, columns) array of codes in range."""
        columns = len(self.spec.widths)
        if codes.ndim != 2 or codes.shape[1] != columns or codes.dtype.kind not in "iu":
            raise OptionError(f"codes: expected integers of shape (rows, {columns}), got {codes.dtype} {codes.shape}")
        dim, numbered = self.spec.embedding_dim, self.spec.centroids > 0
        limits = (
            (codes[:, :dim], 0, self.spec.codebook_size),
            (codes[:, dim : dim + numbered], 0, self.spec.centroids),
            (codes[:, dim + numbered : -2], 0, self.spec.states),
            (codes[:, -2], 0, self.spec.classes),
            (codes[:, -1], 1, self.spec.sides_end),
        )
        for part, low, high in limits:
            if part.size and (int(part.min()) < low or int(part.max()) >= high):
                raise OptionError(f"codes: expected values in [{low}, {high}), got {part.min()} to {part.max()}")
        values = codes[:, :dim]
        if not self.spec.signs and ((values > 0) & (values % 2 == 0)).any():
            raise OptionError("codes: found a negative level, in a codec that has none (signs=False)")

    def compose(self, codes: IntArray) -> FloatArray:
        """(n, columns) codes to (n, d) vectors of type `dtype`."""
        whole, dim = np.asarray(codes, dtype=np.int64), self.spec.embedding_dim
        states = whole[:, -3] if self.spec.rows_per_block > 1 else None
        classes = whole[:, -2]
        found = self.coder.coordinates(whole[:, :dim], classes, whole[:, -1], states).astype(self.dtype)
        found *= self.stored["steps"][classes][:, None].astype(self.dtype)
        if self.centroids is not None:
            found += self.centroids.vectors[whole[:, dim]].astype(self.dtype)
        return self._rotated(found)

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
            blocks, numbers, places = self.blocks_of(packed[some])
            coordinates = self.compiled.decode(blocks)
            if self.spec.rows_per_block > 1:
                coordinates = self.spec.row_blocks.own(coordinates, numbers, places)
            vectors[some] = self._rotated(coordinates)

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

    def encode_weighted(
        self,
        vectors: FloatArray,
        weights: DoubleArray | None,
        trade: float = 1.0,
        longest: int | None = None,
        numbers: IntArray | None = None,
    ) -> CodeArray:
        """(n, columns) codes of (n, d) vectors whose squared errors count by (n,) weights, 1 where left out.

        Args:
            vectors: finite numbers.
            weights: positive; 1 is that of an average row of the table that the codec was made for.
            trade: what λ is multiplied by: more makes rows shorter.
            longest: bytes that blocks take at most, or as few as there are; any number if None.
            numbers: (n,) of the centroids that rows are measured from; those that are nearest if None.
        """
        own = None if numbers is None else numbers.astype(np.int64)
        return self.encoder.encode(vectors, weights, trade, longest, own)

    @cached_property
    def encoder(self) -> BlockEncoder:
        """What finds codes of vectors."""
        parts = (self.spec.row_blocks, self.problem, self.coder, self.compiled)
        nominal = float(self.stored["search"][1])
        return BlockEncoder(*parts, nominal=nominal, coordinates=self.coordinates, centroids=self.centroids)

    def score_tables(self, queries: DoubleArray) -> None:
        """None: what a level stands for depends on those before it."""
        return None

    def _reach(self) -> float:
        most = self.spec.codebook_size * float(self.stored["steps"].max()) * self.spec.embedding_dim
        of_centroids = 0.0 if self.centroids is None else self.centroids.largest * self.spec.embedding_dim
        return most + of_centroids + float(np.abs(self.stored["mean"]).max())

    def _search(self, vectors: FloatArray, beam: int, sweeps: int) -> CodeArray:
        return self.encode_weighted(vectors, None)[:, : self.spec.code_length]

    def _rows_at_once(self, beam: int = 0) -> int:
        """Rows of whole blocks."""
        together = self.spec.rows_per_block
        return max(1, min(_ROWS_AT_ONCE, _NUMBERS_AT_ONCE // self.spec.embedding_dim) // together) * together
