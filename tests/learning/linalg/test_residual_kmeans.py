"""Residual k-means: every level takes something off, and planted sums are found."""

from __future__ import annotations

import torch

from kdcode.data import glove_50d
from kdcode.learning.linalg import kmeans
from kdcode.learning.linalg.residual_kmeans import residual_kmeans


def left_over(rows, codes, words):
    return rows - sum(words[level][codes[:, level].long()] for level in range(len(words)))


def test_each_residual_level_lowers_the_error():
    rows = torch.randn(600, 10, generator=torch.Generator().manual_seed(0))
    codes, words = residual_kmeans(rows, 4, 8, torch.Generator().manual_seed(1))
    assert codes.shape == (600, 4)
    errors = [float(left_over(rows, codes, words[: level + 1]).square().sum()) for level in range(4)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.5 * errors[0]


def test_rows_are_left_alone_and_codes_take_few_bytes():
    rows = torch.randn(50, 10, generator=torch.Generator().manual_seed(0))
    before = rows.clone()
    small, _ = residual_kmeans(rows, 2, 8, torch.Generator())
    large, _ = residual_kmeans(rows, 2, 300, torch.Generator())
    assert torch.equal(rows, before)
    assert (small.dtype, large.dtype) == (torch.uint8, torch.int32)


def test_rows_count_by_their_weight():
    rows = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    weights = torch.where(torch.arange(300) < 30, 50.0, 1.0)
    even, weighted = (
        float(left_over(rows, *residual_kmeans(rows, 2, 4, torch.Generator().manual_seed(0), used))[:30].square().sum())
        for used in (None, weights)
    )
    assert weighted < 0.8 * even


def test_progressive_dimensions_leave_less_over_than_seeds(monkeypatch):
    rows = torch.from_numpy(glove_50d().head(2000).matrix.astype("float32"))

    def lost():
        found = [residual_kmeans(rows, 8, 64, torch.Generator().manual_seed(seed)) for seed in range(2)]
        return sum(float(left_over(rows, codes, words).square().sum()) for codes, words in found)

    progressive = lost()
    monkeypatch.setattr(kmeans, "_NARROW", 50)
    assert progressive < 0.96 * lost()


def test_small_tables_have_their_clusters_found():
    exact = 0
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        coarse, fine = 3 * torch.randn(8, 20, generator=generator), torch.randn(8, 20, generator=generator)
        rows = (coarse[:, None] + fine).flatten(0, 1)
        left = left_over(rows, *residual_kmeans(rows, 2, 8, generator))
        exact += float(left.square().sum()) < 1e-6 * float(rows.square().sum())
    assert exact >= 3
