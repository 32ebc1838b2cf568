"""k-means and residual k-means: the warm start."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kdcode.learning.side_by_side import side_by_side

_ROWS_PER_CENTROID = 256
"""More rows than this per centroid hardly move it; larger tables are sampled."""
_ASSIGN_FLOATS = 1 << 20
_CODED_ROWS = 1 << 14
_ITERATIONS = 15
_SEED_ROWS_PER_CENTROID = 32
"""Seeds are drawn one after another, each by a pass over the rows; this many rows are enough to draw from."""


def kmeans(
    vectors: Tensor,
    count: int,
    generator: torch.Generator,
    iterations: int = _ITERATIONS,
    weights: Tensor | None = None,
) -> Tensor:
    """Lloyd's algorithm from k-means++ seeds.

    Args:
        vectors: (N, d), N at least 1.
        count: K; where there are fewer distinct rows, some centroids repeat.
        generator: draws the sample and the seeds, on the CPU.
        iterations: Lloyd steps at most.
        weights: (N,) of the rows in the centroids; all 1 where left out.

    Returns:
        (K, d) centroids.
    """
    vectors, weights = _sample(vectors, weights, count * _ROWS_PER_CENTROID, generator)
    centroids = _seeds(*_sample(vectors, weights, count * _SEED_ROWS_PER_CENTROID, generator), count, generator)
    before: Tensor | None = None
    for _ in range(iterations):
        labels, distances = nearest(vectors, centroids)
        if before is not None and torch.equal(labels, before):
            break
        before = labels
        used = torch.bincount(labels, weights, minlength=count).to(vectors)
        weighted = vectors if weights is None else vectors * weights[:, None]
        sums = torch.zeros_like(centroids).index_add_(0, labels, weighted)
        centroids = torch.where(used[:, None] > 0, sums / used.clamp_min(1e-30)[:, None], centroids)
        empty = (used == 0).nonzero().flatten()
        missed = distances if weights is None else distances * weights
        farthest = missed.topk(min(len(empty), len(vectors))).indices
        centroids[empty[: len(farthest)]] = vectors[farthest]
    return centroids


def nearest(vectors: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centroid of each row, (N,), and the squared distance to it, (N,); memory bounded by chunks."""
    norms = centroids.square().sum(dim=1)
    labels, distances = [], []
    for part in vectors.split(max(1, _ASSIGN_FLOATS // len(centroids))):
        costs = torch.addmm(norms, part, centroids.t(), alpha=-2)
        labels.append(smallest(costs))
        distances.append(costs.gather(1, labels[-1][:, None])[:, 0] + part.square().sum(dim=1))
    return torch.cat(labels), torch.cat(distances).clamp_min(0)


def smallest(costs: Tensor) -> Tensor:
    """(n,) places of the smallest of (n, K); on the CPU by numpy, which is several times quicker than torch."""
    if costs.device.type == "cpu":
        return torch.from_numpy(costs.detach().numpy().argmin(axis=1))
    return costs.argmin(dim=1)


def residual_kmeans(
    vectors: Tensor,
    code_length: int,
    codebook_size: int,
    generator: torch.Generator,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One k-means after another, each on what the ones before left over of a sample of the rows.

    Returns:
        (N, D) codes and (D, K, d) codewords whose sums approximate `vectors`.
    """
    sample, counted = _sample(vectors, weights, codebook_size * _ROWS_PER_CENTROID, generator)
    residual = sample.clone()
    books = []
    for _ in range(code_length):
        books.append(kmeans(residual, codebook_size, generator, weights=counted))
        residual -= books[-1][nearest(residual, books[-1])[0]]
    return _residual_codes(vectors, books), torch.stack(books)


def _residual_codes(vectors: Tensor, books: Sequence[Tensor]) -> Tensor:
    """(N, D): the nearest centroid of each row in the first book, of what is left of it in the second, and so on."""
    codes = torch.empty(len(vectors), len(books), dtype=torch.int64, device=vectors.device)

    def choose(start: int) -> None:
        part = slice(start, start + _CODED_ROWS)
        residual = vectors[part].clone()
        for position, centroids in enumerate(books):
            labels, _ = nearest(residual, centroids)
            residual -= centroids[labels]
            codes[part, position] = labels

    side_by_side(choose, range(0, len(vectors), _CODED_ROWS), vectors.device)
    return codes


def _sample(
    vectors: Tensor, weights: Tensor | None, most: int, generator: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    if len(vectors) <= most:
        return vectors, weights
    rows = torch.randperm(len(vectors), generator=generator)[:most].to(vectors.device)
    return vectors[rows], None if weights is None else weights[rows]


def _seeds(vectors: Tensor, weights: Tensor | None, count: int, generator: torch.Generator) -> Tensor:
    """k-means++: each seed is a row drawn in proportion to its squared distance from the seeds before it, by weight."""
    picked = int(torch.randint(len(vectors), (1,), generator=generator))
    if weights is not None:
        picked = int(torch.multinomial(weights[: 1 << 24].cpu(), 1, generator=generator))
    seeds = [vectors[picked]]
    norms = vectors.square().sum(dim=1)

    def distances_to(seed: Tensor) -> Tensor:
        return torch.addmv(norms + seed.square().sum(), vectors, seed, alpha=-2).clamp_min_(0)

    distances = distances_to(seeds[0])
    for _ in range(count - 1):
        # inverse-CDF sampling: multinomial takes at most 2^24 rows
        total = (distances if weights is None else distances * weights).cumsum(dim=0, dtype=torch.float64)
        spot = float(torch.rand(1, generator=generator)) * float(total[-1])
        picked = min(int(torch.searchsorted(total, spot)), len(vectors) - 1)
        seeds.append(vectors[picked])
        distances = torch.minimum(distances, distances_to(seeds[-1]))
    return torch.stack(seeds)
