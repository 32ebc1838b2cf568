"""k-means: clusters that are there are found, labels and centroids belong together, and rows count by weight."""

from __future__ import annotations

import pytest
import torch

from kdcode.codec_torch.nearest import nearest_labels
from kdcode.data import glove_50d
from kdcode.learning.linalg import kmeans as module
from kdcode.learning.linalg.kmeans import best_kmeans, kmeans, nearest, progressive_kmeans


def blobs(count=8, each=50, dim=5, seed=0, spread=0.1):
    generator = torch.Generator().manual_seed(seed)
    centres = 20 * torch.randn(count, dim, generator=generator)
    rows = centres.repeat_interleave(each, 0) + spread * torch.randn(count * each, dim, generator=generator)
    return centres, rows


def missed(centres, found, distance=1.0):
    """How many centres no centroid is near."""
    return int((torch.cdist(centres, found).min(dim=1).values > distance).sum())


def test_separated_clusters_are_found():
    centres, rows = blobs()
    found = kmeans(rows, 8, torch.Generator().manual_seed(1))
    distances = torch.cdist(centres, found).min(dim=1).values
    assert float(distances.max()) < 0.2


def test_greedy_seeds_find_100_clusters_of_which_plain_ones_miss_several():
    lost, lost_by_one_candidate = [], []
    for seed in range(8):
        centres, rows = blobs(100, 20, dim=10, seed=seed, spread=2.0)
        found = kmeans(rows, 100, torch.Generator().manual_seed(seed))
        plain = module._seeds(rows, None, 100, torch.Generator().manual_seed(seed), candidates=1)
        plain, _ = module._lloyd(rows, plain, None, 15)
        lost.append(missed(centres, found, distance=6.0))
        lost_by_one_candidate.append(missed(centres, plain, distance=6.0))
    assert min(lost) == 0  # where two clusters share a centroid, both are missed
    assert max(lost) <= 4
    assert sum(lost_by_one_candidate) > 4 * sum(lost)


@pytest.mark.parametrize("assignments", [1, 2, 3, 15])
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_are_those_of_the_centroids_beside_them(assignments, weighted):
    rows = torch.from_numpy(glove_50d().head(600).matrix.astype("float32"))
    weights = torch.rand(600, generator=torch.Generator().manual_seed(0)) if weighted else None
    centroids, labels = module._lloyd(rows, rows[:12], weights, assignments)
    distances = torch.cdist(rows, centroids, compute_mode="donot_use_mm_for_euclid_dist")
    chosen = distances.gather(1, labels[:, None])[:, 0]
    torch.testing.assert_close(chosen, distances.min(dim=1).values, rtol=1e-5, atol=1e-4)
    if assignments > 1:
        assert not torch.equal(labels, nearest_labels(rows, rows[:12]))


def test_the_last_centroids_are_means_of_their_rows():
    rows = torch.from_numpy(glove_50d().head(300).matrix.astype("float32"))
    found = kmeans(rows, 6, torch.Generator().manual_seed(0), iterations=100)  # until nothing changes
    labels = nearest_labels(rows, found)
    for label in range(6):
        torch.testing.assert_close(found[label], rows[labels == label].mean(dim=0), rtol=1e-4, atol=1e-5)


def test_more_centroids_than_rows_are_no_trouble():
    rows = torch.tensor([[0.0], [1.0]])
    found = kmeans(rows, 5, torch.Generator().manual_seed(0))
    assert found.shape == (5, 1)
    assert set(found.flatten().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("cluster", [kmeans, progressive_kmeans, best_kmeans])
@pytest.mark.parametrize("rows", [torch.ones(1, 12), torch.ones(20, 12), torch.zeros(20, 12)])
def test_equal_rows_are_no_trouble(cluster, rows):
    found = cluster(rows, 4, torch.Generator().manual_seed(0))
    assert found.shape == (4, 12)
    assert torch.isfinite(found).all()
    assert float(nearest(rows, found)[1].max()) < 1e-8


def test_nearest_agrees_with_all_distances_in_chunks(monkeypatch):
    monkeypatch.setattr(module, "_ASSIGN_FLOATS", 64)
    _, rows = blobs()
    centroids = rows[::37]
    labels, squared = nearest(rows, centroids)
    distances = torch.cdist(rows, centroids, compute_mode="donot_use_mm_for_euclid_dist")
    torch.testing.assert_close(squared, distances.min(dim=1).values.square(), rtol=1e-3, atol=1e-2)
    chosen = distances.gather(1, labels[:, None]).flatten()  # a tie may go either way
    torch.testing.assert_close(chosen, distances.min(dim=1).values, rtol=1e-3, atol=1e-2)


def test_large_tables_are_sampled_and_still_clustered(monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_CENTROID", 10)
    centres, rows = blobs(count=4, each=500)
    found = kmeans(rows, 4, torch.Generator().manual_seed(3))
    assert float(torch.cdist(centres, found).min(dim=1).values.max()) < 0.3


def test_rows_count_by_their_weight():
    rows = torch.tensor([[0.0], [1.0], [10.0]])
    weights = torch.tensor([3.0, 1.0, 2.0])
    found = kmeans(rows, 1, torch.Generator().manual_seed(0), weights=weights)
    assert float(found) == pytest.approx(21 / 6)


def test_progressive_kmeans_finds_clusters_off_the_middle_by_weight():
    centres, rows = blobs(count=4, dim=12)
    rows = rows + 7
    weights = torch.ones(len(rows))
    weights[:25] = 3  # of the first cluster's 50 rows
    found = progressive_kmeans(rows, 4, torch.Generator().manual_seed(0), weights)
    assert float(torch.cdist(centres + 7, found).min(dim=1).values.max()) < 0.2
    first = found[torch.cdist(centres[:1] + 7, found).argmin()]
    mean = (3 * rows[:25].sum(dim=0) + rows[25:50].sum(dim=0)) / 100
    torch.testing.assert_close(first, mean, rtol=1e-4, atol=1e-4)


def test_the_better_of_two_ways_is_taken_for_small_tables(monkeypatch):
    centres, rows = blobs(dim=12)
    monkeypatch.setattr(module, "progressive_kmeans", lambda *_: rows[:8])  # all of one cluster
    assert missed(centres, best_kmeans(rows, 8, torch.Generator().manual_seed(0))) <= 1
    monkeypatch.setattr(module, "_FEW_DISTANCES", 0)
    assert missed(centres, best_kmeans(rows, 8, torch.Generator().manual_seed(0))) == 7
