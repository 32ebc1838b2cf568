"""k-means: clusters that are there are found, labels and centroids belong together, and rows count by weight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdcode.data import glove_50d
from kdcode.learning.linalg import kmeans as module
from kdcode.learning.linalg.kmeans import (
    best_kmeans,
    kmeans,
    label_sums,
    nearest,
    nearest_labels,
    progressive_kmeans,
)
from kdcode.threads import using_threads


def blobs(count=8, each=50, dim=5, seed=0, spread=0.1):
    random = np.random.default_rng(seed)
    centres = 20 * random.standard_normal((count, dim), dtype=np.float32)
    noise = random.standard_normal((count * each, dim), dtype=np.float32)
    return centres, centres.repeat(each, 0) + np.float32(spread) * noise


def distances_between(rows, others):
    """(n, m) distances in float64, one row after another."""
    return np.stack([np.linalg.norm(row - others.astype(np.float64), axis=1) for row in rows])


def missed(centres, found, distance=1.0):
    """How many centres no centroid is near."""
    return int((distances_between(centres, found).min(axis=1) > distance).sum())


@given(st.integers(1, 200), st.integers(1, 70), st.integers(1, 40), st.integers(0, 2**31))
def test_labels_are_those_of_the_nearest(count, size, dim, seed):
    random = np.random.default_rng(seed)
    rows, centroids = (random.standard_normal((n, dim), dtype=np.float32) for n in (count, size))
    labels = nearest_labels(rows, centroids)
    distances = distances_between(rows, centroids)
    np.testing.assert_allclose(distances[np.arange(count), labels], distances.min(axis=1), rtol=1e-3, atol=1e-3)


def test_of_equal_centroids_the_first_is_the_nearest():
    assert (nearest_labels(np.ones((70, 3), dtype=np.float32), np.ones((40, 3), dtype=np.float32)) == 0).all()


def test_labels_are_lawful_where_distances_are_no_numbers():
    rows = np.array([[np.nan, 1], [np.inf, 1], [3e38, 3e38]], dtype=np.float32)
    assert set(nearest_labels(rows, np.full((20, 2), 3e38, dtype=np.float32))) <= set(range(20))


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("rows", "dim", "count"), [(300, 5, 7), (300, 5, 40_000), (30_000, 40, 200), (60_000, 20, 9)])
def test_rows_are_added_up_by_label_on_any_number_of_threads(kind, weighted, rows, dim, count):
    random = np.random.default_rng(0)
    values, labels = random.standard_normal((rows, dim), dtype=np.float32), random.integers(1, min(count, 256), rows)
    labels[labels == 2] = 1  # one that no row has
    weights = random.random(rows, dtype=np.float32) if weighted else None
    expected = np.zeros((count, dim))
    np.add.at(expected, labels, values if weights is None else values * weights[:, None])
    found = []
    for threads in (1, 3):
        with using_threads(threads):
            found.append(label_sums(values, labels.astype(kind), count, weights))
    assert np.array_equal(*found)
    np.testing.assert_allclose(found[0], expected, rtol=1e-3, atol=1e-2)


def test_separated_clusters_are_found():
    centres, rows = blobs()
    found = kmeans(rows, 8, np.random.default_rng(1))
    distances = distances_between(centres, found).min(axis=1)
    assert distances.max() < 0.2


def test_greedy_seeds_find_100_clusters_of_which_plain_ones_miss_several():
    lost, lost_by_one_candidate = [], []
    for seed in range(8):
        centres, rows = blobs(100, 20, dim=10, seed=seed, spread=2.0)
        found = kmeans(rows, 100, np.random.default_rng(seed))
        plain = module._seeds(rows, None, 100, np.random.default_rng(seed), candidates=1)
        plain, _ = module._lloyd(rows, plain, None, 15)
        lost.append(missed(centres, found, distance=6.0))
        lost_by_one_candidate.append(missed(centres, plain, distance=6.0))
    assert min(lost) == 0  # where two clusters share a centroid, both are missed
    assert max(lost) <= 4
    assert sum(lost_by_one_candidate) > 4 * sum(lost)


@pytest.mark.parametrize("assignments", [1, 2, 3, 15])
@pytest.mark.parametrize("weighted", [False, True])
def test_labels_are_those_of_the_centroids_beside_them(assignments, weighted):
    rows = glove_50d().head(600).matrix.astype(np.float32)
    weights = np.random.default_rng(0).random(600, dtype=np.float32) if weighted else None
    centroids, labels = module._lloyd(rows, rows[:12], weights, assignments)
    distances = distances_between(rows, centroids)
    chosen = distances[np.arange(len(rows)), labels]
    np.testing.assert_allclose(chosen, distances.min(axis=1), rtol=1e-5, atol=1e-4)
    if assignments > 1:
        assert not np.array_equal(labels, nearest_labels(rows, rows[:12]))


def test_the_last_centroids_are_means_of_their_rows():
    rows = glove_50d().head(300).matrix.astype(np.float32)
    found = kmeans(rows, 6, np.random.default_rng(0), iterations=100)  # until nothing changes
    labels = nearest_labels(rows, found)
    for label in range(6):
        np.testing.assert_allclose(found[label], rows[labels == label].mean(axis=0), rtol=1e-4, atol=1e-5)


def test_more_centroids_than_rows_are_no_trouble():
    rows = np.array([[0.0], [1.0]], dtype=np.float32)
    found = kmeans(rows, 5, np.random.default_rng(0))
    assert found.shape == (5, 1)
    assert set(found.flatten().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("cluster", [kmeans, progressive_kmeans, best_kmeans])
@pytest.mark.parametrize("rows", [np.ones((1, 12)), np.ones((20, 12)), np.zeros((20, 12))])
def test_equal_rows_are_no_trouble(cluster, rows):
    rows = rows.astype(np.float32)
    found = cluster(rows, 4, np.random.default_rng(0))
    assert found.shape == (4, 12)
    assert np.isfinite(found).all()
    assert float(nearest(rows, found)[1].max()) < 1e-8


def test_nearest_agrees_with_all_distances_in_chunks(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK_FLOATS", 64)
    _, rows = blobs()
    centroids = rows[::37]
    labels, squared = nearest(rows, centroids)
    distances = distances_between(rows, centroids)
    np.testing.assert_allclose(squared, np.square(distances.min(axis=1)), rtol=1e-3, atol=1e-2)
    chosen = distances[np.arange(len(rows)), labels]  # a tie may go either way
    np.testing.assert_allclose(chosen, distances.min(axis=1), rtol=1e-3, atol=1e-2)


def test_large_tables_are_sampled_and_still_clustered(monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_CENTROID", 10)
    centres, rows = blobs(count=4, each=500)
    found = kmeans(rows, 4, np.random.default_rng(3))
    assert distances_between(centres, found).min(axis=1).max() < 0.3


def test_rows_count_by_their_weight():
    rows = np.array([[0.0], [1.0], [10.0]], dtype=np.float32)
    weights = np.array([3.0, 1.0, 2.0], dtype=np.float32)
    found = kmeans(rows, 1, np.random.default_rng(0), weights=weights)
    assert found[0, 0] == pytest.approx(21 / 6)


def test_progressive_kmeans_finds_clusters_off_the_middle_by_weight():
    centres, rows = blobs(count=4, dim=12)
    rows = rows + 7
    weights = np.ones(len(rows), dtype=np.float32)
    weights[:25] = 3  # of the first cluster's 50 rows
    found = progressive_kmeans(rows, 4, np.random.default_rng(0), weights)
    assert distances_between(centres + 7, found).min(axis=1).max() < 0.2
    first = found[distances_between(centres[:1] + 7, found).argmin()]
    mean = (3 * rows[:25].sum(axis=0) + rows[25:50].sum(axis=0)) / 100
    np.testing.assert_allclose(first, mean, rtol=1e-4, atol=1e-4)


def test_the_better_of_two_ways_is_taken_for_small_tables(monkeypatch):
    centres, rows = blobs(dim=12)
    monkeypatch.setattr(module, "progressive_kmeans", lambda *_: rows[:8])  # all of one cluster
    assert missed(centres, best_kmeans(rows, 8, np.random.default_rng(0))) <= 1
    monkeypatch.setattr(module, "_FEW_DISTANCES", 0)
    assert missed(centres, best_kmeans(rows, 8, np.random.default_rng(0))) == 7
