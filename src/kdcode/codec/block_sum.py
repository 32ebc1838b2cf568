"""BlockSum: blocks of coordinates, each the sum of its positions' codewords, times an optional basis.

One block is the paper's linear composition and additive quantization; one block per position is product quantization
(PQ); a rotation as basis makes it optimised product quantization (OPQ, Ge et al., 2013).
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray
from kdcode.codec.codec import CodeArray
from kdcode.codec.codewords import CodewordCodec, in_coordinates
from kdcode.codec.quantized import Quantized
from kdcode.codec.spec import BLOCK_SUM
from kdcode.codec.sum_search import SumSearch, nearest_labels

_FEW_DIGITS = 2.0**-100


class BlockSum(CodewordCodec):
    """v = (s_1, …, s_G) B: block g has the coordinates s_g = Σ W^j_{c_j} over its positions j.

    Codewords have the size of the widest block; what stands beyond a narrower one is not read.
    """

    kind: ClassVar[str] = BLOCK_SUM
    scaled_weight: ClassVar[str] = "codebook"

    def _words_of(self, position: int) -> FloatArray:
        """The (K, e) codewords of a position, as float32."""
        stored, scale = self._quantized("codebook")
        return Quantized(stored[position], None if scale is None else scale[position]).values

    def score_tables(self, queries: DoubleArray) -> DoubleArray | None:
        """(D, K, q) dot products of each codeword with its own part of (d, q) queries, which the basis is moved to.

        None where vectors may be so short that float32 has few digits left for them: their dot products are others.
        """
        if self._shortest() < _FEW_DIGITS:
            return None
        seen = queries if self.basis is None else self.basis @ queries
        tables = np.empty((*self.codebook.shape[:2], queries.shape[1]))
        for block in self.spec.blocks:
            for position in range(block.positions.start, block.positions.stop):  # one codebook as float64 at a time
                tables[position] = self._words_of(position)[:, : block.width] @ seen[block.columns]
        return tables

    def rounding_of_dots(self, sizes: DoubleArray) -> DoubleArray:
        """(q,) how far dot products in float32, as sums over codewords, may be from those of decoded vectors.

        Args:
            sizes: (q, d) absolute values of the queries.
        """
        terms = self.spec.code_length + (self.spec.inner_dim if self.spec.basis else 0) + 4
        return np.asarray(terms * 2.0**-23 * (sizes @ self._largest_vector))

    @cached_property
    def _largest_vector(self) -> DoubleArray:
        """(d,) what no number of a decoded vector exceeds, nor any number on the way to it."""
        sums = np.zeros(self.spec.inner_dim)
        for block in self.spec.blocks:
            for position in range(block.positions.start, block.positions.stop):
                sums[block.columns] += np.abs(self._words_of(position)[:, : block.width]).max(axis=0)
        largest = sums if self.basis is None else sums @ np.abs(self.basis.astype(np.float64))
        return np.asarray(largest * (self.stored["scale_levels"].max() if self.spec.scale_bits else 1.0))

    def _reach(self) -> float:
        sums = self._sum_of_largest("codebook")
        basis = self._sum_of_largest("basis") if self.spec.basis else 1.0
        level = float(self.stored["scale_levels"][-1]) if self.spec.scale_bits else 1.0
        return sums * max(basis, 1.0) * max(level, 1.0)

    def _shortest(self) -> float:
        """What no number of a vector exceeds where its row has the least scale; scales of zero aside."""
        basis = self._sum_of_largest("basis") if self.spec.basis else 1.0
        levels = self.stored["scale_levels"] if self.spec.scale_bits else np.ones(1)
        return self._sum_of_largest("codebook") * basis * float(levels[levels > 0].min(initial=np.inf))

    @cached_property
    def reduced_words(self) -> FloatArray:
        """(D, K, k) codewords after the basis, in the coordinates of `reduced`."""
        return np.stack([np.asarray(words @ self.reduced_basis[1], dtype=np.float32) for words in self.codebook])

    def search_codes(self, vectors: FloatArray, beam: int, sweeps: int) -> CodeArray:
        """(n, D) codes of (n, d) vectors, before row scales."""
        if self.basis is not None:
            if not self.spec.is_rotated:  # a projection keeps no distances
                return SumSearch(self.reduced_words).encode(self.reduced(vectors), beam=beam, sweeps=sweeps)
            vectors = in_coordinates(vectors, self.inverse_basis)
        codes = np.empty((len(vectors), self.spec.code_length), dtype=np.int64)
        for block, search in zip(self.spec.blocks, self._searches, strict=True):
            part = vectors[:, block.columns]
            if isinstance(search, SumSearch):
                codes[:, block.positions] = search.encode(part, beam=beam, sweeps=sweeps)
            else:  # one position alone is found exactly
                codes[:, block.positions] = nearest_labels(part, search)[:, None]
        return codes

    @cached_property
    def _searches(self) -> list[SumSearch | FloatArray]:
        """What finds the codes of each block: of one that has a single position its codewords."""
        parts = [self.codebook[block.positions, :, : block.width] for block in self.spec.blocks]
        return [words[0] if len(words) == 1 else SumSearch(words) for words in parts]
