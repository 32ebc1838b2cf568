"""k-means and residual k-means: the warm start."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.learning.label_sums import label_sums

_ROWS_PER_CENTROID = 256
"""More rows than this per centroid hardly move it; larger tables are sampled."""
_ASSIGN_FLOATS = 1 << 20
_CODED_ROWS = 1 << 12
_ITERATIONS = 15
_WIDTHS = 10
_EARLY, _LAST = 2, 5
"""Steps in few directions, and in all of them."""
_NARROW = 8
"""Directions that are few enough to begin with."""
_FEW_DISTANCES = 1 << 17
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
    return _lloyd(vectors, _drawn_seeds(vectors, weights, count, generator), weights, iterations)[0]


def kmeans_by_width(vectors: Tensor, count: int, generator: torch.Generator, weights: Tensor | None = None) -> Tensor:
    """k-means in the two strongest principal directions first, then in more and more of them.

    In many directions at once, k-means stops near where it began. What the strong directions decide first is a better
    beginning than rows drawn from the table, the more so for what other codewords have left over, which has no
    clusters.

    Args:
        vectors: (N, d), N at least 1.
        count: K; where there are fewer distinct rows, some centroids repeat.
        generator: draws the sample and the seeds, on the CPU.
        weights: (N,) of the rows in the centroids; all 1 where left out.

    Returns:
        (K, d) centroids.
    """
    vectors, weights = _sample(vectors, weights, count * _ROWS_PER_CENTROID, generator)
    mean = vectors.mean(dim=0)
    weighted = vectors if weights is None else vectors * weights[:, None]
    meeting = weighted.t() @ vectors - torch.outer(weighted.sum(dim=0), mean)
    directions = torch.linalg.eigh((meeting + meeting.t()) / 2).eigenvectors.flip(1)
    turned = (vectors @ directions).sub_(mean @ directions)
    first, *wider = _widths(vectors.shape[1])
    part = turned[:, :first].contiguous()
    centroids, labels = _lloyd(part, _drawn_seeds(part, weights, count, generator), weights, _EARLY)
    memory = turned.new_empty(len(turned) * max(wider[:-1], default=0))  # of all parts, each of which is larger
    for width in wider:
        narrow = width < wider[-1]
        part = memory[: len(turned) * width].view(-1, width).copy_(turned[:, :width]) if narrow else turned
        centroids, _ = _means(part, labels, F.pad(centroids, (0, width - centroids.shape[1])), weights)
        centroids, labels = _lloyd(part, centroids, weights, _EARLY if narrow else _LAST)
    return torch.addmm(mean, centroids, directions.t())


def _widths(dim: int) -> list[int]:
    """How many directions to look at, one number after another, each a few times the one before."""
    return sorted({round(dim ** ((step + 1) / _WIDTHS)) for step in range(_WIDTHS)})


def _lloyd(vectors: Tensor, centroids: Tensor, weights: Tensor | None, iterations: int) -> tuple[Tensor, Tensor]:
    """Steps until no row changes sides, or so many are done: (K, d) centroids and the (N,) labels before the last."""
    labels = _labels(vectors, centroids)
    for number in range(iterations):
        before, old = labels, centroids
        centroids, used = _means(vectors, labels, old, weights)
        empty = (used == 0).nonzero().flatten()
        if len(empty):
            missed = _distances(vectors, old, labels) * (1 if weights is None else weights)
            farthest = missed.topk(min(len(empty), len(vectors))).indices
            centroids[empty[: len(farthest)]] = vectors[farthest]
        if number == iterations - 1:
            break
        labels = _labels(vectors, centroids)
        if torch.equal(labels, before):
            break
    return centroids, labels


def _means(vectors: Tensor, labels: Tensor, before: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """(K, d) means of the rows of each label, by weight, those before where it has none; and the (K,) rows' weight."""
    used = torch.bincount(labels, weights, minlength=len(before)).to(vectors)
    sums = label_sums(vectors, labels, len(before), weights)
    return torch.where(used[:, None] > 0, sums / used.clamp_min(1e-30)[:, None], before), used


