"""The nearest of some vectors, for many rows."""

from __future__ import annotations

import torch
from torch import Tensor

from kdcode.codec_torch.lookup import argmin_rows
from kdcode.codec_torch.parallel import parallel_chunks

_CHUNK_FLOATS = 1 << 19
"""Distances that are computed at a time, which stay in a core's cache."""


def nearest_labels(vectors: Tensor, centroids: Tensor) -> Tensor:
    """(N,) the nearest centroid of each row."""
    norms, words = centroids.square().sum(dim=1), centroids.t()
    rows = max(1, _CHUNK_FLOATS // len(centroids))
    labels = torch.empty(len(vectors), dtype=torch.int64, device=vectors.device)

    def assign(start: int) -> None:
        part = slice(start, start + rows)
        labels[part] = argmin_rows(torch.addmm(norms, vectors[part], words, alpha=-2))

    parallel_chunks(assign, range(0, len(vectors), rows), vectors.device)
    return labels
