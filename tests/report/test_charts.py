"""The numbers behind the charts, by hand and by other routes."""

import base64

import numpy as np
import pytest

from kdcode.evaluation import CodeUse
from kdcode.report.distributions import cosine_histogram, errors_by_rank, use_map
from kdcode.report.symbol_map import projected, spaced


def test_every_cosine_is_counted_once():
    cosines = np.random.default_rng(0).uniform(0.4, 1, size=5000)
    cosines[:20] = -1  # below the left end
    found = cosine_histogram(cosines)
    assert sum(found["counts"]) == 5000
    assert found["edges"][-1] == 1
    assert len(found["edges"]) == len(found["counts"]) + 1
    assert found["mean"] == pytest.approx(cosines.mean())
    assert found["counts"][0] >= 20
    assert cosine_histogram(np.ones(3))["counts"][-1] == 3


def test_errors_by_rank_by_hand():
    assert errors_by_rank(np.array([0.5])) == [
        {"first": 1, "last": 1, "rank": 1.0, "mean": 0.5, "low": 0.5, "high": 0.5}
    ]
    two = errors_by_rank(np.array([0.5, 1.5]))
    assert [(one["first"], one["last"]) for one in two] in ([(1, 1), (2, 2)], [(1, 2)])


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 100, 12345])
def test_bins_of_ranks_cover_all_rows_and_their_means_make_the_mean(rows):
    errors = np.random.default_rng(0).random(rows)
    bins = errors_by_rank(errors)
    assert [one["first"] for one in bins] == [1, *(one["last"] + 1 for one in bins[:-1])]
    assert bins[-1]["last"] == rows
    total = sum(one["mean"] * (one["last"] - one["first"] + 1) for one in bins)
    assert total == pytest.approx(errors.sum())


def test_errors_without_end_are_left_out():
    assert errors_by_rank(np.array([np.inf])) == []
    assert errors_by_rank(np.array([np.inf, 1.0]))[-1]["mean"] == 1


def shares(found):
    return np.frombuffer(base64.b64decode(found["use"]["data"]), "<f4").reshape(found["rows"], found["columns"])


def test_use_is_relative_to_an_even_share_and_unused_codewords_are_marked():
    found = use_map(CodeUse(np.array([[4, 0, 2], [2, 2, 2]]), 0))
    np.testing.assert_allclose(shares(found), [[2, -1, 1], [1, 1, 1]])
    assert (found["perRow"], found["perColumn"]) == (1, 1)


def test_a_map_of_very_many_codewords_joins_them():
    counts = np.ones((3, 5000), dtype=np.int64)
    counts[1, :10] = 0
    found = use_map(CodeUse(counts, 0))
    assert found["columns"] == 1000
    assert found["perColumn"] == 5
    assert (shares(found)[1, :2] == -1).all()
    assert (shares(found)[0] > 0).all()


def test_a_map_is_in_the_plane_of_the_largest_variances():
    random = np.random.default_rng(0)
    vectors = random.normal(size=(300, 6)) * [1, 9, 1, 1, 5, 1]
    before, after = projected(vectors, vectors + 1)
    assert abs(np.corrcoef(before[:, 0], vectors[:, 1])[0, 1]) > 0.99
    assert abs(np.corrcoef(before[:, 1], vectors[:, 4])[0, 1]) > 0.98
    assert np.abs(before).max() == pytest.approx(1)
    apart = after - before  # the same shift for all: both have the same directions and the same scale
    np.testing.assert_allclose(apart, np.broadcast_to(apart[0], apart.shape), atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (4, 1), (3, 2)])
def test_maps_of_tiny_tables(shape):
    vectors = np.random.default_rng(0).normal(size=shape)
    for side in projected(vectors, vectors):
        assert side.shape == (shape[0], 2)
        assert np.isfinite(side).all()


def test_labels_do_not_cover_each_other():
    points = np.random.default_rng(0).uniform(-1, 1, size=(400, 2))
    others = np.random.default_rng(1).uniform(-1, 1, size=(400, 2))
    kept = spaced(points, others)
    assert kept[0] == 0
    assert 3 < len(kept) <= 40
    for side in (points, others):
        apart = np.abs(side[kept][:, None] - side[kept][None]) >= (0.28, 0.09)
        assert (apart.any(axis=2) | np.eye(len(kept), dtype=bool)).all()
