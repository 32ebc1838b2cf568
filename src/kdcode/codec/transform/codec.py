"""Transform: multiples of a step for coordinates after a rotation, chosen along a trellis and entropy-coded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from kdcode import _core, bitpack
from kdcode.arrays import DoubleArray, FloatArray, IntArray, checked_vectors, rows_at_once
from kdcode.codec.codec import CodeArray, Codec
from kdcode.codec.row_writing import RowWriter, written
from kdcode.codec.spec import TRANSFORM
from kdcode.codec.transform.blocks import EncodedBlocks, block_means, row_numbers
from kdcode.codec.transform.centroids import Centroids
from kdcode.codec.transform.codes import check_codes, code_dtype, codes_of, multiples_of
from kdcode.codec.transform.decoder import WORK_A_CALL, TransformRowDecoder
from kdcode.codec.transform.level_tables import LevelTables
from kdcode.codec.transform.rotation import product, reflection_vectors, rounded_matrix
from kdcode.codec.transform.rows import BlockRows, BlockWriter
from kdcode.codec.transform.spec import MOST_SIDES, SIDE_UNIT, TransformSpec
from kdcode.errors import OptionError, StorageError
from kdcode.stored_array import ArrayInFile, PackedRows

_MOST_TRADE = 1e6  # the largest λ, in squared steps for each bit: rows are all zero long before
_WEIGHTS = (1 / 4, 4.0)
"""Weights beyond which the error of a row counts no less or more: a step allows no more than that."""
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_SHOWN = 16  # numbers of a code that an error shows
_NOTHING_FITS = (1 << 32) - 1


class Transform(Codec):
    """Transform codes.

    A vector is `mean + y Rᵀ`, where R is a rotation and y_i the step of the class of the row's block times a whole
    multiple, plus that coordinate of the row's centroid where there are centroids. A code has d columns, the multiples
    as 0, 1, 2, 3, 4 for 0, 1, -1, 2, -2, the number of the centroid, if any, the class of the block, and the sides of
    its first coordinates: a one, and a bit for each that says whether the coordinate lies above its multiple. The
    tensors are, beside `mean`, `steps`, the `reflections` and those of `Centroids`:

        group_sizes, group_contexts, class_contexts   coordinates that are one symbol each, and the context that they
                                                      have in blocks of each class, which is the sum of both
        magnitudes, weights                           the tables of each context, see `LevelTables`
        sides                                         how far from their multiple the first coordinates lie
        search                                        λ and the nominal step, for those who encode
    """

    kind: ClassVar[str] = TRANSFORM
    spec: TransformSpec

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.stored["steps"] > 0).all():
            raise OptionError("steps: expected numbers above 0")
        if not (self.stored["search"] > 0).all() or float(self.stored["search"][0]) > _MOST_TRADE:
            raise OptionError(f"search: expected numbers above 0, λ at most {_MOST_TRADE:g}")
        magnitudes = self.stored["magnitudes"]
        if 4 * int(magnitudes.max()) >= self.spec.codebook_size:
            raise OptionError(
                f"magnitudes: multiples up to {2 * int(magnitudes.max())} in a table, but K={self.spec.codebook_size} "
                f"allows {self.spec.codebook_size // 2}"
            )
        _ = self.tables, self.centroids  # which are checked, too
        self._check_groups()

    def _check_groups(self) -> None:
        """Refuse groups that do not cover the first coordinates quad by quad, or have a context that there is not."""
        sizes, contexts = self.stored["group_sizes"].astype(np.int64), self.stored["group_contexts"]
        if not np.isin(sizes, (1, 2, 4)).all():
            raise OptionError("group_sizes: expected 1, 2 or 4")
        if int(sizes.sum()) > self.spec.embedding_dim:
            raise OptionError("group_sizes: they add up to more coordinates than there are")
        if ((sizes.cumsum() - sizes) % 4 + sizes > 4).any():
            raise OptionError("group_sizes: a group must lie in one quad of coordinates")
        if int(contexts.max()) >= self.spec.contexts:
            raise OptionError("group_contexts: there is no such context")

    def __getstate__(self) -> dict[str, Any]:
        return {"spec": self.spec, "stored": self.stored}  # caches are rebuilt

    @cached_property
    def tables(self) -> LevelTables:
        """The tables of levels."""
        return LevelTables(self.stored["magnitudes"], self.stored["weights"], self.spec.signs)

    @cached_property
    def centroids(self) -> Centroids | None:
        """What rows are measured from; None where that is the mean alone."""
        if not self.spec.centroids:
            return None
        packed, scales = self.stored["centroids"], self.stored["centroid_scales"]
        return Centroids(packed, scales, self.stored["centroid_frequencies"], self.spec.centroid_bits)

    def _reflections(self) -> DoubleArray:
        stored = self.stored
        return reflection_vectors(stored["reflections"], stored["reflection_scale"], self.spec.embedding_dim)

    @property
    def rotation(self) -> npt.NDArray[np.floating] | None:
        """The (d, d) matrix R that encoding multiplies vectors by, computed on each access; None for the identity."""
        return product(self._reflections()) if self.spec.reflections else None

    @cached_property
    def matrix(self) -> tuple[npt.NDArray[np.int8], FloatArray] | None:
        """The (d, d) int8 numbers and (d,) scales that coordinates are multiplied by to be vectors."""
        return rounded_matrix(self._reflections()) if self.spec.reflections else None

    @cached_property
    def _encoder(self) -> _core.Transform:
        """The codec of the core with the rotation as it was before it was rounded."""
        if self.spec.reflections:
            self.core.prepare(product(self._reflections(), np.float32))
        return self.core

    @cached_property
    def side_of(self) -> FloatArray:
        """How far from their multiple the first coordinates lie, in steps, where their side is known."""
        return (self.stored["sides"] * np.float32(SIDE_UNIT)).astype(np.float32)

    @property
    def nominal_step(self) -> float:
        """The step of rows that count as usual."""
        return float(self.stored["search"][1])

    @property
    def trade(self) -> float:
        """λ, what a bit may cost in squared error, in squared steps."""
        return float(self.stored["search"][0])

    @cached_property
    def core(self) -> _core.Transform:
        """The codec of the core."""
        spec, stored = self.spec, self.stored
        matrix, scales = (np.empty((0, 0), np.int8), np.empty(0, np.float32)) if self.matrix is None else self.matrix
        centroids, frequencies = np.empty((0, spec.embedding_dim), np.float32), np.empty(0, np.uint16)
        if self.centroids is not None:
            centroids = (self.centroids.vectors.astype(np.float64) / self.nominal_step).astype(np.float32)
            frequencies = self.centroids.frequencies
        return _core.Transform(
            spec.embedding_dim,
            spec.rows_per_block,
            spec.states,
            spec.signs,
            spec.codebook_size,
            stored["group_sizes"],
            stored["group_contexts"],
            np.array(spec.lengths, dtype=np.uint32),
            stored["class_contexts"],
            stored["magnitudes"].reshape(-1),
            stored["weights"],
            frequencies,
            stored["mean"],
            stored["steps"],
            self.side_of,
            matrix,
            scales,
            np.ascontiguousarray(centroids),
            self.nominal_step,
        )

    @cached_property
    def active(self) -> int:
        """How many coordinates have levels: the first ones, all others are zero."""
        return int(self.stored["group_sizes"].sum())

    def scaled(self, factor: float) -> Self:
        """The codec whose vectors are `factor` times as long."""
        search = self.stored["search"].copy()
        search[1] *= np.float32(factor)
        names = ("mean", "steps", *(["centroid_scales"] if self.spec.centroids else []))
        changed = {name: (self.stored[name] * np.float64(factor)).astype(np.float32) for name in names}
        return replace(self, stored={**self.stored, **changed, "search": search})

    # Rows.

    def block_rows(self, packed: PackedRows) -> BlockRows:
        """Packed rows of any form as rows of blocks."""
        if isinstance(packed, BlockRows):
            return packed
        return self.rows_of_tensors(written(self.row_writer(), np.asarray(packed)), len(packed))

    def stored_rows(self, packed: PackedRows) -> PackedRows:
        """(N, row bytes) packed rows in the form that a table keeps them in: blocks once, without zeros after them."""
        return self.block_rows(packed) if len(packed) else packed

    def row_writer(self) -> RowWriter:
        """What makes the tensors of `row_tensors` of rows that come in chunks."""
        return BlockWriter(self.spec.lengths, self.spec.rows_per_block)

    def check_rows(self, rows: PackedRows) -> None:
        """Check that blocks begin where those before them end."""
        self.block_rows(rows).check()

    def rows_of_equal_length(self, rows: PackedRows) -> Iterable[npt.NDArray[np.uint8]]:
        """The rows of each class without the zeros after them; of rows that share blocks, 16 bytes for each code."""
        held = self.block_rows(rows) if len(rows) else rows
        if not isinstance(held, BlockRows):
            return [np.asarray(rows)]
        if self.spec.rows_per_block > 1:
            return [self._hashed(held)]
        return held.of_each_class()

    def _hashed(self, rows: BlockRows) -> npt.NDArray[np.uint8]:
        """(N, 16) hashes of codes, which differ where codes do, but for chances below 2⁻⁹⁰."""
        columns = len(self.spec.widths)
        factors = np.random.default_rng(0).integers(0, 1 << 64, size=(columns, 2), dtype=np.uint64)
        found, decoder, at_once = np.empty((len(rows), 2), dtype=np.uint64), self.decoder(rows), rows_at_once(columns)
        for start in range(0, len(rows), at_once):
            numbers = np.arange(start, min(start + at_once, len(rows)))
            found[numbers] = decoder.codes(numbers).astype(np.uint64) @ factors
        return found.view(np.uint8)

    def row_tensors(self, rows: PackedRows) -> dict[str, ArrayInFile]:
        """What a file keeps of the rows of a table, by name."""
        return self.block_rows(rows).tensors()

    def rows_of_tensors(self, tensors: Mapping[str, ArrayInFile], count: int) -> BlockRows:
        """The rows of a file; undoes `row_tensors`."""
        return BlockRows(count, self.spec.lengths, self.spec.rows_per_block, tensors)

    def decoder(self, packed: PackedRows) -> TransformRowDecoder:
        """What decodes rows of a table."""
        return TransformRowDecoder(self, packed)

    def unpack(self, packed: npt.NDArray[np.uint8]) -> bitpack.UnsignedArray:
        """(n, row bytes) packed rows to (n, columns) codes.

        Raises:
            StorageError: bytes that stand for no code.
        """
        if not len(packed):
            return np.empty((0, len(self.spec.widths)), dtype=code_dtype(self.spec))
        return self.decoder(packed).codes(np.arange(len(packed)))

    def pack(self, codes: IntArray) -> npt.NDArray[np.uint8]:
        """(n, columns) codes to (n, row bytes) packed rows: see `BlockRows`.

        Where several rows make a block, codes are those of all rows that were encoded, in order.

        Raises:
            OptionError: the codes are not those of this codec, or too long for the class of their block.
        """
        self.check_codes(codes)
        return self.packed_rows(self._blocks_of(codes))

    def packed_rows(self, encoded: EncodedBlocks) -> npt.NDArray[np.uint8]:
        """The (n, row bytes) packed rows of blocks."""
        spec = self.spec
        classes = (
            encoded.others[:, :1].astype(np.uint8) if spec.classes > 1 else np.empty((len(encoded.others), 0), np.uint8)
        )
        blocks = np.concatenate([classes, encoded.packed], axis=1)
        if spec.rows_per_block == 1:
            return blocks
        number, place = np.divmod(np.arange(encoded.rows), spec.rows_per_block)
        return np.column_stack([place.astype(np.uint8), blocks[number]])

    def check_codes(self, codes: IntArray) -> None:
        """Refuse what is no (n, columns) array of codes in range."""
        check_codes(self.spec, codes)

    def decode(self, codes: IntArray) -> FloatArray:
        """(n, columns) codes to (n, d) vectors.

        Raises:
            StorageError: a vector has a number that float32 cannot hold.
        """
        vectors = self.compose(codes)
        if self.may_overflow:
            self.mend(vectors, lambda wrong: codes[wrong])
        return vectors

    def mend(self, vectors: FloatArray, codes_at: Callable[[IntArray], IntArray], *, finite: bool = True) -> None:
        """Compute again in float64 what left float32 on the way to (n, d) vectors.

        Args:
            vectors: changed in place.
            codes_at: gives the codes of rows of `vectors` by their numbers.
            finite: whether vectors that float32 cannot hold are refused; else they stay infinite.

        Raises:
            StorageError: float32 cannot hold a vector.
        """
        wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if not len(wrong):
            return
        codes = codes_at(wrong)
        exact = self._in_float64(codes)
        beyond = ~(np.abs(exact) <= _FLOAT32_MAX).all(axis=1)
        if finite and beyond.any():
            code = codes[int(beyond.argmax())]
            text = "-".join(str(int(value)) for value in code[:_SHOWN]) + ("-…" if len(code) > _SHOWN else "")
            raise StorageError(f"codes: the vector of code {text} has a number beyond float32, {_FLOAT32_MAX:.4g}")
        with np.errstate(over="ignore"):
            vectors[wrong] = exact.astype(np.float32)

    def _in_float64(self, codes: IntArray) -> DoubleArray:
        """(n, columns) codes to (n, d) vectors in float64."""
        multiples, others = multiples_of(self.spec, codes)
        found = multiples.astype(np.float64)
        places = np.arange(self.spec.most_sides)
        after = others[:, 2:3].astype(np.int64) - 1 - places
        above = others[:, 3:].astype(np.int64) >> np.maximum(after, 0) & 1
        found[:, : len(places)] += np.where(after >= 0, np.where(above, 1, -1) * self.side_of, 0)
        found *= self.stored["steps"][others[:, 1]][:, None]
        if self.centroids is not None:
            found += self.centroids.vectors[others[:, 0]]
        if self.matrix is not None:
            numbers, scales = self.matrix
            found = found @ (numbers.astype(np.float64) * scales[:, None]).T
        return np.asarray(found + self.stored["mean"])

    def compose(self, codes: IntArray) -> FloatArray:
        """(n, columns) codes to (n, d) vectors; infinite where float32 ends."""
        multiples, others = multiples_of(self.spec, codes)
        vectors = np.empty((len(codes), self.spec.embedding_dim), dtype=np.float32)
        self.core.compose(multiples, others, vectors)
        return vectors

    # Encoding.

    def encode(self, vectors: npt.ArrayLike, *, beam: int = 8, sweeps: int = 4) -> CodeArray:
        """Codes whose vectors are near the given ones: the least squared error plus λ times bits.

        Args:
            vectors: (d,) or (n, d) finite numbers.
            beam: has no effect, nor have `sweeps`, since the Viterbi algorithm considers all paths.
            sweeps: see `beam`.

        Returns:
            (columns,) or (n, columns) codes.
        """
        array = checked_vectors(vectors, self.spec.embedding_dim)
        if beam < 1 or sweeps < 0:
            raise OptionError(f"beam must be at least 1 and sweeps at least 0, got {beam} and {sweeps}")
        encoded = self.encode_blocks(np.atleast_2d(array))
        codes = codes_of(self.spec, *row_numbers(self.spec, self.active, encoded)).astype(np.int64)
        return codes.reshape(*array.shape[:-1], codes.shape[1])

    def coordinates(self, vectors: FloatArray) -> FloatArray:
        """(n, d) vectors to (n, d) coordinates, in nominal steps."""
        found = np.empty(vectors.shape, dtype=np.float32)
        self._encoder.coordinates(np.ascontiguousarray(vectors, dtype=np.float32), found)
        return found

    def encode_blocks(
        self,
        vectors: FloatArray,
        weights: DoubleArray | None = None,
        trade: float = 1.0,
        longest: int | None = None,
        numbers: IntArray | None = None,
    ) -> EncodedBlocks:
        """The blocks of (n, d) vectors whose squared errors count by (n,) weights.

        Args:
            vectors: finite numbers.
            weights: positive; 1, as where left out, is that of an average row of the table that the codec was made for.
            trade: what λ is multiplied by: more makes rows shorter.
            longest: bytes that blocks take at most, or as few as there are; any number if None.
            numbers: (n,) of the centroids that rows are measured from; those that are nearest if None.

        Raises:
            OptionError: a row fits into no class, not even as zeros.
        """
        spec, count = self.spec, len(vectors)
        blocks, width = spec.blocks_of(count), spec.rows_per_block * spec.embedding_dim
        coordinates = np.zeros((blocks * spec.rows_per_block, spec.embedding_dim), dtype=np.float32)
        coordinates[:count] = self.coordinates(vectors)
        named = np.zeros(blocks * spec.rows_per_block if spec.centroids else 0, dtype=np.uint16)
        if self.centroids is not None:
            if numbers is None:
                self.core.nearest(coordinates[:count], self.trade, named[:count])
            else:
                named[:count] = numbers
            coordinates[:count] -= (self.centroids.vectors[named[:count]] / self.nominal_step).astype(np.float32)
        found = EncodedBlocks(
            count,
            np.zeros((blocks, width), dtype=np.int32),
            named.reshape(blocks, spec.rows_per_block if spec.centroids else 0),
            np.zeros((blocks, 3), dtype=np.uint32),
            np.zeros((blocks, max(spec.lengths)), dtype=np.uint8),
        )
        means = np.ones(blocks) if weights is None else block_means(weights, spec.rows_per_block)
        self._search_levels(coordinates.reshape(blocks, width), means, trade, longest, found)
        return found

    def _search_levels(
        self, coordinates: FloatArray, means: DoubleArray, trade: float, longest: int | None, found: EncodedBlocks
    ) -> None:
        """Write the codes of (m, rows · d) coordinates in nominal steps, by the (m,) weights of blocks."""
        wanted = np.log(self.nominal_step / np.sqrt(means.clip(min=1e-12)))
        steps, lengths = self.stored["steps"].astype(np.float64), np.array(self.spec.lengths)
        values = np.unique(steps)
        own = np.abs(np.log(values) - wanted[:, None]).argmin(axis=1)
        by_length = np.argsort(lengths, kind="stable")
        at_once = max(1, WORK_A_CALL // 16 // coordinates.shape[1])
        used = (found.rows - 1) % self.spec.rows_per_block + 1
        for number, step in enumerate(values):
            classes = by_length[steps[by_length] == step].astype(np.uint8)
            if longest is not None:
                classes = classes[: max(1, int((lengths[classes] <= longest).sum()))]
            chosen = np.flatnonzero(own == number)
            relative = step / self.nominal_step
            trades = self.trade * trade / np.clip(means * relative**2, *_WEIGHTS)
            for start in range(0, len(chosen), at_once):
                some = chosen[start : start + at_once]
                of_last = used if int(some[-1]) == len(means) - 1 else self.spec.rows_per_block
                multiples, others, packed = found.multiples[some], found.others[some], found.packed[some]
                self.core.encode(
                    np.ascontiguousarray(coordinates[some] / np.float32(relative)),
                    np.ascontiguousarray(found.numbers[some]),
                    trades[some].astype(np.float32),
                    classes,
                    of_last,
                    max(1, (self.spec.codebook_size - 1) // 4),
                    multiples,
                    others,
                    packed,
                )
                if (others[:, 1] == _NOTHING_FITS).any():
                    raise OptionError(f"lengths: blocks of {lengths[classes[-1]]} bytes are too short for any code")
                found.multiples[some], found.others[some], found.packed[some] = multiples, others, packed

    def _blocks_of(self, codes: IntArray) -> EncodedBlocks:
        """The blocks of (n, columns) codes of all their rows in order.

        Raises:
            OptionError: rows that are no blocks, or levels that do not follow from each other or do not fit.
        """
        spec, count = self.spec, len(codes)
        multiples, others = multiples_of(self.spec, codes)
        blocks = spec.blocks_of(count)
        first = np.arange(0, count, spec.rows_per_block)
        block = np.arange(count) // spec.rows_per_block
        whole = np.zeros((blocks * spec.rows_per_block, spec.embedding_dim), dtype=np.int32)
        whole[:count] = multiples
        named = np.zeros(blocks * spec.rows_per_block if spec.centroids else 0, dtype=np.uint16)
        if spec.centroids:
            named[:count] = others[:, 0]
        known = np.add.reduceat(others[:, 2].astype(np.int64), first) if count else np.empty(0, np.int64)
        joined = np.zeros(blocks, dtype=np.uint32)
        for place in range(min(spec.rows_per_block, count)):
            rows = np.arange(place, count, spec.rows_per_block)
            joined[: len(rows)] = joined[: len(rows)] << others[rows, 2] | others[rows, 3]
        found = EncodedBlocks(
            count,
            whole.reshape(blocks, spec.rows_per_block * spec.embedding_dim),
            named.reshape(blocks, spec.rows_per_block if spec.centroids else 0),
            np.stack([others[first, 1], np.minimum(known, MOST_SIDES).astype(np.uint32), joined], axis=1),
            np.zeros((blocks, max(spec.lengths)), dtype=np.uint8),
        )
        room = np.zeros(blocks, dtype=np.int32)
        self.core.write(found.multiples, found.numbers, found.others, room, found.packed)
        there = np.diff([*first, count]) * self.active  # sides of rows that a last block lacks are those of zeros
        wrong = (others[:, 1] != found.others[block, 0]) | (np.minimum(room, there) != known)[block]
        if wrong.any():
            row = int(wrong.argmax())
            length = spec.lengths[int(found.others[block[row], 0])]
            raise OptionError(
                f"codes: row {row} is no code of this codec: its levels, in the order in which rows were encoded, and "
                f"its {known[block[row]]} sides do not fill the {length} bytes of its class; encode a vector to have "
                "a code that fits"
            )
        return found

    def _reach(self) -> float:
        most = self.spec.codebook_size * float(self.stored["steps"].max())
        most += 0.0 if self.centroids is None else self.centroids.largest
        return most * self.spec.embedding_dim + float(np.abs(self.stored["mean"]).max())
