"""is_clustered: whether rows lie in clusters, so that codewords say more of them than a rotation does."""

from __future__ import annotations

import math

import numpy as np

from kdcode.evaluation.rate_distortion import gaussian_limit
from kdcode.learning.linalg.kmeans import kmeans, nearest_labels
from kdcode.learning.planned_table import PlannedTable

_CENTROIDS = 256
_ROWS = 6000
_ROWS_PER_CENTROID = 16
_CLEARLY_BELOW = 0.6
"""Times the limit of a Gaussian, which no code of its rows could come below. GloVe comes to 0.8 to 0.9 of it."""
_MOST_NUMBERS = 1 << 23


def is_clustered(table: PlannedTable, seed: int = 0) -> bool:
    """Whether the nearest of some centroids says more of a row than any code of as many bits could of a Gaussian's.

    Centroids are found from one sample, and judged by another one.
    """
    rows = min(len(table) // 2, _ROWS, _MOST_NUMBERS // table.embedding_dim)
    count = min(_CENTROIDS, rows // _ROWS_PER_CENTROID)
    if count < 2:
        return False
    drawn = np.random.default_rng(seed).permutation(len(table))[: 2 * rows]
    learned, other = (table.vectors_at(np.sort(part)).astype(np.float32) for part in (drawn[:rows], drawn[rows:]))
    mean = learned.mean(axis=0)
    learned, other = learned - mean, other - mean
    energy = float(np.square(other, dtype=np.float64).sum())
    if not energy > 0:
        return False
    centroids = kmeans(learned, count, np.random.default_rng(seed), greedy=False)
    lost = np.square(other - centroids[nearest_labels(other, centroids)], dtype=np.float64).sum()
    limit = gaussian_limit(np.linalg.eigvalsh(np.cov(learned.T)), math.log2(count))
    return float(lost) / energy < _CLEARLY_BELOW * limit