def nearest(vectors: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centroid of each row, (N,), and the squared distance to it, (N,); memory bounded by chunks."""
    labels = _labels(vectors, centroids)
    return labels, _distances(vectors, centroids, labels)


def _labels(vectors: Tensor, centroids: Tensor) -> Tensor:
    norms, words = centroids.square().sum(dim=1), centroids.t()
    rows = max(1, _ASSIGN_FLOATS // len(centroids))
    costs = vectors.new_empty(min(rows, len(vectors)), len(centroids))  # once: to clear new memory takes longer
    labels = torch.empty(len(vectors), dtype=torch.int64, device=vectors.device)
    for start in range(0, len(vectors), rows):
        part = vectors[start : start + rows]
        labels[start : start + rows] = smallest(torch.addmm(norms, part, words, alpha=-2, out=costs[: len(part)]))
    return labels


def _distances(vectors: Tensor, centroids: Tensor, labels: Tensor) -> Tensor:
    rows = max(1, _ASSIGN_FLOATS // vectors.shape[1])
    parts = zip(vectors.split(rows), labels.split(rows), strict=True)
    return torch.cat([(part - centroids[label]).square().sum(dim=1) for part, label in parts])


def smallest(costs: Tensor) -> Tensor:
    """(n,) places of the smallest of (n, K); on the CPU by numpy, which is several times quicker than torch."""
    if costs.device.type == "cpu":
        return torch.from_numpy(costs.detach().numpy().argmin(axis=1))
    return costs.argmin(dim=1)


def code_type(codebook_size: int) -> torch.dtype:
    """The smallest type that holds codes: a table's codes are kept several times over, and only parts widened."""
    return torch.uint8 if codebook_size <= 1 << 8 else torch.int32


def residual_kmeans(
    vectors: Tensor,
    code_length: int,
    codebook_size: int,
    generator: torch.Generator,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One k-means after another, each on what the ones before left over of a sample of the rows.

    Args:
        vectors: (N, d).
        code_length: D.
        codebook_size: K.
        generator: draws the sample and the seeds, on the CPU.
        weights: (N,) of the rows; all 1 where left out.

    Returns:
        (N, D) codes, of `code_type`, and (D, K, d) codewords whose sums approximate `vectors`.
    """
    sample, counted = _sample(vectors, weights, codebook_size * _ROWS_PER_CENTROID, generator)
    residual = sample.clone() if sample is vectors else sample
    books = []
    for _ in range(code_length):
        books.append(_centroids(residual, codebook_size, generator, counted))
        residual -= books[-1][_labels(residual, books[-1])]
    del sample, residual
    return _residual_codes(vectors, books), torch.stack(books)


def _centroids(vectors: Tensor, count: int, generator: torch.Generator, weights: Tensor | None) -> Tensor:
    """Those of the way that suits; small tables are clustered both ways, since they may have clusters to find."""
    if vectors.shape[1] <= _NARROW:
        return kmeans(vectors, count, generator, weights=weights)
    wider = kmeans_by_width(vectors, count, generator, weights)
    if len(vectors) * count > _FEW_DISTANCES:
        return wider

    def error(centroids: Tensor) -> float:
        distances = nearest(vectors, centroids)[1]
        return float(distances.sum() if weights is None else distances @ weights)

    return min(wider, kmeans(vectors, count, generator, weights=weights), key=error)


def _residual_codes(vectors: Tensor, books: Sequence[Tensor]) -> Tensor:
    """(N, D): the nearest centroid of each row in the first book, of what is left of it in the second, and so on."""
    codes = torch.empty(len(vectors), len(books), dtype=code_type(len(books[0])), device=vectors.device)
    for start in range(0, len(vectors), _CODED_ROWS):
        part = slice(start, start + _CODED_ROWS)
        residual = vectors[part].clone()
        for position, centroids in enumerate(books):
            labels = _labels(residual, centroids)
            residual -= centroids[labels]
            codes[part, position] = labels.to(codes.dtype)
    return codes


def _sample(
    vectors: Tensor, weights: Tensor | None, most: int, generator: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    if len(vectors) <= most:
        return vectors, weights
    rows = torch.randperm(len(vectors), generator=generator)[:most].to(vectors.device)
    return vectors[rows], None if weights is None else weights[rows]


def _drawn_seeds(vectors: Tensor, weights: Tensor | None, count: int, generator: torch.Generator) -> Tensor:
    return _seeds(*_sample(vectors, weights, count * _SEED_ROWS_PER_CENTROID, generator), count, generator)


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
