"""Codec: everything that turns codes into vectors and back, with its numbers as they are stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.quantized import Quantized, quantize
from kdcode.codec.row_scales import directions, length_ratios, nearest_level
from kdcode.codec.spec import CodecSpec
from kdcode.errors import OptionError, StorageError

CodeArray = npt.NDArray[np.int64]
Tensors = Mapping[str, npt.NDArray[Any]]
Search = Callable[[Any, FloatArray, int, int], CodeArray]
"""Called with a codec, (n, d) vectors, a beam and sweeps; gives (n, D) codes."""


@dataclass(frozen=True, eq=False)
class Codec(ABC):
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
            with np.errstate(over="ignore"):
                if not np.isfinite(self._quantized(name).values).all():
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
                    stored |= _named(name, quantize(np.asarray(weights[name]), dtype))
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
            changed = Quantized(found.stored, (found.scale * np.float64(factor)).astype(np.float32))
        return replace(self, stored={**self.stored, **_named(self.scaled_weight, changed)})

    @cached_property
    def unit(self) -> float:
        """A power of two near the largest number of `scaled_weight`; squares of numbers far from 1 leave float32."""
        most = float(np.abs(self._quantized(self.scaled_weight).values).max())
        return float(2.0 ** np.round(np.log2(most))) if most > 0 else 1.0

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
        size = self.spec.codebook_size
        if size & (size - 1) and codes.size:
            most = int(codes[:, : self.spec.code_length].max())
            if most >= size:
                raise StorageError(f"codes: found code value {most}, values must be below K={size}")
        return codes

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
        """(n, columns) codes to (n, d) vectors."""
        vectors = self.compose(codes)
        if self.spec.scale_bits:
            vectors *= self.row_scales(codes)[:, None]
        return vectors

    def row_scales(self, codes: IntArray) -> FloatArray:
        """(n,) what multiplies the composed vectors of codes."""
        if not self.spec.scale_bits:
            return np.ones(len(codes), dtype=np.float32)
        levels: FloatArray = self.stored["scale_levels"]
        return levels[codes[:, self.spec.code_length]]

    def encode(
        self, vectors: npt.ArrayLike, *, beam: int = 8, sweeps: int = 4, search: Search | None = None
    ) -> CodeArray:
        """Codes whose vectors are near the given ones in squared distance, found by beam search and ICM sweeps.

        Args:
            vectors: (d,) or (n, d) finite numbers.
            beam: partial codes kept per vector while positions are chosen one after another.
            sweeps: passes that reconsider one position at a time afterwards.
            search: finds (n, D) codes in another way than `search_codes`.

        Returns:
            (columns,) or (n, columns) codes.
        """
        array = checked_vectors(vectors, self.spec.embedding_dim)
        if beam < 1 or sweeps < 0:
            raise OptionError(f"beam must be at least 1 and sweeps at least 0, got {beam} and {sweeps}")
        rows = np.atleast_2d(array)
        wanted = (directions(rows) if self.spec.scale_bits else rows) / np.float32(self.unit)
        codes = (search or type(self).search_codes)(self.scaled(1 / self.unit), wanted, beam, sweeps)
        return self.with_scale_level(codes, rows).reshape(*array.shape[:-1], len(self.spec.widths))

    def with_scale_level(self, codes: CodeArray, vectors: FloatArray) -> CodeArray:
        """(n, columns): (n, D) codes with the level that is nearest to the length of (n, d) vectors."""
        if not self.spec.scale_bits:
            return codes
        levels = nearest_level(length_ratios(vectors, self.compose(codes)), self.stored["scale_levels"])
        return np.concatenate([codes, levels[:, None]], axis=1)

    def search_codes(self, vectors: FloatArray, beam: int, sweeps: int) -> CodeArray:
        """(n, D) codes of (n, d) vectors, before row scales, chunk by chunk."""
        codes = np.empty((len(vectors), self.spec.code_length), dtype=np.int64)
        at_once = self._rows_at_once(beam)
        for start in range(0, len(vectors), at_once):
            codes[start : start + at_once] = self._search(vectors[start : start + at_once], beam, sweeps)
        return codes

    @abstractmethod
    def compose(self, codes: IntArray) -> FloatArray:
        """(n, D) or (n, columns) codes to (n, d) vectors, before row scales."""

    @abstractmethod
    def score_tables(self, queries: DoubleArray) -> DoubleArray | None:
        """(D, K, q) tables whose entries at a code's positions add up to its dot products with (d, q) queries.

        They are those of what `compose` gives, in float64. None where the composition is not a sum over positions.
        """

    @abstractmethod
    def _search(self, vectors: FloatArray, beam: int, sweeps: int) -> CodeArray:
        """(n, D) codes of a chunk of (n, d) vectors."""

    @abstractmethod
    def _rows_at_once(self, beam: int) -> int:
        """Rows that a search works on at a time."""

    def _quantized(self, name: str) -> Quantized:
        return Quantized(self.stored[name], self.stored.get(f"{name}_scale"))


def checked_vectors(vectors: npt.ArrayLike, embedding_dim: int) -> FloatArray:
    """(d,) or (n, d) finite float32 vectors, or a refusal; tensors of any float type and on any device are taken."""
    plain: Any = vectors
    if hasattr(plain, "detach") and hasattr(plain, "cpu"):
        plain = plain.detach().cpu().float()  # numpy takes neither parameters nor bfloat16
    try:
        with np.errstate(over="ignore"):  # what overflows float32 becomes inf and is refused
            array = np.asarray(plain, dtype=np.float32)
    except (TypeError, ValueError):
        raise OptionError(f"expected vectors of {embedding_dim} numbers, got {vectors!r:.200}") from None
    if array.ndim not in (1, 2) or array.shape[-1] != embedding_dim:
        raise OptionError(
            f"expected vectors of shape ({embedding_dim},) or (rows, {embedding_dim}), got shape {array.shape}"
        )
    finite = np.isfinite(np.atleast_2d(array)).all(axis=1)
    if not finite.all():
        row = int(finite.argmin())
        which = "the vector" if array.ndim == 1 else f"row {row} of the vectors"
        others = f", as have {int((~finite).sum()) - 1} more rows" if (~finite).sum() > 1 else ""
        raise OptionError(f"{which} has a value that is not a finite float32{others}; remove the row or repair it")
    return array


def _named(name: str, value: Quantized) -> dict[str, npt.NDArray[Any]]:
    return {name: value.stored, **({} if value.scale is None else {f"{name}_scale": value.scale})}


def _check_tensor(name: str, tensor: npt.NDArray[Any], dtype: str, shape: tuple[int, ...]) -> None:
    if tensor.dtype.name != dtype or tensor.shape != shape:
        raise OptionError(f"{name}: expected {dtype} of shape {shape}, got {tensor.dtype} of shape {tensor.shape}")
    if not np.isfinite(tensor).all():
        raise OptionError(f"{name}: holds values that are not finite")
