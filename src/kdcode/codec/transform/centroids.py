"""Centroids: what the coordinates of each row are measured from, and how its choice among them is coded.

A Gaussian of one covariance says little of rows that lie in clusters. A row names the nearest of C centroids first, in
as many bits as its frequency is worth, and only the difference to it is quantized. Centroids lie in the rotated space,
where their coordinates fall off as those of rows do: each coordinate has a scale of its own, and few bits a number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.errors import OptionError

CENTROID_BITS = (4, 6)
"""Bits that a number of a centroid may have."""
TOTAL = 1 << 15
"""What the frequencies of all centroids add up to."""
MAX_CENTROIDS = 1 << 13
_SMALL, _LARGE = 1e-12, 1e15
"""Squares of numbers beyond these are computed in float64."""
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_AT_ONCE = 1 << 22
"""Distances that are held at a time."""


@dataclass(frozen=True, eq=False)
class Centroids:
    """Centroids, and how often each is named.

    Args:
        packed: (C, bytes) uint8, their numbers in few bits; half of what is possible stands for zero.
        scales: (d,) float32 of the coordinates.
        frequencies: (C,) uint16, how often each is chosen.
        bits: of a number.

    Raises:
        OptionError: frequencies that do not add up, or negative scales.
    """

    packed: npt.NDArray[np.uint8]
    scales: FloatArray
    frequencies: npt.NDArray[np.uint16]
    bits: int

    def __post_init__(self) -> None:
        if not self.frequencies.all():
            raise OptionError("centroid_frequencies: expected numbers of at least 1")
        if int(self.frequencies.sum(dtype=np.int64)) != TOTAL:
            raise OptionError(f"centroid_frequencies: they add up to {self.frequencies.sum()}, expected {TOTAL}")
        if not (self.scales >= 0).all():
            raise OptionError("centroid_scales: expected numbers of at least 0")

    def __len__(self) -> int:
        return len(self.frequencies)

    @property
    def nbytes(self) -> int:
        """Bytes that they take where they are stored."""
        return self.packed.nbytes + self.scales.nbytes + self.frequencies.nbytes

    def blank(self) -> Centroids:
        """As many with the same frequencies, all of them zero."""
        return replace(self, scales=np.zeros_like(self.scales))

    @cached_property
    def vectors(self) -> FloatArray:
        """(C, d) coordinates: float32, or float64 where that cannot hold them."""
        numbers = bitpack.unpack(self.packed, [self.bits] * len(self.scales)).astype(np.int16) - (1 << self.bits >> 1)
        return np.asarray(numbers * self.scales.astype(np.float32 if self.largest <= _FLOAT32_MAX else np.float64))

    @property
    def largest(self) -> float:
        """What no coordinate is larger than."""
        return float(1 << self.bits >> 1) * float(self.scales.max(initial=0))

    @cached_property
    def costs(self) -> DoubleArray:
        """(C,) bits that it takes to name each."""
        return np.asarray(np.log2(TOTAL) - np.log2(self.frequencies.astype(np.float64)))

    def nearest(self, coordinates: FloatArray, trade: float) -> npt.NDArray[np.int64]:
        """(n,) numbers of the centroids with the least squared distance from (n, d) coordinates, plus λ times bits."""
        taken = trade * self.costs
        most = max(float(np.abs(coordinates).max(initial=0)), self.largest, float(np.sqrt(taken.max())))
        dtype = np.dtype(np.float32 if most < _LARGE and self.largest > _SMALL else np.float64)
        vectors = self.vectors.astype(dtype)
        own = (np.square(vectors).sum(axis=1) + taken).astype(dtype)
        found = np.empty(len(coordinates), dtype=np.int64)
        at_once = max(1, _AT_ONCE // len(self))
        for start in range(0, len(coordinates), at_once):
            some = slice(start, start + at_once)
            found[some] = (own - 2 * coordinates[some].astype(dtype, copy=False) @ vectors.T).argmin(axis=1)
        return found


def rounded_centroids(vectors: DoubleArray, bits: int) -> tuple[npt.NDArray[np.uint8], FloatArray]:
    """(C, d) coordinates as packed numbers of `bits` bits, and (d,) their scales."""
    half = 1 << bits >> 1
    scales = np.minimum(np.abs(vectors).max(axis=0) / (half - 1), _FLOAT32_MAX / half).astype(np.float32)
    numbers = np.rint(vectors / np.where(scales > 0, scales, 1)).clip(-half, half - 1).astype(np.int64) + half
    return bitpack.pack(numbers, [bits] * vectors.shape[1]), scales


def rounded_frequencies(counts: IntArray) -> npt.NDArray[np.uint16]:
    """(C,) frequencies of at least 1 that add up to `TOTAL`, near those of (C,) counts; the first is the largest."""
    share = (counts + 0.5) / (counts + 0.5).sum()
    found = np.maximum(1, np.floor(share * (TOTAL - len(counts)))).astype(np.int64)
    found[0] += TOTAL - int(found.sum())
    return np.asarray(found, dtype=np.uint16)
