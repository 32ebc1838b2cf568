"""The centroids of a transform codec: whether rows lie in clusters, how many centroids pay, and where they lie.

A row that is measured from the nearest of C centroids has log2 C bits less for its levels, but what is left of it has
less variance. Whether that pays is estimated for several C: by the rate-distortion limit of Gaussian rows that differ
in length, of what is left of some rows. Rows that were not learned from are judged, unless all rows were. Where the
final table has other rows too, the sample that a codec is fitted to is not learned from either: its rows would be
nearer to their centroids than others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.transform.centroids import CENTROID_BITS, Centroids, rounded_centroids, rounded_frequencies
from kdcode.evaluation.rate_distortion import gaussian_limit
from kdcode.learning.linalg.kmeans import kmeans, nearest_labels
from kdcode.learning.planned_table import PlannedTable
from kdcode.learning.transform.rotation import Rotation
from kdcode.learning.transform.sampling import TableSample, mean_weights

_FIRST, _FACTOR, _LEAST, _MOST = 256, 2, 16, 4096
"""Numbers of centroids: the one that is tried first, how far others are apart, and how far they go."""
_FEWEST_ROWS = 16
"""Rows that a centroid is learned from, at least."""
_MOST_SHARE = 0.25
"""Of all bytes, that centroids may take."""
_WORK = 1 << 31
"""Rows times centroids times dimensions, of a round of k-means."""
_ROUNDS = 12
_JUDGED_NUMBERS = 1 << 20
"""Of rows that were not learned from, that centroids are judged by."""
_MOST_DIM = 2048
"""Wider tables, whose spectra take long to find, have none."""
_COVARIANCE_NUMBERS, _ROWS_AT_ONCE = 1 << 25, 4096
"""Of rows that the covariance is found from."""
_WORTH = 0.97
"""The error that is expected with centroids, at most, as a share of that without any."""
_LENGTHS = 32
"""Groups of rows by length, each of which the estimate takes to be Gaussian."""
PRICED_BITS = 4
"""Bits of a number of a centroid, in the estimate."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Where the rows of a table lie.

    Args:
        vectors: (C, d) centroids, from the mean; the one that most rows are near to is first.
        counts: (C,) of the rows that were looked at.
        covariance: (d, d) of what is left of rows, by their weights.
    """

    vectors: FloatArray
    counts: IntArray
    covariance: DoubleArray

    @property
    def bits(self) -> float:
        """Of a row, to name its centroid."""
        return _entropy(self.counts)


class _Tried(NamedTuple):
    """(C, d) centroids, (C,) how many rows each has, and the squared error of a row that is to be expected."""

    vectors: FloatArray
    counts: IntArray
    expected: float


class _Rows(NamedTuple):
    """(n, d) rows, from the mean, and (n,) how much they count."""

    vectors: FloatArray
    weights: DoubleArray


def chosen_clusters(table: PlannedTable, sample: TableSample, rows: int, bits: float, seed: int) -> Clusters | None:
    """The centroids with the least expected error; None where the mean alone does about as well.

    Args:
        table: what is to be compressed, or a sample of it.
        sample: of the same table.
        rows: of the final table, which share what centroids take.
        bits: of a row, all in all.
        seed: of the rows that are looked at.
    """
    order = np.random.default_rng(seed).permutation(len(table))
    is_part = rows > len(table)
    if is_part:
        order = order[~np.isin(order, sample.numbers)]
    dim = table.embedding_dim
    most = min(_MOST, len(order) // _FEWEST_ROWS, int(_MOST_SHARE * bits * rows / (PRICED_BITS * dim)))
    if most < _LEAST or dim > _MOST_DIM:
        return None
    unit = float(np.sqrt(np.trace(sample.covariance) / dim)) or 1.0
    left_out = sample.numbers if is_part else None
    drawn = _Drawn(table, sample.mean, unit, mean_weights(table), order, left_out, rows)
    best: _Tried | None = None
    least = _WORTH * expected_error(drawn.judged(1), bits)
    first = min(_FIRST, 1 << (most.bit_length() - 1))
    for factor in (float(_FACTOR), 1 / _FACTOR):
        count = first if factor > 1 else first // _FACTOR
        while _LEAST <= count <= most:
            found = drawn.tried(count, bits, seed)
            if found is None or found.expected >= least:
                break
            best, least, count = found, found.expected, int(count * factor)
        if best is not None and len(best.vectors) > first:
            break
    if best is None:
        return None
    return Clusters(np.asarray(best.vectors * np.float32(unit)), best.counts, drawn.covariance(best) * unit**2)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Rows of a table in random order, to learn centroids from and to judge these by.

    Args:
        table: of the rows.
        mean: (d,) of the table.
        unit: that vectors are divided by, so that squares are no matter.
        weights: (N,) of its rows, or None.
        order: rows that may be learned from.
        left_out: others, that centroids are judged by; None where all rows may be learned from.
        rows: of the final table.
    """

    table: PlannedTable
    mean: DoubleArray
    unit: float
    weights: DoubleArray | None
    order: IntArray
    left_out: IntArray | None
    rows: int

    def learned(self, count: int) -> int:
        """How many rows so many centroids are learned from."""
        return min(len(self.order), _WORK // (count * len(self.mean)))

    def at(self, chosen: IntArray) -> _Rows:
        """Some rows, in units."""
        chosen = np.sort(chosen)
        vectors = ((self.table.vectors_at(chosen) - self.mean) / self.unit).astype(np.float32)
        return _Rows(vectors, np.ones(len(chosen)) if self.weights is None else self.weights[chosen])

    def judged(self, count: int) -> _Rows:
        """Rows that so many centroids are judged by: all that these are learned from where that is the whole table."""
        if self.left_out is not None:
            return self.at(self.left_out)
        most = max(1024, 2 * len(self.mean), _JUDGED_NUMBERS // len(self.mean))
        learned = self.learned(count)
        if learned == len(self.order) or count == 1:
            return self.at(self.order[:most])
        return self.at(self.order[learned : learned + most] if learned + most < len(self.order) else self.order[-most:])

    def tried(self, count: int, bits: float, seed: int) -> _Tried | None:
        """So many centroids; None where too few rows may be looked at."""
        learned = self.learned(count)
        if learned < _FEWEST_ROWS * count:
            return None
        known, judged = self.at(self.order[:learned]), self.judged(count)
        weights = None if self.weights is None else known.weights.astype(np.float32)
        vectors = kmeans(known.vectors, count, np.random.default_rng(seed), _ROUNDS, weights, greedy=False)
        counts = np.bincount(nearest_labels(known.vectors, vectors), minlength=count)
        used = np.argsort(-counts, kind="stable")[: max(2, int((counts > 0).sum()))]
        vectors, counts = vectors[used], counts[used]
        left = _Rows(judged.vectors - vectors[nearest_labels(judged.vectors, vectors)], judged.weights)
        taken = _entropy(counts) + PRICED_BITS * vectors.size / self.rows
        expected = expected_error(left, bits - taken) if bits > taken else np.inf
        return _Tried(vectors, counts, expected)

    def covariance(self, found: _Tried) -> DoubleArray:
        """(d, d) of what is left of many rows, by their weights."""
        total, weight = np.zeros((len(self.mean),) * 2), 0.0
        many = self.order[: max(1024, _COVARIANCE_NUMBERS // len(self.mean))]
        for start in range(0, len(many), _ROWS_AT_ONCE):
            rows = self.at(many[start : start + _ROWS_AT_ONCE])
            left = rows.vectors - found.vectors[nearest_labels(rows.vectors, found.vectors)]
            total += (left * rows.weights[:, None].astype(np.float32)).T @ left
            weight += float(rows.weights.sum())
        return np.asarray(total / max(weight, 1e-300))


def expected_error(left: _Rows, bits: float) -> float:
    """The squared error of a row that is to be expected of codes of so many bits, for rows like (n, d) given ones.

    Rows of about the same length are taken to be Gaussian, with the same directions for all lengths.
    """
    energies = np.square(left.vectors, dtype=np.float64).sum(axis=1)
    total = float(energies @ left.weights) / len(energies)
    if not total > 0:
        return 0.0
    units = left.vectors / np.sqrt(np.maximum(energies, 1e-9 * energies.mean()))[:, None]
    spectrum = np.linalg.eigvalsh(units.T @ units / len(units)).clip(min=0)
    groups = np.array_split(np.sort(energies * left.weights), min(_LENGTHS, len(energies)))
    scales = np.array([group.mean() for group in groups])
    return gaussian_limit(np.outer(scales, spectrum).reshape(-1), bits * len(scales)) * total


def rotated_centroids(clusters: Clusters, rotation: Rotation, rows: int, bits: float) -> Centroids:
    """Centroids as they are stored, in as many bits a number as lead to the least expected error.

    Args:
        clusters: what they are.
        rotation: that coordinates are of.
        rows: of the final table.
        bits: of a row, all in all.
    """
    turned = rotation.turned(np.asarray(clusters.vectors))
    axes = rotation.turned(rotation.turned(clusters.covariance.astype(np.float32)).T)
    variances = np.diag(axes).astype(np.float64).clip(min=0)
    best: tuple[npt.NDArray[np.uint8], FloatArray, int] | None = None
    least = np.inf
    for width in CENTROID_BITS:
        packed, scales = rounded_centroids(turned.astype(np.float64), width)
        noisy = variances + np.square(scales, dtype=np.float64) / 12
        left = bits - clusters.bits - 8 * packed.nbytes / rows
        expected = gaussian_limit(noisy, left) * noisy.sum()
        if best is None or expected < least:
            best, least = (packed, scales, width), expected
    assert best is not None  # noqa: S101
    packed, scales, width = best
    return Centroids(packed, scales, rounded_frequencies(clusters.counts), width)


def _entropy(counts: IntArray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())
