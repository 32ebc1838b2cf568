"""Codec: everything that turns codes into vectors and back, with its numbers as they are stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import DoubleArray, FloatArray, IntArray, checked_vectors, rows_at_once
from kdcode.codec.quantized import Quantized, quantize
from kdcode.codec.row_forms import RowForms
from kdcode.codec.row_scales import directions
from kdcode.codec.spec import CodecSpec, check_values
from kdcode.codec.sum_search import within_reach
from kdcode.errors import OptionError, StorageError
from kdcode.stored_array import PackedRows

CodeArray = npt.NDArray[np.int64]
Tensors = Mapping[str, npt.NDArray[Any]]
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_SHOWN_POSITIONS = 16


class RowDecoder(Protocol):
    """Packed rows of a table with their codec."""

    def decode(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows in [0, N).

        Raises:
            StorageError: a code is not one of the codec, or the file is damaged.
        """


@dataclass(frozen=True, eq=False)
class Codec(RowForms, ABC):
    """What codes mean: a codebook, a way to compose codewords, and the levels of row scales.

    A code has D columns, one for each position, and one more where rows have scales: the level of the row's scale.
    `decode` takes whole codes and `encode` gives whole codes, so that no caller can forget a scale.

    Args:
        spec: the shape.
        stored: the tensors of `spec.tensor_layout()`, kept as they are.

    Raises:
        OptionError: a tensor is missing, of another type or shape, or has numbers that cannot be.
    """

    kind: ClassVar[str]
    scaled_weight: ClassVar[str]
    """The weight that is multiplied where vectors are to become longer."""

    spec: CodecSpec
    stored: Tensors

    def __post_init__(self) -> None:
        layout = self.spec.tensor_layout()
        for name in [*layout, *self.stored]:
            if name not in self.stored:
                raise OptionError(f"{name}: missing")
            if name not in layout:
                raise OptionError(f"{name}: this tensor does not belong to a {self.spec.composition} codec")
            _check_tensor(name, self.stored[name], *layout[name])
        for name in self.spec.weight_shapes():
            if not np.isfinite(self._quantized(name).largest).all():
                raise OptionError(f"{name}: holds values that are not finite")
        if self.spec.scale_bits:
            levels = self.stored["scale_levels"]
            if (levels < 0).any() or (np.diff(levels) < 0).any():
                raise OptionError("scale_levels: expected numbers of at least 0 that do not fall")

    @classmethod
    def from_weights(cls, spec: CodecSpec, weights: Tensors) -> Self:
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

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """The stored tensors by name; `codec_from_tensors` makes the codec again."""
        return dict(self.stored)

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

    @cached_property
    def may_overflow(self) -> bool:
        """Whether numbers may leave float32 on the way from codewords to a vector, which is then computed in float64.

        Found from the largest number of each codebook and each row of the basis, so that it costs nothing to ask.
        """
        return self._reach() > _FLOAT32_MAX / 2  # half: sums in float32 are rounded

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

    @abstractmethod
    def decode_packed(self, packed: npt.NDArray[np.uint8]) -> FloatArray:
        """(n, row bytes) packed rows to (n, d) vectors.

        Raises:
            StorageError: as of `unpack` and `decode`.
        """

    def decoder(self, packed: PackedRows) -> RowDecoder:
        """What decodes rows of a table."""
        return _PackedDecoder(self, packed)

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
            StorageError: a vector has a number that float32 cannot hold.
        """
        vectors = self.compose(codes)
        return _as_float32(vectors, codes) if self.may_overflow else vectors

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
        """(n, columns): (n, D) codes with the level of the scale of (n, d) vectors, where rows have scales."""
        return codes

    @abstractmethod
    def search_codes(self, vectors: FloatArray, beam: int, sweeps: int) -> CodeArray:
        """(n, D) codes of (n, d) vectors, before row scales."""

    @abstractmethod
    def compose(self, codes: IntArray) -> FloatArray:
        """(n, D) or (n, columns) codes to (n, d) vectors of type `dtype`, before row scales."""

    @abstractmethod
    def _reach(self) -> float:
        """What no number exceeds on the way to a vector; it may be far more than any vector has."""

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

    def _sum_of_largest(self, name: str) -> float:
        """The largest numbers of each leading index of a weight, added up."""
        return float(self._quantized(name).largest.sum(dtype=np.float64))

    def _quantized(self, name: str) -> Quantized:
        return Quantized(self.stored[name], self.stored.get(f"{name}_scale"))


@dataclass(frozen=True, eq=False)
class _PackedDecoder:
    """Decodes rows of a table a few at a time."""

    codec: Codec
    packed: PackedRows

    def decode(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows in [0, N)."""
        spec = self.codec.spec
        vectors = np.empty((len(rows), spec.embedding_dim), dtype=np.float32)
        at_once = rows_at_once(max(spec.row_width, len(spec.widths)))
        for start in range(0, len(rows), at_once):
            vectors[start : start + at_once] = self.codec.decode_packed(self.packed[rows[start : start + at_once]])
        return vectors


def _as_float32(vectors: npt.NDArray[np.floating[Any]], codes: IntArray) -> FloatArray:
    """(n, d) vectors rounded to float32, or a refusal that names the first of (n, columns) codes that overflows."""
    with np.errstate(over="ignore"):
        rounded = vectors.astype(np.float32)
    finite = np.isfinite(rounded).all(axis=1)
    if not finite.all():
        code = "-".join(map(str, codes[int(finite.argmin())][:_SHOWN_POSITIONS]))
        more = "-…" if codes.shape[1] > _SHOWN_POSITIONS else ""
        raise StorageError(f"codes: the vector of code {code}{more} has a number beyond float32, {_FLOAT32_MAX:.4g}")
    return rounded


def _named(name: str, value: Quantized) -> dict[str, npt.NDArray[Any]]:
    return {name: value.stored, **({} if value.scale is None else {f"{name}_scale": value.scale})}


def _check_tensor(name: str, tensor: npt.NDArray[Any], dtype: str, shape: tuple[int, ...]) -> None:
    if tensor.dtype.name != dtype or tensor.shape != shape:
        raise OptionError(f"{name}: expected {dtype} of shape {shape}, got {tensor.dtype} of shape {tensor.shape}")
    if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
        raise OptionError(f"{name}: holds values that are not finite")
