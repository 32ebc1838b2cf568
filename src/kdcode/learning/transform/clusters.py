"""The centroids of a transform codec: whether rows lie in clusters, how many centroids pay, and where they lie.

A row that is measured from the nearest of C centroids has log2 C bits less for its levels, but what is left of it has
less variance. Whether that pays is estimated for several C: by the rate-distortion limit of Gaussian rows that differ
in length, of what is left of some rows. Rows that were not learned from are judged, unless all rows were. Where the
final table has other rows too, the sample that a codec is fitted to is not learned from either: its rows would be
nearer to their centroids than others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
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
_FIRST_WORK, _WORK = 1 << 29, 1 << 31
"""Rows times centroids times dimensions, of a round of k-means: to judge a number of centroids by, and in the end."""
_FIRST_ROUNDS, _ROUNDS = 6, 12
_JUDGED_NUMBERS = 1 << 20
"""Of rows that were not learned from, that centroids are judged by."""
_MOST_DIM = 2048
"""Wider tables, whose spectra take long to find, have none."""
_COVARIANCE_NUMBERS, _ROWS_AT_ONCE = 1 << 23, 4096
"""Of rows that the covariance is found from."""
_WORTH = 0.97
"""The error that is expected with centroids, at most, as a share of that without any."""
_CLEARLY_BELOW = 0.6
"""Times the limit of a Gaussian, which no code of its rows could come below, where rows lie in clusters. GloVe comes to
0.8 to 0.9 of it."""
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

    def taken_bits(self, rows: int) -> float:
        """What each row spends on centroids."""
        return self.bits + PRICED_BITS * self.vectors.size / rows


class _Rows(NamedTuple):
    """(n, d) rows, from the mean, and (n,) how much they count."""

    vectors: FloatArray
    weights: DoubleArray


class _Tried(NamedTuple):
    """(C, d) centroids, (C,) how many rows each has, and what is left of the rows that they are judged by."""

    vectors: FloatArray
    counts: IntArray
    left: _Rows


class ClusterSearch:
    """The search for centroids of a table; k-means is run once for each number of centroids, whatever the size.

    Args:
        table: what is to be compressed, or a sample of it.
        sample: of the same table.
        rows: of the final table, which share what centroids take.
        seed: of the rows that are looked at.
    """

    def __init__(self, table: PlannedTable, sample: TableSample, rows: int, seed: int) -> None:
        self._table, self._rows, self._seed = table, rows, seed
        self._mean, self._weights = sample.mean, mean_weights(table)
        order = np.random.default_rng(seed).permutation(len(table))
        is_part = rows > len(table)
        self._left_out = sample.numbers if is_part else None
        self._order = order[~np.isin(order, sample.numbers)] if is_part else order
        dim = table.embedding_dim
        # Vectors are divided by this, so that squares are no matter.
        self._unit = float(np.sqrt(np.trace(sample.covariance) / dim)) or 1.0
        self._spectrum = sample.covariance
        self._tried: dict[int, _Tried | None] = {}

    def best(self, bits: float) -> Clusters | None:
        """The centroids with the least expected error; None where the mean alone does about as well.

        Args:
            bits: of a row, all in all.
        """
        dim = self._table.embedding_dim
        most = min(_MOST, len(self._order) // _FEWEST_ROWS, int(_MOST_SHARE * bits * self._rows / (PRICED_BITS * dim)))
        if most < _LEAST or dim > _MOST_DIM:
            return None
        best, least = 0, _WORTH * expected_error(self._without, bits)
        first = min(_FIRST, 1 << (most.bit_length() - 1))
        for factor in (float(_FACTOR), 1 / _FACTOR):
            count = first if factor > 1 else first // _FACTOR
            while _LEAST <= count <= most and (expected := self._expected(count, bits)) < least:
                best, least, count = count, expected, int(count * factor)
            if best > first:
                break
        if not best:
            return None
        found = self._final(best)
        return Clusters(np.asarray(found.vectors * np.float32(self._unit)), found.counts, self._covariance(found))

    @cached_property
    def is_clustered(self) -> bool:
        """Whether the nearest of some centroids says more of a row than any code of as many bits could of a Gaussian's.

        Only centroids that were tried already tell.
        """
        found = next((tried for tried in self._tried.values() if tried is not None), None)
        if found is None:
            return False
        lost, energy = (
            float(np.square(part.vectors).sum(axis=1) @ part.weights) for part in (found.left, self._without)
        )
        spectrum = np.linalg.eigvalsh(self._spectrum).clip(min=0)
        limit = gaussian_limit(spectrum, math.log2(len(found.vectors)))
        of_each = energy / len(self._without.vectors)
        return lost / len(found.left.vectors) < _CLEARLY_BELOW * limit * of_each

    @cached_property
    def _without(self) -> _Rows:
        """What is left of the rows that no centroids at all are judged by."""
        return self._judged(1)

    def _at(self, chosen: IntArray) -> _Rows:
        """Some rows, in units."""
        chosen = np.sort(chosen)
        vectors = ((self._table.vectors_at(chosen) - self._mean) / self._unit).astype(np.float32)
        return _Rows(vectors, np.ones(len(chosen)) if self._weights is None else self._weights[chosen])

    def _learned(self, count: int, work: int) -> int:
        """The number of rows that `count` centroids are learned from."""
        least = min(_FEWEST_ROWS * count, _WORK // (count * len(self._mean)))
        return min(len(self._order), max(least, work // (count * len(self._mean))))

    def _judged(self, count: int) -> _Rows:
        """Rows that so many centroids are judged by: all that these are learned from where that is the whole table."""
        if self._left_out is not None:
            return self._at(self._left_out)
        most = max(1024, 2 * len(self._mean), _JUDGED_NUMBERS // len(self._mean))
        learned = self._learned(count, _FIRST_WORK)
        if learned == len(self._order) or count == 1:
            return self._at(self._order[:most])
        has_more = learned + most < len(self._order)
        return self._at(self._order[learned : learned + most] if has_more else self._order[-most:])

    def _expected(self, count: int, bits: float) -> float:
        """The expected squared error of a row with `count` centroids."""
        if count not in self._tried:
            self._tried[count] = self._clustered(count, _FIRST_WORK, _FIRST_ROUNDS)
        found = self._tried[count]
        if found is None:
            return np.inf
        taken = _entropy(found.counts) + PRICED_BITS * found.vectors.size / self._rows
        return expected_error(found.left, bits - taken) if bits > taken else np.inf

    def _final(self, count: int) -> _Tried:
        """So many centroids, from all rows that there is time for."""
        found = self._clustered(count, _WORK, _ROUNDS)
        assert found is not None  # noqa: S101 - fewer rows were enough
        return found

    def _clustered(self, count: int, work: int, rounds: int) -> _Tried | None:
        """So many centroids; None where too few rows may be looked at."""
        learned = self._learned(count, work)
        if learned < _FEWEST_ROWS * count:
            return None
        known, judged = self._at(self._order[:learned]), self._judged(count)
        weights = None if self._weights is None else known.weights.astype(np.float32)
        centroids = kmeans(known.vectors, count, np.random.default_rng(self._seed), rounds, weights, greedy=False)
        counts = np.bincount(nearest_labels(known.vectors, centroids), minlength=count)
        used = np.argsort(-counts, kind="stable")[: max(2, int((counts > 0).sum()))]
        vectors, counts = centroids[used], counts[used]
        left = judged.vectors - vectors[nearest_labels(judged.vectors, vectors)]
        return _Tried(vectors, counts, _Rows(left, judged.weights))

    def _covariance(self, found: _Tried) -> DoubleArray:
        """(d, d) of what is left of many rows, by their weights."""
        total, weight = np.zeros((len(self._mean),) * 2), 0.0
        many = self._order[: max(1024, _COVARIANCE_NUMBERS // len(self._mean))]
        for start in range(0, len(many), _ROWS_AT_ONCE):
            rows = self._at(many[start : start + _ROWS_AT_ONCE])
            left = rows.vectors - found.vectors[nearest_labels(rows.vectors, found.vectors)]
            total += (left * rows.weights[:, None].astype(np.float32)).T @ left
            weight += float(rows.weights.sum())
        return np.asarray(total / max(weight, 1e-300)) * self._unit**2


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
