from __future__ import annotations

import pytest
import torch

from kdcode.data import glove_50d
from kdcode.learning.kmeans import kmeans, kmeans_by_width, nearest, residual_kmeans


def blobs(count=8, each=50, dim=5):
    generator = torch.Generator().manual_seed(0)
    centres = 20 * torch.randn(count, dim, generator=generator)
    rows = centres.repeat_interleave(each, 0) + 0.1 * torch.randn(count * each, dim, generator=generator)
    return centres, rows


def test_separated_clusters_are_found():
    centres, rows = blobs()
    found = kmeans(rows, 8, torch.Generator().manual_seed(1))
    distances = torch.cdist(centres, found).min(dim=1).values
    assert float(distances.max()) < 0.2


def test_more_centroids_than_rows_are_no_trouble():
    rows = torch.tensor([[0.0], [1.0]])
    found = kmeans(rows, 5, torch.Generator().manual_seed(0))
    assert found.shape == (5, 1)
    assert set(found.flatten().tolist()) == {0.0, 1.0}


def test_nearest_agrees_with_all_distances_in_chunks(monkeypatch):
    monkeypatch.setattr("kdcode.learning.kmeans._ASSIGN_FLOATS", 64)
    _, rows = blobs()
    centroids = rows[::37]
    labels, squared = nearest(rows, centroids)
    distances = torch.cdist(rows, centroids, compute_mode="donot_use_mm_for_euclid_dist")
    torch.testing.assert_close(squared, distances.min(dim=1).values.square(), rtol=1e-3, atol=1e-2)
    chosen = distances.gather(1, labels[:, None]).flatten()  # a tie may go either way
    torch.testing.assert_close(chosen, distances.min(dim=1).values, rtol=1e-3, atol=1e-2)


def test_large_tables_are_sampled_and_still_clustered(monkeypatch):
    monkeypatch.setattr("kdcode.learning.kmeans._ROWS_PER_CENTROID", 10)
    centres, rows = blobs(count=4, each=500)
    found = kmeans(rows, 4, torch.Generator().manual_seed(3))
    assert float(torch.cdist(centres, found).min(dim=1).values.max()) < 0.3


def test_each_residual_level_lowers_the_error():
    rows = torch.randn(600, 10, generator=torch.Generator().manual_seed(0))
    codes, words = residual_kmeans(rows, 4, 8, torch.Generator().manual_seed(1))
    assert codes.shape == (600, 4)
    left, errors = rows.clone(), []
    for level in range(4):
        left = left - words[level][codes[:, level].long()]
        errors.append(float(left.square().sum()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.5 * errors[0]


def test_rows_count_by_their_weight():
    rows = torch.tensor([[0.0], [1.0], [10.0]])
    weights = torch.tensor([3.0, 1.0, 2.0])
    found = kmeans(rows, 1, torch.Generator().manual_seed(0), weights=weights)
    assert float(found) == pytest.approx(21 / 6)
    codes, words = residual_kmeans(rows, 2, 2, torch.Generator().manual_seed(0), weights)
    assert codes.shape == (3, 2)
    assert words.shape == (2, 2, 1)


def test_growing_wider_leaves_less_over_than_seeds(monkeypatch):
    rows = torch.from_numpy(glove_50d().head(2000).matrix.astype("float32"))

    def left_over():
        codes, words = residual_kmeans(rows, 8, 16, torch.Generator().manual_seed(0))
        return float((rows - sum(words[level][codes[:, level].long()] for level in range(8))).square().sum())

    wider = left_over()
    monkeypatch.setattr("kdcode.learning.kmeans._NARROW", 50)
    assert wider < 0.99 * left_over()


def test_growing_wider_finds_clusters_off_the_middle_by_weight():
    centres, rows = blobs(count=4, dim=12)
    rows = rows + 7
    weights = torch.ones(len(rows))
    weights[:25] = 3  # of the first cluster's 50 rows
    found = kmeans_by_width(rows, 4, torch.Generator().manual_seed(0), weights)
    assert float(torch.cdist(centres + 7, found).min(dim=1).values.max()) < 0.2
    first = found[torch.cdist(centres[:1] + 7, found).argmin()]
    mean = (3 * rows[:25].sum(dim=0) + rows[25:50].sum(dim=0)) / 100
    torch.testing.assert_close(first, mean, rtol=1e-4, atol=1e-4)


def test_small_tables_have_their_clusters_found():
    exact = 0
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        coarse, fine = 3 * torch.randn(8, 20, generator=generator), torch.randn(8, 20, generator=generator)
        rows = (coarse[:, None] + fine).flatten(0, 1)
        codes, words = residual_kmeans(rows, 2, 8, generator)
        left = rows - sum(words[level][codes[:, level].long()] for level in range(2))
        exact += float(left.square().sum()) < 1e-6 * float(rows.square().sum())
    assert exact >= 3
