"""The rate-distortion limit of a Gaussian: the least error that codes can have with a number of bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kdcode.arrays import CHUNK_ROWS, DoubleArray
from kdcode.evaluation.matching import Table


def gaussian_limit(variances: npt.ArrayLike, bits_per_row: float) -> float:
    """The relative squared error that codes of Gaussian rows cannot fall below, by reverse water-filling.

    Directions with more variance than θ are coded to an error of θ each, at log₂(variance / θ) / 2 bits, the others
    not at all; θ, the water level, is where the bits are used up (Cover and Thomas, "Elements of Information Theory",
    10.3). Codes come near it only for many rows at a time. It is the limit of a Gaussian: of all distributions with
    these variances the hardest to code, so that a table of another shape may be coded with less error.

    Args:
        variances: (d,) of the principal directions, in any order and unit: the eigenvalues of a covariance.
        bits_per_row: how long a code is.

    Returns:
        the error relative to the sum of the variances: 1 for no bits; 0 where there is no variance.
    """
    given = np.asarray(variances, dtype=np.float64).clip(min=0)
    total = float(given.sum())
    return float(np.minimum(given, water_level(given, bits_per_row)).sum()) / total if total else 0.0


def water_level(variances: npt.ArrayLike, bits_per_row: float) -> float:
    """θ of `gaussian_limit`: the squared error of every direction that is coded at all, in the variances' unit."""
    given = np.sort(np.asarray(variances, dtype=np.float64).clip(min=0))[::-1]
    found = given[given > 0]
    if not len(found):
        return 0.0
    counts = np.arange(1, len(found) + 1)
    # The level if the m strongest directions are coded: they have Σ log₂(variance / θ) / 2 = bits.
    levels = (np.cumsum(np.log2(found)) - 2 * max(0.0, bits_per_row)) / counts
    coded = int(counts[levels <= np.log2(found)][-1])
    return float(np.exp2(levels[coded - 1]))


def principal_variances(table: Table) -> DoubleArray:
    """(d,) variances of a table in its principal directions, largest first: the spectrum of its covariance."""
    total = np.zeros(table.embedding_dim)
    for _, rows in table.chunks(CHUNK_ROWS):
        total += rows.astype(np.float64).sum(axis=0)
    mean = total / len(table)
    scatter = np.zeros((len(mean), len(mean)))
    for _, rows in table.chunks(CHUNK_ROWS):
        centred = rows.astype(np.float64) - mean
        scatter += centred.T @ centred
    return np.linalg.eigvalsh(scatter / len(table))[::-1].clip(min=0)
