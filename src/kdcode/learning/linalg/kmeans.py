"""k-means: Lloyd's algorithm from greedy k-means++ seeds, and in progressively more dimensions."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.codec_torch.nearest import nearest_labels
from kdcode.learning.linalg.label_sums import label_sums
from kdcode.learning.linalg.principal import principal_directions
from kdcode.learning.linalg.products import multiply
from kdcode.learning.ranks import ALONE, Ranks

ROWS_PER_CENTROID = 256
"""More rows than this per centroid hardly move it; larger tables are sampled."""
_ASSIGN_FLOATS = 1 << 19
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


def kmeans(
    vectors: Tensor,
    count: int,
    generator: torch.Generator,
    iterations: int = _ITERATIONS,
    weights: Tensor | None = None,
    *,
    greedy: bool = True,
) -> Tensor:
    """Lloyd's algorithm from k-means++ seeds.

    Args:
        vectors: (N, d), N at least 1.
        count: K; where there are fewer distinct rows, some centroids repeat.
        generator: draws the sample and the seeds, on the CPU.
        iterations: Lloyd steps at most.
        weights: (N,) of the rows in the centroids; all 1 where left out.
        greedy: whether each seed is the best of several that are drawn, which is better, and takes longer.

    Returns:
        (K, d) centroids.
    """
    vectors, weights = sample_rows(vectors, weights, count * ROWS_PER_CENTROID, generator)
    seeds = _seeds(vectors, weights, count, generator, candidates=2 + int(math.log(count)) if greedy else 1)
    centroids, labels = _lloyd(vectors, seeds, weights, iterations)
    return update_centroids(vectors, labels, centroids, weights)


def progressive_kmeans(
    vectors: Tensor, count: int, generator: torch.Generator, weights: Tensor | None = None
) -> Tensor:
    """k-means in the two strongest principal directions first, then in more and more of them.

    In many dimensions at once, k-means stops near where it began. What the strong directions decide first is a better
    start than rows drawn from the table, the more so for residuals, which have no clusters. (Progressive-dimension
    k-means is what faiss's residual quantizers are trained with.)

    Args:
        vectors: (N, d), N at least 1.
        count: K; where there are fewer distinct rows, some centroids repeat.
        generator: draws the sample and the seeds, on the CPU.
        weights: (N,) of the rows in the centroids; all 1 where left out.

    Returns:
        (K, d) centroids.
    """
    vectors, weights = sample_rows(vectors, weights, count * ROWS_PER_CENTROID, generator)
    mean = vectors.mean(dim=0)
    directions = principal_directions(vectors, weights, mean).directions
    rotated = multiply(vectors, directions).sub_(mean @ directions)
    first, *wider = _widths(rotated.shape[1])
    part = rotated[:, :first].contiguous()
    centroids, labels = _lloyd(part, _seeds(part, weights, count, generator), weights, _EARLY)
    memory = rotated.new_empty(len(rotated) * max(wider[:-1], default=0))  # for all parts, each larger than the last
    for width in wider:
        narrow = width < wider[-1]
        part = memory[: len(rotated) * width].view(-1, width).copy_(rotated[:, :width]) if narrow else rotated
        centroids = update_centroids(part, labels, F.pad(centroids, (0, width - centroids.shape[1])), weights)
        centroids, labels = _lloyd(part, centroids, weights, _EARLY if narrow else _LAST)
    centroids = update_centroids(part, labels, centroids, weights)
    return torch.addmm(mean, centroids, directions.t())


def best_kmeans(
    vectors: Tensor, count: int, generator: torch.Generator, weights: Tensor | None = None, *, residual: bool = False
) -> Tensor:
    """(K, d) centroids by the way that suits.

    Vectors may have clusters, which plain k-means is better at; residuals have hardly any. Small tables are clustered
    both ways, and the better one is taken.
    """
    if vectors.shape[1] <= _NARROW:
        return kmeans(vectors, count, generator, weights=weights)
    progressive = progressive_kmeans(vectors, count, generator, weights)
    if len(vectors) * count > (_FEW_RESIDUAL_DISTANCES if residual else _FEW_DISTANCES):
        return progressive

    def error(centroids: Tensor) -> float:
        distances = nearest(vectors, centroids)[1]
        return float(distances.sum() if weights is None else distances @ weights)

    return min(progressive, kmeans(vectors, count, generator, weights=weights), key=error)


def nearest(vectors: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centroid of each row, (N,), and the squared distance to it, (N,); memory bounded by chunks."""
    labels = nearest_labels(vectors, centroids)
    return labels, _distances(vectors, centroids, labels)


def sample_rows(
    vectors: Tensor, weights: Tensor | None, most: int, generator: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    """At most so many rows, drawn without replacement, and their weights."""
    if len(vectors) <= most:
        return vectors, weights
    rows = torch.randperm(len(vectors), generator=generator)[:most].to(vectors.device)
    return vectors[rows], None if weights is None else weights[rows]


def _widths(dim: int) -> list[int]:
    """How many dimensions to look at, one number after another, each a few times the one before."""
    return sorted({round(dim ** ((step + 1) / _WIDTHS)) for step in range(_WIDTHS)})


def _lloyd(vectors: Tensor, centroids: Tensor, weights: Tensor | None, assignments: int) -> tuple[Tensor, Tensor]:
    """Assign and average by turns until no row changes sides, at most so many times.

    Returns:
        (K, d) centroids and the (N,) labels of the rows under these centroids.
    """
    labels = nearest_labels(vectors, centroids)
    for _ in range(assignments - 1):
        centroids = update_centroids(vectors, labels, centroids, weights)
        before, labels = labels, nearest_labels(vectors, centroids)
        if torch.equal(labels, before):
            break
    return centroids, labels


def update_centroids(vectors: Tensor, labels: Tensor, centroids: Tensor, weights: Tensor | None) -> Tensor:
    """(K, d) the means of (N,) labels; centroids without rows move to the rows that are farthest from theirs."""
    return moved_centroids(vectors, labels, centroids, weights, centroid_sums(vectors, labels, len(centroids), weights))


class CentroidSums(NamedTuple):
    """What centroids are moved by: (K, d) the sums of their rows, and (K,) how many these are; both by weight."""

    sums: Tensor
    used: Tensor


def centroid_sums(vectors: Tensor, labels: Tensor, count: int, weights: Tensor | None) -> CentroidSums:
    """The sums of (N, d) rows by their (N,) labels."""
    used = torch.bincount(labels, weights, minlength=count).to(vectors)
    return CentroidSums(label_sums(vectors, labels, count, weights), used)


def moved_centroids(
    vectors: Tensor,
    labels: Tensor,
    centroids: Tensor,
    weights: Tensor | None,
    found: CentroidSums,
    ranks: Ranks = ALONE,
) -> Tensor:
    """What `update_centroids` gives, for sums over the rows of all ranks; each rank gives its own rows."""
    sums, used = found
    means = torch.where(used[:, None] > 0, sums / used.clamp_min(1e-30)[:, None], centroids)
    empty = (used == 0).nonzero().flatten()
    if len(empty):
        missed = _distances(vectors, centroids, labels) * (1 if weights is None else weights)
        farthest = missed.topk(min(len(empty), len(vectors))).indices
        rows = vectors[farthest]
        if not ranks.is_alone:  # the farthest of all, of those that each rank has found
            order = ranks.gather_rows(missed[farthest]).argsort(descending=True, stable=True)
            rows = ranks.gather_rows(rows)[order[: len(empty)]]
        means[empty[: len(rows)]] = rows
    return means


def _distances(vectors: Tensor, centroids: Tensor, labels: Tensor) -> Tensor:
    rows = max(1, _ASSIGN_FLOATS // vectors.shape[1])
    parts = zip(vectors.split(rows), labels.split(rows), strict=True)
    return torch.cat([(part - centroids[label]).square().sum(dim=1) for part, label in parts])


def _seeds(
    vectors: Tensor, weights: Tensor | None, count: int, generator: torch.Generator, candidates: int = 1
) -> Tensor:
    """(K, d) rows by k-means++ (Arthur and Vassilvitskii, 2007), greedy with several candidates.

    Candidates for each seed are drawn in proportion to their squared distance from the seeds before, by weight, and the
    one that lowers the sum of distances most is taken.
    """
    vectors, weights = sample_rows(vectors, weights, count * _SEED_ROWS_PER_CENTROID, generator)
    norms = vectors.square().sum(dim=1)
    distances = torch.full_like(norms, torch.inf)
    shares = torch.ones_like(norms) if weights is None else weights
    seeds = []
    for _ in range(count):
        total = shares.cumsum(dim=0, dtype=torch.float64)
        spots = torch.rand(candidates, generator=generator, dtype=torch.float64).to(total) * total[-1]
        drawn = torch.searchsorted(total, spots).clamp_max_(len(vectors) - 1)
        rows = vectors[drawn]
        to_rows = torch.addmm(norms[drawn, None] + norms, rows, vectors.t(), alpha=-2).clamp_min_(0)  # (candidates, n)
        to_rows = torch.minimum(to_rows, distances, out=to_rows)
        best = 0
        if candidates > 1:
            best = int((to_rows.sum(dim=1) if weights is None else to_rows @ weights).argmin())
        seeds.append(rows[best])
        distances = to_rows[best]
        shares = distances if weights is None else distances * weights
    return torch.stack(seeds)
