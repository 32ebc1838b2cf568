"""Which rotation is worth what it takes."""

import numpy as np
import pytest

from kdcode.learning.transform.rotation import chosen_rotation


def covariance(dim, decay, seed=0):
    """A covariance whose principal directions lie anywhere."""
    directions = np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0]
    return (directions * np.geomspace(1, decay, dim)) @ directions.T


def test_a_large_table_has_all_directions_and_a_small_one_none():
    spectrum, mean = covariance(40, 0.01), np.zeros(40)
    counts = [chosen_rotation(mean, spectrum, rows, 100.0).reflections for rows in (1_000_000, 20)]
    assert counts == [39, 0]


def test_coordinates_that_are_not_correlated_stay():
    spectrum = np.diag(np.geomspace(1, 0.01, 30))
    assert chosen_rotation(np.zeros(30), spectrum, 100_000, 80.0).reflections == 0


def test_rotated_rows_have_the_variances_of_the_principal_directions():
    spectrum = covariance(20, 0.05)
    mean = np.arange(20.0)
    rotation = chosen_rotation(mean, spectrum, 1_000_000, 80.0)
    rows = np.random.default_rng(1).multivariate_normal(mean, spectrum, 50_000).astype(np.float32)
    found = np.sort(rotation.rotated(rows).var(axis=0))[::-1]
    assert found == pytest.approx(np.geomspace(1, 0.05, 20), rel=0.1)
    assert rotation.nbytes == sum(tensor.nbytes for tensor in rotation.tensors.values())


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_few_dimensions_and_constant_tables(dim):
    assert chosen_rotation(np.zeros(dim), np.zeros((dim, dim)), 100, 8.0).reflections == 0
    assert chosen_rotation(np.zeros(dim), covariance(dim, 0.1), 10_000, 8.0).reflections <= dim - 1
