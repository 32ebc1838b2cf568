from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from clusters import closest_centres, clustered_points, mutual_information

from kdcode.learning.linalg.kmeans import kmeans, nearest


def labels(*values):
    return torch.tensor(values)


def test_mutual_information_of_the_same_groups_under_other_names_is_1():
    assert mutual_information(labels(0, 0, 1, 2), labels(7, 7, 3, 5)) == pytest.approx(1)


def test_mutual_information_of_independent_groups_is_0():
    assert mutual_information(labels(0, 0, 1, 1), labels(0, 1, 0, 1)) == pytest.approx(0)
    assert mutual_information(labels(0, 0, 0, 0), labels(0, 1, 0, 1)) == pytest.approx(0)


def test_mutual_information_worked_out_by_hand():
    # Two of four clusters share a code. H(code) = 1.5 bits, H(cluster) = 2 bits, and the code follows from the
    # cluster, so I = H(code) = 1.5 bits and NMI = 1.5 / 1.75.
    assert mutual_information(labels(0, 0, 1, 2), labels(0, 1, 2, 3)) == pytest.approx(1.5 / 1.75)
    # P = [[1/2, 0], [1/4, 1/4]]: H(A) = 1, H(B) = h(1/4) = 2 − 3/4 log2(3), H(A, B) = 1.5 bits.
    second = 2 - 0.75 * math.log2(3)
    expected = (1 + second - 1.5) / ((1 + second) / 2)
    assert mutual_information(labels(0, 0, 1, 1), labels(0, 0, 0, 1)) == pytest.approx(expected)


def test_mutual_information_is_symmetric_and_defined_for_one_group():
    first, second = torch.randint(5, (100,)), torch.randint(9, (100,))
    assert mutual_information(first, second) == pytest.approx(mutual_information(second, first))
    assert mutual_information(labels(3, 3), labels(1, 1)) == 1


def test_points_are_spread_around_their_centres_as_asked():
    points, clusters = clustered_points(4000, 8, 10, 0.05, seed=1)
    assert points.shape == (4000, 10)
    assert torch.bincount(clusters).tolist() == [500] * 8
    within = [points[clusters == cluster].std(dim=0).mean() for cluster in range(8)]
    assert torch.stack(within).tolist() == pytest.approx([0.05] * 8, rel=0.1)
    assert not torch.equal(points, clustered_points(4000, 8, 10, 0.05, seed=2)[0])


def test_the_closest_centres_are_found_among_the_means():
    points = torch.tensor([[0.0, 1.0], [0.0, -1.0], [10.0, 0.0], [10.0, 4.0]])
    assert closest_centres(points, labels(0, 0, 1, 2)) == 4


def test_greedy_seeds_of_kmeans_find_nearly_all_clusters():
    found = []
    for seed in range(8):
        points, clusters = clustered_points(2000, 50, 10, 0.1, seed)
        rows = points.numpy()
        codes = nearest(rows, kmeans(rows, 50, np.random.default_rng(seed)))[0]
        found.append(mutual_information(torch.from_numpy(codes), clusters))
    assert sum(found) / 8 > 0.995  # 0.986 with one candidate for each seed
