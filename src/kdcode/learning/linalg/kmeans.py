"""k-means: Lloyd's algorithm from greedy k-means++ seeds, and in progressively more dimensions.

The core finds the nearest centroids and adds rows up, in one order of sums: results are the same for any number of
threads and any instruction set.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode import _core
from kdcode.arrays import FloatArray, IntArray
from kdcode.learning.linalg.principal import multiply, principal_directions
from kdcode.learning.ranks import ALONE, Ranks
from kdcode.threads import parallel_chunks

ROWS_PER_CENTROID = 256
"""More rows than this per centroid hardly move it; larger tables are sampled."""
_CHUNK_FLOATS = 1 << 19
_WORK = 1 << 26
"""Multiplications of one call of the core."""
_ITERATIONS = 15
_WIDTHS = 10
_EARLY, _LAST = 2, 5
"""Assignments in few dimensions, and in all of them."""
_NARROW = 8
"""Dimensions that are few enough to begin with."""
_FEW_DISTANCES, _FEW_RESIDUAL_DISTANCES = 1 << 20, 1 << 17
"""Rows times centroids up to which k-means is cheap enough to be tried in two ways, for vectors and for residuals."""
_SEED_ROWS_PER_CENTROID = 32
"""Seeds are drawn one after another, each by a pass over the rows; this many rows are enough to draw from."""
_PARALLEL_FLOATS = 1 << 20
"""Numbers from which sums by label are split among threads, and the pieces they are split into."""
_PIECES = 8
_NO_WEIGHTS = np.empty(0, dtype=np.float32)

Labels = npt.NDArray[np.int64]


def nearest_labels(vectors: FloatArray, centroids: FloatArray) -> Labels:
    """(N,) the nearest of (K, d) centroids for each of (N, d) rows."""
    vectors, centroids = np.ascontiguousarray(vectors), np.ascontiguousarray(centroids)
    labels = np.empty(len(vectors), dtype=np.int64)
    rows = max(256, _WORK // max(1, centroids.size))

    def assign(start: int) -> None:
        part = slice(start, start + rows)
        _core.nearest(vectors[part], centroids, labels[part])

    parallel_chunks(assign, range(0, len(vectors), rows))
    return labels


def nearest(vectors: FloatArray, centroids: FloatArray) -> tuple[Labels, FloatArray]:
    """The nearest centroid of each row, (N,), and the squared distance to it, (N,)."""
    labels = nearest_labels(vectors, centroids)
    return labels, _distances(vectors, centroids, labels)


def kmeans(
    vectors: FloatArray,
    count: int,
    random: np.random.Generator,
    iterations: int = _ITERATIONS,
    weights: FloatArray | None = None,
    *,
    greedy: bool = True,
) -> FloatArray:
    """Lloyd's algorithm from k-means++ seeds.

    Args:
        vectors: (N, d) float32, N at least 1.
        count: K; where there are fewer distinct rows, some centroids repeat.
        random: draws the sample and the seeds.
        iterations: Lloyd steps at most.
        weights: (N,) float32 of the rows in the centroids; all 1 where left out.
        greedy: whether each seed is the best of several that are drawn, which is better, and takes longer.

    Returns:
        (K, d) centroids.
    """
    vectors, weights = sample_rows(vectors, weights, count * ROWS_PER_CENTROID, random)
    seeds = _seeds(vectors, weights, count, random, candidates=2 + int(math.log(count)) if greedy else 1)
    centroids, labels = _lloyd(vectors, seeds, weights, iterations)
    return update_centroids(vectors, labels, centroids, weights)


def progressive_kmeans(
    vectors: FloatArray, count: int, random: np.random.Generator, weights: FloatArray | None = None
) -> FloatArray:
    """k-means in the two strongest principal directions first, then in more and more of them.

    In many dimensions at once, k-means stops near where it began. What the strong directions decide first is a better
    start than rows drawn from the table, the more so for residuals, which have no clusters. (Progressive-dimension
    k-means is what faiss's residual quantizers are trained with.)

    Args:
        vectors: (N, d), N at least 1.
        count: K; where there are fewer distinct rows, some centroids repeat.
        random: draws the sample and the seeds.
        weights: (N,) of the rows in the centroids; all 1 where left out.

    Returns:
        (K, d) centroids.
    """
    vectors, weights = sample_rows(vectors, weights, count * ROWS_PER_CENTROID, random)
    mean = vectors.mean(axis=0)
    directions = principal_directions(vectors, weights, mean).directions
    rotated = multiply(vectors, directions)
    rotated -= mean @ directions
    first, *wider = _widths(rotated.shape[1])
    part = np.ascontiguousarray(rotated[:, :first])
    centroids, labels = _lloyd(part, _seeds(part, weights, count, random), weights, _EARLY)
    memory = np.empty(len(rotated) * max(wider[:-1], default=0), np.float32)  # for all parts, each larger than the last
    for width in wider:
        narrow = width < wider[-1]
        if narrow:
            part = memory[: len(rotated) * width].reshape(-1, width)
            part[:] = rotated[:, :width]
        else:
            part = rotated
        padded = np.pad(centroids, ((0, 0), (0, width - centroids.shape[1])))
        centroids = update_centroids(part, labels, padded, weights)
        centroids, labels = _lloyd(part, centroids, weights, _EARLY if narrow else _LAST)
    centroids = update_centroids(part, labels, centroids, weights)
    return np.asarray(mean + centroids @ directions.T)


def best_kmeans(
    vectors: FloatArray,
    count: int,
    random: np.random.Generator,
    weights: FloatArray | None = None,
    *,
    residual: bool = False,
) -> FloatArray:
    """(K, d) centroids by the way that suits.

    Vectors may have clusters, which plain k-means is better at; residuals have hardly any. Small tables are clustered
    both ways, and the better one is taken.
    """
    if vectors.shape[1] <= _NARROW:
        return kmeans(vectors, count, random, weights=weights)
    progressive = progressive_kmeans(vectors, count, random, weights)
    if len(vectors) * count > (_FEW_RESIDUAL_DISTANCES if residual else _FEW_DISTANCES):
        return progressive

    def error(centroids: FloatArray) -> float:
        distances = nearest(vectors, centroids)[1]
        return float(distances.sum() if weights is None else distances @ weights)

    return min(progressive, kmeans(vectors, count, random, weights=weights), key=error)


def sample_rows(
    vectors: FloatArray, weights: FloatArray | None, most: int, random: np.random.Generator
) -> tuple[FloatArray, FloatArray | None]:
    """At most so many rows, drawn without replacement, and their weights."""
    if len(vectors) <= most:
        return vectors, weights
    rows = random.permutation(len(vectors))[:most]
    return vectors[rows], None if weights is None else weights[rows]


def label_sums(vectors: FloatArray, labels: IntArray, count: int, weights: FloatArray | None = None) -> FloatArray:
    """(count, d): for each of (n,) labels below `count` the sum of its rows in their order, by weight."""
    sums = np.zeros((count, vectors.shape[1]), dtype=np.float32)
    vectors, labels = np.ascontiguousarray(vectors), np.ascontiguousarray(labels)[:, None]
    counted = _NO_WEIGHTS if weights is None else np.ascontiguousarray(weights, dtype=np.float32)
    pieces = min(count, _PIECES if vectors.size >= _PARALLEL_FLOATS else 1)

    def add_up(piece: int) -> None:  # every piece looks at all labels, and adds its own
        first, end = (count * number // pieces for number in (piece, piece + 1))
        _core.add_rows(vectors, labels, 0, counted, first, sums[first:end])

    parallel_chunks(add_up, range(pieces))
    return sums


class CentroidSums(NamedTuple):
    """What centroids are moved by: (K, d) the sums of their rows, and (K,) how many these are; both by weight."""

    sums: FloatArray
    used: FloatArray


def centroid_sums(vectors: FloatArray, labels: IntArray, count: int, weights: FloatArray | None) -> CentroidSums:
    """The sums of (N, d) rows by their (N,) labels."""
    used = np.bincount(labels, weights, minlength=count).astype(np.float32)
    return CentroidSums(label_sums(vectors, labels, count, weights), used)


def update_centroids(
    vectors: FloatArray, labels: IntArray, centroids: FloatArray, weights: FloatArray | None
) -> FloatArray:
    """(K, d) the means of (N,) labels; centroids without rows move to the rows that are farthest from theirs."""
    return moved_centroids(vectors, labels, centroids, weights, centroid_sums(vectors, labels, len(centroids), weights))


def moved_centroids(
    vectors: FloatArray,
    labels: IntArray,
    centroids: FloatArray,
    weights: FloatArray | None,
    found: CentroidSums,
    ranks: Ranks = ALONE,
) -> FloatArray:
    """What `update_centroids` gives, for sums over the rows of all ranks; each rank gives its own rows."""
    sums, used = found
    means = np.where(used[:, None] > 0, sums / np.maximum(used, 1e-30)[:, None], centroids)
    empty = np.flatnonzero(used == 0)
    if len(empty):
        missed = _distances(vectors, centroids, labels) * (1 if weights is None else weights)
        farthest = np.argsort(-missed, kind="stable")[: len(empty)]
        rows = vectors[farthest]
        if not ranks.is_alone:  # the farthest of all, of those that each rank has found
            order = np.argsort(-ranks.gather_rows(missed[farthest]), kind="stable")
            rows = ranks.gather_rows(rows)[order[: len(empty)]]
        means[empty[: len(rows)]] = rows
    return means


def _widths(dim: int) -> list[int]:
    """How many dimensions to look at, one number after another, each a few times the one before."""
    return sorted({round(dim ** ((step + 1) / _WIDTHS)) for step in range(_WIDTHS)})


def _lloyd(
    vectors: FloatArray, centroids: FloatArray, weights: FloatArray | None, assignments: int
) -> tuple[FloatArray, Labels]:
    """Assign and average by turns until no row changes sides, at most `assignments` times.

    Returns:
        (K, d) centroids and the (N,) labels of the rows under these centroids.
    """
    labels = nearest_labels(vectors, centroids)
    for _ in range(assignments - 1):
        centroids = update_centroids(vectors, labels, centroids, weights)
        before, labels = labels, nearest_labels(vectors, centroids)
        if np.array_equal(labels, before):
            break
    return centroids, labels


def _distances(vectors: FloatArray, centroids: FloatArray, labels: IntArray) -> FloatArray:
    """(N,) squared distances of rows from the centroids of their labels."""
    found = np.empty(len(vectors), dtype=np.float32)
    rows = max(1, _CHUNK_FLOATS // vectors.shape[1])
    for start in range(0, len(vectors), rows):
        part = slice(start, start + rows)
        left = vectors[part] - centroids[labels[part]]
        np.einsum("nd,nd->n", left, left, out=found[part])
    return found


def _seeds(
    vectors: FloatArray,
    weights: FloatArray | None,
    count: int,
    random: np.random.Generator,
    candidates: int = 1,
) -> FloatArray:
    """(K, d) rows by k-means++ (Arthur and Vassilvitskii, 2007), greedy with several candidates.

    Candidates for each seed are drawn in proportion to their squared distance from the seeds before, by weight, and the
    one that lowers the sum of distances most is taken.
    """
    vectors, weights = sample_rows(vectors, weights, count * _SEED_ROWS_PER_CENTROID, random)
    norms = np.einsum("nd,nd->n", vectors, vectors)
    distances = np.full(len(vectors), np.inf, dtype=np.float32)
    shares = np.ones(len(vectors), dtype=np.float32) if weights is None else weights
    seeds = np.empty((count, vectors.shape[1]), dtype=np.float32)
    for number in range(count):
        total = np.cumsum(shares, dtype=np.float64)
        drawn = np.searchsorted(total, random.random(candidates) * total[-1]).clip(max=len(vectors) - 1)
        rows = vectors[drawn]
        to_rows = rows @ vectors.T  # (candidates, n)
        to_rows *= -2
        to_rows += norms[drawn, None]
        to_rows += norms
        np.clip(to_rows, 0, distances, out=to_rows)
        best = 0
        if candidates > 1:
            best = int((to_rows.sum(axis=1) if weights is None else to_rows @ weights).argmin())
        seeds[number] = rows[best]
        distances = to_rows[best]
        shares = distances if weights is None else distances * weights
    return seeds
