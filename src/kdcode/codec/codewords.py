"""CodewordCodec: codecs whose codes choose among codewords. The core decodes them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import DoubleArray, FloatArray, IntArray, checked_vectors
from kdcode.codec.codec import CodeArray, Codec, Tensors
from kdcode.codec.codeword_rows import CodewordRows
from kdcode.codec.codeword_spec import CodewordSpec, check_values
from kdcode.codec.quantized import Quantized, quantize
from kdcode.codec.row_scales import directions, length_ratios, nearest_level
from kdcode.codec.row_writing import PlainWriter, RowWriter
from kdcode.codec.sum_search import product, within_reach
from kdcode.errors import OptionError
from kdcode.stored_array import ArrayInFile, PackedRows

_FLOAT32_MAX = float(np.finfo(np.float32).max)


class CodewordCodec(Codec):
    """A codec with a codebook, a way to compose codewords, and the levels of row scales.

    A code has D columns, and one more where rows have scales: the level of the row's scale. Rows are packed bits, all
    of one length.
    """

    scaled_weight: ClassVar[str]
    """The weight that is multiplied where vectors are to become longer."""

    spec: CodewordSpec

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.spec.weight_shapes():
            if not np.isfinite(self._quantized(name).largest).all():
                raise OptionError(f"{name}: holds values that are not finite")
        if self.spec.scale_bits:
            levels = self.stored["scale_levels"]
            if (levels < 0).any() or (np.diff(levels) < 0).any():
                raise OptionError("scale_levels: expected numbers of at least 0 that do not fall")

    @classmethod
    def from_weights(cls, spec: CodewordSpec, weights: Tensors) -> Self:
        """Round float weights, named as in `spec.weight_shapes()`, to what is stored.

        `scale_levels` are all 1 where they are not given.
        """
        stored: dict[str, npt.NDArray[Any]] = {}
        for name, (dtype, shape) in spec.tensor_layout().items():
            if name == "scale_levels":
                stored[name] = np.asarray(weights.get(name, np.ones(shape)), dtype=np.float32)
            elif not name.endswith("_scale"):
                if name not in weights:
                    raise OptionError(f"{name}: missing")
                if name in ("codebook", "basis"):
                    added = (
                        [block.positions for block in spec.blocks] if name == "codebook" and spec.adds_codewords else []
                    )
                    stored |= _named(name, quantize(np.asarray(weights[name]), dtype, added))
                else:
                    with np.errstate(over="ignore"):  # what overflows becomes inf and is refused
                        stored[name] = np.asarray(weights[name], dtype=dtype)
        return cls(spec, stored)

    def weights(self) -> dict[str, FloatArray]:
        """What the stored tensors stand for, as float32, named as in `spec.weight_shapes()`."""
        return {name: self._quantized(name).values for name in self.spec.weight_shapes()}

    def with_levels(self, levels: FloatArray) -> Self:
        """The same codec with other levels of row scales."""
        return replace(self, stored={**self.stored, "scale_levels": levels})

    def scaled(self, factor: float) -> Self:
        """The codec whose vectors are `factor` times as long; the rounded numbers stay what they are."""
        found = self._quantized(self.scaled_weight)
        if found.scale is None:
            changed = Quantized((found.stored * np.float64(factor)).astype(np.float32), None)
        else:
            scale = np.clip(found.scale * np.float64(factor), -_FLOAT32_MAX, _FLOAT32_MAX)  # that of zeros may be any
            changed = Quantized(found.stored, scale.astype(np.float32))
        return replace(self, stored={**self.stored, **_named(self.scaled_weight, changed)})

    @cached_property
    def unit(self) -> float:
        """A power of two near the largest number of `scaled_weight`; squares of numbers far from 1 leave float32."""
        most = float(self._quantized(self.scaled_weight).largest.max())
        return float(2.0 ** np.round(np.log2(most))) if most > 0 else 1.0

    @cached_property
    def _in_units(self) -> Self:
        """The same codec in units of `unit`, with what is computed for searches: many calls of `encode` share it."""
        return self.scaled(1 / self.unit)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that codewords are composed in."""
        return np.dtype(np.float64 if self.may_overflow else np.float32)

    @cached_property
    def codebook(self) -> FloatArray:
        """The codewords as (D, K, e) float32."""
        return self._quantized("codebook").values

    @cached_property
    def basis(self) -> FloatArray | None:
        """The (inner_dim, d) matrix that leads from coordinates to vectors, as float32; None for the identity."""
        return self._quantized("basis").values if self.spec.basis else None

    # Codes.

    def check_codes(self, codes: IntArray) -> None:
        """Refuse what is no (n, columns) array of codes in range."""
        spec = self.spec
        columns = len(spec.widths)
        if codes.ndim != 2 or codes.shape[1] != columns or codes.dtype.kind not in "iu":
            raise OptionError(f"codes: expected integers of shape (rows, {columns}), got {codes.dtype} {codes.shape}")
        parts = [(codes[:, : spec.code_length], spec.codebook_size)]
        if spec.scale_bits:
            parts.append((codes[:, spec.code_length :], 1 << spec.scale_bits))
        for part, limit in parts:
            if part.size and (int(part.min()) < 0 or int(part.max()) >= limit):
                raise OptionError(f"codes: expected values in [0, {limit}), got {part.min()} to {part.max()}")

    def decode(self, codes: IntArray) -> FloatArray:
        """(n, columns) codes to (n, d) vectors.

        Raises:
            StorageError: a code is out of range, or a vector has a number that float32 cannot hold.
        """
        packed, bits = _as_rows(codes)
        return CodewordRows(self.spec, self.stored, packed, (bits, bits)).decode(np.arange(len(codes)))

    def compose(self, codes: IntArray) -> FloatArray:
        """(n, D) or (n, columns) codes to (n, d) vectors, before row scales; infinite where float32 ends."""
        packed, bits = _as_rows(codes[:, : self.spec.code_length])
        rows = CodewordRows(replace(self.spec, scale_bits=0), self.stored, packed, (bits, bits))
        vectors = np.empty((len(codes), self.spec.embedding_dim), dtype=np.float32)
        rows.decode_into(np.arange(len(codes)), vectors, finite=False)
        return vectors

    def encode(self, vectors: npt.ArrayLike, *, beam: int = 8, sweeps: int = 4) -> CodeArray:
        """Codes whose vectors are near the given ones in squared distance, found by beam search and ICM sweeps.

        Many rows are searched on several threads; see `kdcode.threads.using_threads`.

        Args:
            vectors: (d,) or (n, d) finite numbers.
            beam: partial codes kept per vector while positions are chosen one after another.
            sweeps: passes that reconsider one position at a time afterwards.

        Returns:
            (columns,) or (n, columns) codes.
        """
        array = checked_vectors(vectors, self.spec.embedding_dim)
        if beam < 1 or sweeps < 0:
            raise OptionError(f"beam must be at least 1 and sweeps at least 0, got {beam} and {sweeps}")
        rows = np.atleast_2d(array)
        wanted = within_reach((directions(rows) if self.spec.scale_bits else rows) / np.float64(self.unit))
        codes = self._in_units.search_codes(wanted, beam, sweeps)
        return self.with_scale_level(codes, rows).reshape(*array.shape[:-1], len(self.spec.widths))

    def with_scale_level(self, codes: CodeArray, vectors: FloatArray) -> CodeArray:
        """(n, columns): (n, D) codes with the level that is nearest to the length of (n, d) vectors."""
        if not self.spec.scale_bits:
            return codes
        wanted = np.asarray(vectors, dtype=np.float64) / self.unit  # in units, no vector leaves float32
        levels = nearest_level(length_ratios(wanted, self._in_units.compose(codes)), self.stored["scale_levels"])
        return np.concatenate([codes, levels[:, None]], axis=1)

    @abstractmethod
    def search_codes(self, vectors: FloatArray, beam: int, sweeps: int) -> CodeArray:
        """(n, D) codes of (n, d) vectors, before row scales."""

    @abstractmethod
    def score_tables(self, queries: DoubleArray) -> DoubleArray | None:
        """(D, K, q) tables whose entries at a code's positions add up to its dot products with (d, q) queries.

        They are those of what `compose` gives, in float64. None where the composition is not a sum over positions.
        """

    def rounding_of_dots(self, sizes: DoubleArray) -> DoubleArray:
        """(q,) how far sums of `score_tables` in float32 may be from dot products of decoded vectors.

        Args:
            sizes: (q, d) absolute values of the queries.
        """
        raise NotImplementedError

    @cached_property
    def inverse_basis(self) -> DoubleArray:
        """(d, inner_dim): vectors times it are the coordinates that codewords add up to, where the basis is square.

        A learned rotation is inverted by its transpose, but for rounding. A basis that was fitted to hidden states is
        not: see `kdcode.nn.compress_embeddings(calibrate=...)`.
        """
        basis = np.asarray(self.basis, dtype=np.float64)
        try:
            return np.asarray(np.linalg.inv(basis))
        except np.linalg.LinAlgError:
            return np.asarray(np.linalg.pinv(basis))

    @cached_property
    def reduced_basis(self) -> tuple[DoubleArray, FloatArray]:
        """(d, k) directions and the (inner_dim, k) basis in them, both in the same unit; k is the smaller of both dims.

        A basis keeps no distances. With B = L Qᵀ, those between x B and a vector v are those between x L and v Q, but
        for what no x B reaches: so a search of codes need not work with d numbers where inner_dim are fewer.
        """
        directions, lower = np.linalg.qr(np.asarray(self.basis, dtype=np.float64).T)
        unit = max(float(np.abs(lower).max()), float(np.finfo(np.float32).tiny))
        return directions / unit, np.asarray(lower.T / unit, dtype=np.float32)

    def reduced(self, vectors: FloatArray) -> FloatArray:
        """(n, d) vectors in the (n, k) coordinates of `reduced_basis`."""
        return in_coordinates(vectors, self.reduced_basis[0])

    # Packed rows.

    def pack(self, codes: IntArray) -> npt.NDArray[np.uint8]:
        """(n, columns) codes to (n, row bytes) packed rows.

        Raises:
            OptionError: the codes are not those of this codec.
        """
        self.check_codes(codes)
        return bitpack.pack(codes, self.spec.widths)

    def unpack(self, packed: npt.NDArray[np.uint8]) -> bitpack.UnsignedArray:
        """(n, row bytes) packed rows to (n, columns) codes.

        Raises:
            StorageError: a value of a position is not below K.
        """
        codes = bitpack.unpack(packed, self.spec.widths)
        if self.spec.has_invalid_codes:
            check_values(codes, self.spec)
        return codes

    def decoder(self, packed: PackedRows) -> CodewordRows:
        """What decodes rows of a table."""
        return CodewordRows(self.spec, self.stored, packed)  # type: ignore[arg-type] # rows are an array here

    def stored_rows(self, packed: PackedRows) -> PackedRows:
        """The rows as they are."""
        return packed

    def row_writer(self) -> RowWriter:
        """What makes the tensors of `row_tensors` of rows that come in chunks."""
        return PlainWriter(self.spec.row_bytes)

    def check_rows(self, rows: PackedRows) -> None:
        """Nothing: rows have nothing beside their codes."""

    def rows_of_equal_length(self, rows: PackedRows) -> Iterable[npt.NDArray[np.uint8]]:
        """All rows: they are equally long."""
        return [np.asarray(rows)]

    def row_tensors(self, rows: PackedRows) -> dict[str, ArrayInFile]:
        """What a file keeps of the rows of a table, by name."""
        return {"codes": cast(ArrayInFile, rows)}

    def rows_of_tensors(self, tensors: Mapping[str, ArrayInFile], count: int) -> PackedRows:
        """The rows of a file; undoes `row_tensors`."""
        return tensors["codes"]

    def _sum_of_largest(self, name: str) -> float:
        """The largest numbers of each leading index of a weight, added up."""
        return float(self._quantized(name).largest.sum(dtype=np.float64))

    def _quantized(self, name: str) -> Quantized:
        return Quantized(self.stored[name], self.stored.get(f"{name}_scale"))


def in_coordinates(vectors: FloatArray, basis: DoubleArray) -> FloatArray:
    """(n, d) vectors times a (d, k) basis of any scale, within reach of a search."""
    unit = float(np.abs(basis).max()) or 1.0
    turned = product(within_reach(vectors * unit), np.asarray(basis / unit, dtype=np.float32))
    return within_reach(turned)


def _named(name: str, value: Quantized) -> dict[str, npt.NDArray[Any]]:
    return {name: value.stored, **({} if value.scale is None else {f"{name}_scale": value.scale})}


def _as_rows(codes: IntArray) -> tuple[npt.NDArray[Any], int]:
    """Integers as the rows of bytes that they lie in, and the bits of each."""
    if codes.dtype.kind != "u" or codes.itemsize > 4:
        codes = codes.astype(np.uint32)
    width = codes.shape[1] * codes.itemsize
    return np.ascontiguousarray(codes).view(np.uint8).reshape(len(codes), width), 8 * codes.itemsize
