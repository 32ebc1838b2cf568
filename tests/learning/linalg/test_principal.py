"""Principal directions, of many rows and of few, against a singular value decomposition."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from kdcode.learning.linalg.principal import complete_basis, multiply, principal_directions, scatter
from kdcode.threads import using_threads

SIZES = [(3, 4, 5), (20_000, 40, 30), (9_001, 64, 64), (2_000, 2_000, 7)]
"""Rows, dimensions and columns: a small product, and some that are shared among threads."""


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def rows_of(count, dim, seed=0):
    return drawn(count, dim, seed=seed) * np.linspace(3, 0.1, dim, dtype=np.float32) + np.float32(1.5)


def orthonormal(columns):
    np.testing.assert_allclose(columns.T @ columns, np.eye(columns.shape[1]), atol=1e-4, rtol=0)


def same_for_any_number_of_threads(compute):
    results = []
    for threads in (1, 3):
        with using_threads(threads):
            results.append(compute())
    assert np.array_equal(*results)
    return results[0]


@pytest.mark.parametrize(("rows", "dim", "columns"), SIZES)
def test_multiply(rows, dim, columns):
    left, right = drawn(rows, dim), drawn(dim, columns)
    found = same_for_any_number_of_threads(lambda: multiply(left, right))
    np.testing.assert_allclose(found, left.astype(float) @ right, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("rows", "dim", "columns"), SIZES)
def test_scatter(rows, dim, columns, is_weighted):
    vectors = drawn(rows, dim)
    weights = np.abs(drawn(rows)) if is_weighted else None
    found = same_for_any_number_of_threads(lambda: scatter(vectors, weights))
    counted = vectors.astype(float) * (1 if weights is None else weights[:, None])
    np.testing.assert_allclose(found, counted.T @ vectors, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(("count", "dim"), [(100, 8), (8, 8), (7, 8), (5, 40)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_directions_are_those_of_the_singular_value_decomposition(count, dim, weighted, centred):
    rows = rows_of(count, dim)
    weights = np.random.default_rng(1).random(count, dtype=np.float32) + np.float32(0.1) if weighted else None
    mean = rows.mean(axis=0) if centred else None
    found = principal_directions(rows, weights, mean)
    matrix = (rows if mean is None else rows - mean) * (1 if weights is None else np.sqrt(weights)[:, None])
    values = np.square(np.linalg.svd(matrix.astype(float), compute_uv=False))
    rank = min(int((values > 1e-9 * values[0]).sum()), len(found.variances))
    np.testing.assert_allclose(found.variances[:rank], values[:rank], rtol=1e-3, atol=1e-3)
    orthonormal(found.directions)
    # along the directions that are found the rows have these variances, and nothing is left of them beside
    projected = matrix @ found.directions
    np.testing.assert_allclose(np.square(projected).sum(axis=0), found.variances, rtol=1e-3, atol=1e-3)
    assert np.abs(matrix - projected @ found.directions.T).max() < 1e-3


@pytest.mark.parametrize("rows", [np.zeros((3, 10)), np.ones((3, 10)), np.ones((1, 10)), np.zeros((20, 10))])
def test_rows_without_variance_have_directions_too(rows):
    rows = rows.astype(np.float32)
    for mean in (None, rows.mean(axis=0)):
        found = principal_directions(rows, mean=mean)
        assert np.isfinite(found.directions).all()
        orthonormal(found.directions)
        assert found.directions.shape[1] >= 1


@pytest.mark.parametrize("shape", [(20, 5000), (5000, 20)])
def test_no_square_matrix_of_the_larger_side_is_made(shape):
    rows = rows_of(*shape)
    tracemalloc.start()
    found = principal_directions(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 8 * rows.size
    assert found.directions.shape == (shape[1], 20)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_basis_is_cut_or_completed(count):
    given = principal_directions(rows_of(3, 8)).directions
    basis = complete_basis(given, count)
    assert basis.shape == (8, count)
    orthonormal(basis)
    kept = min(count, 3)
    assert np.array_equal(basis[:, :kept], given[:, :kept])
