"""The rotation of a transform codec: how many principal directions are worth what they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray
from kdcode.codec.transform.rotation import (
    exact_reflections,
    packed_shape,
    product,
    reflected,
    reflection_vectors,
    rounded_reflections,
)
from kdcode.codec.transform.spec import MAX_ROTATED
from kdcode.evaluation.rate_distortion import gaussian_limit

_SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of all directions that are tried."""
_ROUNDING = 0.0115
"""Squared error of rounding a reflection, relative to its numbers."""


@dataclass(frozen=True, eq=False)
class Rotation:
    """What vectors become before they are quantized.

    Args:
        tensors: `mean`, and `reflections` with their scales where there are any.
        reflections: how many.
    """

    tensors: dict[str, npt.NDArray[Any]]
    reflections: int = 0

    @property
    def dim(self) -> int:
        """The dimension d of the vectors."""
        return len(self.tensors["mean"])

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, the mean among them."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def rotated(self, vectors: FloatArray) -> FloatArray:
        """(n, d) vectors to (n, d) coordinates."""
        return self.turned(vectors - self.tensors["mean"])

    def turned(self, vectors: FloatArray) -> FloatArray:
        """The same of (n, d) vectors that are given from the mean."""
        if not self.reflections:
            return np.asarray(vectors)
        packed, scales = (self.tensors[name] for name in ("reflections", "reflection_scale"))
        return np.asarray(vectors @ product(reflection_vectors(packed, scales, self.dim), np.float32))


def chosen_rotation(mean: DoubleArray, covariance: DoubleArray, rows: int, bits: float) -> Rotation:
    """The rotation with the lowest expected error of a table of N rows that take `bits` each, all in all.

    Args:
        mean: (d,) of the rows.
        covariance: (d, d).
        rows: N, that share what the rotation takes.
        bits: of a row.
    """
    dim = len(mean)
    tensors = {"mean": mean.astype(np.float32)}
    best, least = Rotation(tensors), gaussian_limit(np.diag(covariance), bits)
    if dim == 1 or dim > MAX_ROTATED or not np.trace(covariance) > 0:
        return best
    directions = np.linalg.eigh(covariance)[1][:, ::-1]
    counts = sorted({min(dim - 1, max(1, round(share * dim))) for share in _SHARES})
    vectors = exact_reflections(directions[:, : counts[-1]])
    turned: npt.NDArray[np.floating] = covariance
    before = 0
    for count in counts:
        for _ in range(2):  # its rows, then its columns
            turned = reflected(turned, vectors[before:count]).T
        variances, before = np.diag(turned), count
        taken = 8 * np.prod(packed_shape(count, dim)) + 32 * count
        rounded = variances + 2 * _ROUNDING * variances.mean()
        expected = gaussian_limit(rounded, bits - float(taken) / rows) if taken < 0.5 * bits * rows else 1.0
        if expected < least:
            best, least = Rotation(tensors, count), expected
    if not best.reflections:
        return best
    packed, scales = rounded_reflections(directions[:, : best.reflections])
    return Rotation({**tensors, "reflections": packed, "reflection_scale": scales}, best.reflections)
