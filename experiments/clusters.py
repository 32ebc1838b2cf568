"""Made-up clusters, how well codes agree with them, and k-means from greedy seeds."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from kdcode.learning.kmeans import nearest
from kdcode.learning.randomness import generator_for


def clustered_points(count: int, clusters: int, dim: int, spread: float, seed: int) -> tuple[Tensor, Tensor]:
    """Points of equally many for each cluster, around centres drawn from a normal distribution of variance 1.

    Args:
        count: N.
        clusters: how many centres.
        dim: d.
        spread: standard deviation of the points around their centre, in each dimension.
        seed: of centres and points.

    Returns:
        (N, d) points and the (N,) cluster of each.
    """
    generator = generator_for(seed, "clusters")
    centres = torch.randn(clusters, dim, generator=generator)
    labels = torch.arange(count) % clusters
    return centres[labels] + spread * torch.randn(count, dim, generator=generator), labels


def closest_centres(points: Tensor, labels: Tensor) -> float:
    """Distance between the two clusters whose means are closest to each other."""
    means = torch.stack([points[labels == label].mean(dim=0) for label in labels.unique()])
    return float(torch.pdist(means).min())


def mutual_information(first: Tensor, second: Tensor) -> float:
    """Normalised mutual information of two (N,) labellings: I(A; B) over the mean of H(A) and H(B), from 0 to 1."""
    size = int(second.max()) + 1
    both = np.unique((first.long() * size + second.long()).numpy(), return_counts=True)[1]
    entropies = [_entropy(np.unique(labels.numpy(), return_counts=True)[1]) for labels in (first, second)]
    total = sum(entropies)
    if total == 0:  # one group on each side: they agree, with nothing to tell
        return 1.0
    return 2 * (total - _entropy(both)) / total


def greedy_kmeans(points: Tensor, count: int, generator: torch.Generator, iterations: int = 15) -> Tensor:
    """Lloyd's algorithm from greedy k-means++ seeds: each seed is the best of 2 + ln K rows drawn.

    `kdcode.learning.kmeans` draws one row per seed. The last clusters without a seed are then missed often, because
    the many rows near seeds weigh more together than the few far ones.

    Args:
        points: (N, d).
        count: K.
        generator: draws the rows.
        iterations: Lloyd steps at most.

    Returns:
        (K, d) centroids.
    """
    centroids = _greedy_seeds(points, count, generator)
    for _ in range(iterations):
        labels, _ = nearest(points, centroids)
        used = torch.bincount(labels, minlength=count)
        sums = torch.zeros_like(centroids).index_add_(0, labels, points)
        centroids = torch.where(used[:, None] > 0, sums / used.clamp_min(1)[:, None], centroids)
    return centroids


def _greedy_seeds(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    trials = 2 + int(math.log(count))
    seeds = points[torch.randint(len(points), (1,), generator=generator)]
    distances = (points - seeds).square().sum(dim=1)
    for _ in range(count - 1):
        total = distances.cumsum(dim=0, dtype=torch.float64)
        spots = torch.rand(trials, generator=generator, dtype=torch.float64) * total[-1]
        drawn = points[torch.searchsorted(total, spots).clamp_max(len(points) - 1)]
        left = torch.minimum(torch.cdist(drawn, points).square(), distances)
        best = int(left.sum(dim=1).argmin())
        seeds, distances = torch.cat([seeds, drawn[best : best + 1]]), left[best]
    return seeds


def _entropy(counts: np.ndarray) -> float:
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())
