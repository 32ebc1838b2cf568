"""Rows of small integers with a scale each, as tables are often served: of all coordinates, or the strongest ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode.arrays import CHUNK_ROWS, FloatArray

_SCALE_BYTES = _BASIS_BYTES = 2
"""Scales, means and directions are float16."""


_LEAST = float(np.finfo(np.float16).smallest_subnormal)


class IntegerRows(NamedTuple):
    """A table in small integers.

    Args:
        integers: (N, kept) numbers.
        scales: (N, 1) float16, what they are multiplied by.
        basis: (kept, d) directions, or None where all coordinates are kept as they are.
        mean: (d,) what is added; zero where all coordinates are kept.
        unit: what everything is multiplied by, so that float16 can hold it.
    """

    integers: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float16]
    basis: FloatArray | None
    mean: FloatArray
    unit: float

    def decode(self) -> FloatArray:
        """(N, d) the table as it comes back."""
        found = np.empty((len(self.integers), len(self.mean)), dtype=np.float32)
        for rows in _slices(len(found)):
            short = self.integers[rows] * self.scales[rows].astype(np.float32)
            found[rows] = (short if self.basis is None else short @ self.basis) + self.mean
        found *= np.float32(self.unit)
        return found


def fitting_directions(rows: int, dim: int, bits: int, most: int) -> tuple[int, int] | None:
    """The coordinates of an N x d table that fit into `most` bytes, and their bytes; None for none.

    All coordinates take no more than their integers and a float16 scale for each row. Fewer are the principal ones,
    whose directions and mean take float16 numbers, too.
    """
    whole = rows * (-(-dim * bits // 8) + _SCALE_BYTES)
    if whole <= most:
        return dim, whole
    for kept in range(dim - 1, 0, -1):
        size = rows * (-(-kept * bits // 8) + _SCALE_BYTES) + _BASIS_BYTES * dim * (kept + 1)
        if size <= most:
            return kept, size
    return None


def integer_rows(vectors: npt.NDArray[Any], bits: int, kept: int) -> IntegerRows:
    """Make a table of integers from −2^(bits−1) + 1 to 2^(bits−1) − 1, the largest of each row at the end of the range.

    Args:
        vectors: (N, d) numbers of any real type.
        bits: of an integer, at most 8.
        kept: how many principal directions are kept; d for all coordinates as they are.
    """
    unit = float(max((np.abs(vectors[rows]).max() for rows in _slices(len(vectors))), default=0)) or 1.0
    mean, basis = _principal(vectors, kept, unit)
    top = 2 ** (bits - 1) - 1
    integers = np.empty((len(vectors), kept), dtype=np.int8)
    scales = np.empty((len(vectors), 1), dtype=np.float16)
    for rows in _slices(len(vectors)):
        centred = vectors[rows].astype(np.float32) / np.float32(unit) - mean
        short = centred if basis is None else centred @ basis.T
        scales[rows] = np.maximum(np.abs(short).max(axis=1, keepdims=True) / top, _LEAST)
        integers[rows] = np.clip(np.rint(short / scales[rows].astype(np.float32)), -top, top)
    return IntegerRows(integers, scales, basis, mean, unit)


def _principal(vectors: npt.NDArray[Any], kept: int, unit: float) -> tuple[FloatArray, FloatArray | None]:
    """The mean and the (kept, d) strongest directions, as float16 keeps them; no directions where all are kept."""
    dim = vectors.shape[1]
    if kept == dim:
        return np.zeros(dim, dtype=np.float32), None
    total, scatter = np.zeros(dim), np.zeros((dim, dim))
    for rows in _slices(len(vectors)):
        total += (vectors[rows].astype(np.float64) / unit).sum(axis=0)
    mean = (total / len(vectors)).astype(np.float16).astype(np.float32)
    for rows in _slices(len(vectors)):
        centred = vectors[rows].astype(np.float64) / unit - mean
        scatter += centred.T @ centred
    directions = np.linalg.eigh(scatter)[1][:, ::-1][:, :kept].T
    return mean, directions.astype(np.float16).astype(np.float32)


def _slices(rows: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK_ROWS) for start in range(0, rows, CHUNK_ROWS))
