"""The rows that a transform codec is made from."""

import numpy as np
import pytest

import kdcode
from kdcode.learning.transform.sampling import scales_of, table_sample


def table(rows=3000, dim=6, weights=None):
    matrix = np.random.default_rng(0).normal(size=(rows, dim)) + 2
    return kdcode.VectorTable(None, matrix.astype(np.float32), weights)


def test_scales_are_powers_of_two_near_the_square_root_of_weights():
    weights = np.array([0.0, 1e-9, 0.2, 1.0, 1.9, 2.1, 4.0, 100.0, 1e9])
    assert scales_of(weights).tolist() == [2.0**-6, 2.0**-6, 0.5, 1, 1, 2, 2, 8, 64]


def test_a_table_without_weights_has_no_scales():
    plain = table()
    found = table_sample(plain, 0)
    assert found.rows.weights is found.rows.scales is found.rows.left_weights is None
    matrix = np.asarray(plain.matrix, dtype=np.float64)
    np.testing.assert_allclose(found.mean, matrix.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.covariance, np.cov(matrix.T, bias=True), atol=1e-5)
    assert found.energy == pytest.approx(np.square(found.rows.vectors - found.mean).sum(), rel=1e-5)
    assert found.rows.scaled(found.rows.vectors) is found.rows.vectors


def test_moments_and_energy_go_by_weight():
    weights = np.repeat([1.0, 0.0], 1500).astype(np.float32)
    found = table_sample(table(weights=weights), 0)
    first = np.asarray(table().matrix[:1500], dtype=np.float64)
    np.testing.assert_allclose(found.mean, first.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.covariance, np.cov(first.T, bias=True), atol=1e-5)
    rows = found.rows
    counted = np.square(rows.vectors - found.mean).sum(axis=1)[rows.weights > 0]
    assert found.energy == pytest.approx(2 * counted.sum(), rel=1e-5)  # weights are 1 on average, so that these are 2


def test_a_scaled_row_counts_as_much_as_its_weight():
    weights = np.random.default_rng(1).exponential(size=3000).astype(np.float32)
    rows = table_sample(table(weights=weights), 0).rows
    scaled = rows.scaled(rows.vectors)
    np.testing.assert_allclose(
        rows.left_weights * np.square(scaled).sum(axis=1),
        rows.weights * np.square(rows.vectors).sum(axis=1),
        rtol=1e-5,
    )
    assert (rows.left_weights[rows.weights > 1e-3] < 2.01).all()


def test_the_longest_rows_are_those_that_are_longest_once_multiplied():
    weights = np.ones(3000, dtype=np.float32)
    weights[17] = 1000
    heavy = table(weights=weights)
    found = table_sample(heavy, 0).extremes
    assert (found.vectors == np.asarray(heavy.matrix)[17]).all(axis=1).any()
