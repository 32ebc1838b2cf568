"""Centroids of transform codecs: when there are any, how many, and what they are worth."""

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.learning.codebook import _SPARE, _SPARE_OF_FEW
from kdcode.learning.transform.clusters import ClusterSearch, _Rows, expected_error, rotated_centroids
from kdcode.learning.transform.design import design_codec
from kdcode.learning.transform.rotation import chosen_rotation
from kdcode.learning.transform.sampling import table_sample
from kdcode.options import CompressOptions


def clustered(rows=6000, dim=24, clusters=40, within=0.2, seed=0):
    """Rows around some points, of which some have many more rows than others."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(clusters, dim))
    shares = 1 / (np.arange(clusters) + 5.0)
    labels = random.choice(clusters, rows, p=shares / shares.sum())
    return (points[labels] + within * random.normal(size=(rows, dim))).astype(np.float32)


def normal(rows=6000, dim=24):
    return np.random.default_rng(0).normal(size=(rows, dim)).astype(np.float32)


def found_in(matrix, bits, weights=None):
    table = kdcode.VectorTable(None, matrix, weights)
    return ClusterSearch(table, table_sample(table, 0), len(table), 0).best(bits)


def design(matrix, size, seed=0):
    options = CompressOptions.of(composition="transform", row_bytes=size, effort="fast", seed=seed)
    return design_codec(kdcode.VectorTable(None, matrix), len(matrix), options, quick=True)


def test_as_many_centroids_as_there_are_clusters():
    found = found_in(clustered(), 96.0)
    assert 40 <= len(found.vectors) <= 128
    assert (np.diff(found.counts) <= 0).all()
    assert np.trace(found.covariance) == pytest.approx(24 * 0.2**2, rel=0.1)


@pytest.mark.parametrize("matrix", [normal(), np.zeros((500, 8), np.float32), clustered(rows=100)], ids=str)
def test_none_where_rows_have_no_clusters_or_are_few(matrix):
    assert found_in(matrix, 96.0) is None


def test_none_where_they_would_take_the_bytes_of_rows():
    assert found_in(clustered(rows=1000), 0.4) is None


def test_clustered_rows_lose_a_fraction_of_what_a_gaussian_would(monkeypatch):
    with_centroids = design(clustered(), 12.0)
    monkeypatch.setattr(ClusterSearch, "best", lambda *_: None)
    without = design(clustered(), 12.0)
    assert with_centroids.codec.spec.centroids >= 32
    assert without.codec.spec.centroids == 0
    assert with_centroids.relative_error < 0.2 * without.relative_error


def test_heavy_tails_are_not_taken_for_clusters():
    tails = np.random.default_rng(0).standard_t(3, size=(12_000, 64)).astype(np.float32)
    assert design(tails, 12.5).codec.spec.centroids == 0


def test_the_error_is_predicted_and_the_size_kept():
    matrix = clustered()
    planned = kdcode.plan(matrix, "20x", effort="fast").recommended
    coded = kdcode.compress(matrix, options=planned.options)
    assert coded.spec.centroids
    assert coded.provenance["relative_error"] == pytest.approx(planned.relative_error, rel=0.06)
    assert 0.995 * matrix.nbytes / 20 < coded.sizes.embedding <= matrix.nbytes / 20


def test_word_vectors_lose_less_with_centroids(monkeypatch):
    matrix = np.asarray(glove_50d().head(4000).matrix)
    found = design(matrix, 20.0)
    assert found.codec.spec.centroids
    monkeypatch.setattr(ClusterSearch, "best", lambda *_: None)
    assert found.relative_error < 0.96 * design(matrix, 20.0).relative_error


def test_unseen_rows_of_clusters_lose_about_as_much_as_seen_ones():
    matrix = clustered(rows=12_000)
    coded = kdcode.compress(matrix[:8000], "20x", effort="fast")
    new = matrix[8000:]
    lost = np.square(coded.codec.decode(coded.encode(new)) - new).sum() / np.square(new - new.mean(axis=0)).sum()
    assert lost == pytest.approx(coded.provenance["relative_error"], rel=0.1)


def test_weights_draw_centroids():
    matrix = clustered(within=0.4)
    weights = np.where(matrix[:, 0] > 0, 1.0, 1e-3).astype(np.float32)
    found = found_in(matrix, 60.0, weights)
    heavy = matrix[:, 0] > 0.5
    mean = np.average(matrix, axis=0, weights=weights)

    def lost(vectors):
        return np.square(matrix[heavy][:, None] - mean - vectors).sum(axis=2).min(axis=1).mean()

    plain = found_in(matrix, 60.0)
    few = min(len(found.vectors), len(plain.vectors))
    assert lost(found.vectors[:few]) < lost(plain.vectors[:few] + matrix.mean(axis=0) - mean)


def test_the_estimate_knows_rows_of_different_lengths():
    scales = np.exp(np.random.default_rng(1).normal(size=(6000, 1)))
    ones = np.ones(6000)
    alike, unlike = normal(), (normal() * scales).astype(np.float32)
    lost = [expected_error(_Rows(rows, ones), 72.0) / np.square(rows).sum(axis=1).mean() for rows in (alike, unlike)]
    assert lost[0] == pytest.approx(2.0**-6, rel=0.1)
    assert lost[1] < 0.5 * lost[0]


def test_rounding_takes_as_many_bits_as_pay():
    matrix = clustered()
    table = kdcode.VectorTable(None, matrix)
    sample = table_sample(table, 0)
    clusters = ClusterSearch(table, sample, len(table), 0).best(96.0)
    rotation = chosen_rotation(sample.mean, clusters.covariance, len(table), 96.0)
    few = rotated_centroids(clusters, rotation, 600, 30.0)
    many = rotated_centroids(clusters, rotation, 6_000_000, 200.0)
    assert few.bits < many.bits
    turned = rotation.turned(clusters.vectors)
    assert np.abs(many.vectors - turned).max() <= 0.51 * many.scales.max()


def test_rows_to_come_lose_what_was_told_and_take_what_was_promised():
    """Centroids are learned from other rows than the lengths of rows and the tables of levels."""
    matrix = clustered(rows=12_000, clusters=150, within=0.3)
    seen, others = matrix[:3000], matrix[3000:]
    options = CompressOptions.of(composition="transform", row_bytes=10.0, effort="fast")
    spare = _SPARE + _SPARE_OF_FEW / len(seen) ** 0.5
    found = design_codec(kdcode.VectorTable(None, seen), 12_000, options, spare=spare)
    assert found.codec.spec.centroids
    codec = found.codec
    codes = codec.encode(others)
    lost = (
        np.square(codec.decode(codes) - others, dtype=np.float64).sum() / np.square(others - others.mean(axis=0)).sum()
    )
    assert lost == pytest.approx(found.relative_error, rel=0.06)
    assert (
        np.array(codec.spec.lengths)[codes[:, -2]].sum() / codec.spec.rows_per_block < found.row_bytes * 9000 / 12_000
    )


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (clustered(4000, 32, 200, 0.15), True),
        (clustered(4000, 32, 200, 3.0), False),
        (normal(4000, 32), False),
        (normal(40, 32), False),
        (np.ones((100, 4), np.float32), False),
        (np.asarray(glove_50d().matrix), False),
    ],
    ids=["clusters", "blurred", "normal", "few", "alike", "words"],
)
def test_clusters_are_seen_and_nothing_else_is_taken_for_them(matrix, expected):
    table = kdcode.VectorTable(None, matrix)
    search = ClusterSearch(table, table_sample(table, 0), len(table), 0)
    search.best(1.6 * matrix.shape[1])
    assert search.is_clustered is expected


def test_a_plan_for_clusters_looks_at_codewords():
    matrix = clustered(4000, 32, 200, 0.15)
    planned = kdcode.plan(matrix, "20x", effort="fast")
    assert {candidate.options.composition for candidate in planned.candidates} > {"transform"}


def test_k_means_is_run_once_for_all_sizes(monkeypatch):
    runs = []
    original = ClusterSearch._clustered

    def counted(self, count, work, rounds):
        runs.append((count, work))
        return original(self, count, work, rounds)

    monkeypatch.setattr(ClusterSearch, "_clustered", counted)
    table = kdcode.VectorTable(None, clustered())
    search = ClusterSearch(table, table_sample(table, 0), len(table), 0)
    for bits in (96.0, 48.0):
        search.best(bits)
    first = [run for run in runs if run[1] == min(work for _, work in runs)]
    assert len(first) == len(set(first))
