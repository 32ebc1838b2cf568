"""CodewordCodec: what codecs have in common whose codes choose among codewords. The core decodes them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.codec import CodeArray, Codec
from kdcode.codec.codeword_rows import CodewordRows
from kdcode.codec.row_scales import length_ratios, nearest_level
from kdcode.codec.sum_search import product, within_reach
from kdcode.stored_array import PackedRows


class CodewordCodec(Codec):
    """A codec with a codebook."""

    def decoder(self, packed: PackedRows) -> CodewordRows:
        """What decodes rows of a table."""
        return CodewordRows(self.spec, self.stored, packed)  # type: ignore[arg-type] # rows are an array here

    def decode(self, codes: IntArray) -> FloatArray:
        """(n, columns) codes to (n, d) vectors.

        Raises:
            StorageError: a code is out of range, or a vector has a number that float32 cannot hold.
        """
        packed, bits = _as_rows(codes)
        return CodewordRows(self.spec, self.stored, packed, (bits, bits)).decode(np.arange(len(codes)))

    def decode_packed(self, packed: npt.NDArray[np.uint8]) -> FloatArray:
        """(n, row bytes) packed rows to (n, d) vectors.

        Raises:
            StorageError: as of `decode`.
        """
        return CodewordRows(self.spec, self.stored, packed).decode(np.arange(len(packed)))

    def compose(self, codes: IntArray) -> FloatArray:
        """(n, D) or (n, columns) codes to (n, d) vectors, before row scales; infinite where float32 ends."""
        packed, bits = _as_rows(codes[:, : self.spec.code_length])
        rows = CodewordRows(replace(self.spec, scale_bits=0), self.stored, packed, (bits, bits))
        vectors = np.empty((len(codes), self.spec.embedding_dim), dtype=np.float32)
        rows.decode_into(np.arange(len(codes)), vectors, finite=False)
        return vectors

    def with_scale_level(self, codes: CodeArray, vectors: FloatArray) -> CodeArray:
        """(n, columns): (n, D) codes with the level that is nearest to the length of (n, d) vectors."""
        if not self.spec.scale_bits:
            return codes
        wanted = np.asarray(vectors, dtype=np.float64) / self.unit  # in units, no vector leaves float32
        levels = nearest_level(length_ratios(wanted, self._in_units.compose(codes)), self.stored["scale_levels"])
        return np.concatenate([codes, levels[:, None]], axis=1)

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


def in_coordinates(vectors: FloatArray, basis: DoubleArray) -> FloatArray:
    """(n, d) vectors times a (d, k) basis of any scale, within reach of a search."""
    unit = float(np.abs(basis).max()) or 1.0
    turned = product(within_reach(vectors * unit), np.asarray(basis / unit, dtype=np.float32))
    return within_reach(turned)


def _as_rows(codes: IntArray) -> tuple[npt.NDArray[Any], int]:
    """Integers as the rows of bytes that they lie in, and the bits of each."""
    if codes.dtype.kind != "u" or codes.itemsize > 4:
        codes = codes.astype(np.uint32)
    width = codes.shape[1] * codes.itemsize
    return np.ascontiguousarray(codes).view(np.uint8).reshape(len(codes), width), 8 * codes.itemsize
