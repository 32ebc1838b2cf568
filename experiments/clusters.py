"""Made-up clusters, and how well codes agree with them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kdcode.learning.gradient.tensors import generator_for


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


def _entropy(counts: np.ndarray) -> float:
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())
