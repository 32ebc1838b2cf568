"""Rotations as products of rounded reflections."""

import numpy as np
import pytest

from kdcode.codec.transform.rotation import (
    exact_reflections,
    packed_shape,
    product,
    reflected,
    reflection_vectors,
    rounded_matrix,
    rounded_reflections,
    stored_numbers,
)


def directions(dim, count, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0][:, :count]


def rotation_of(wanted):
    packed, scales = rounded_reflections(wanted)
    dim, count = wanted.shape
    assert packed.shape == packed_shape(count, dim)
    return product(reflection_vectors(packed, scales, dim))


@pytest.mark.parametrize(("dim", "count"), [(2, 1), (9, 3), (9, 8), (150, 149), (150, 5)])
def test_the_product_is_orthogonal_however_it_is_rounded(dim, count):
    found = rotation_of(directions(dim, count))
    np.testing.assert_allclose(found @ found.T, np.eye(dim), atol=1e-12)


@pytest.mark.parametrize("count", [39, 6])
def test_the_directions_are_reached_up_to_rounding_and_signs(count):
    wanted = directions(40, count)
    along = np.abs((rotation_of(wanted)[:, :count] * wanted).sum(axis=0))
    assert along.mean() > 0.9


@pytest.mark.parametrize("dim", [2, 40, 300])
def test_a_matrix_is_rounded_row_by_row(dim):
    vectors = reflection_vectors(*rounded_reflections(directions(dim, dim - 1)), dim)
    matrix = product(vectors)
    numbers, scales = rounded_matrix(vectors)
    assert (numbers.dtype, scales.dtype) == (np.int8, np.float32)
    assert (np.abs(numbers).max(axis=1) == 127).all()
    assert (np.abs(numbers * scales[:, None] - matrix) <= 0.5001 * scales[:, None]).all()


def test_one_reflection_by_hand():
    """The reflection at (1, 1, 0) swaps two axes and turns them around."""
    vectors = reflection_vectors(np.array([[0x8C, 0x88, 0x88, 0x88]], np.uint8), np.array([0.25], np.float32), 3)
    np.testing.assert_allclose(vectors, [[1, 1, 0]])
    np.testing.assert_allclose(product(vectors), [[0, -1, 0], [-1, 0, 0], [0, 0, 1]], atol=1e-12)


def test_products_in_blocks_are_those_of_one_after_another():
    packed, scales = rounded_reflections(directions(200, 150))
    vectors = reflection_vectors(packed, scales, 200)
    expected = np.eye(200)
    for vector in vectors:
        expected = expected @ (np.eye(200) - np.outer(vector, vector))
    np.testing.assert_allclose(product(vectors), expected, atol=1e-12)
    rows = np.random.default_rng(1).normal(size=(7, 200))
    np.testing.assert_allclose(reflected(rows, vectors), rows @ expected, atol=1e-12)


@pytest.mark.parametrize("count", [1, 130, 199])
def test_exact_reflections_lead_to_the_directions(count):
    wanted = directions(200, 199)
    vectors = exact_reflections(wanted)[:count]
    along = np.abs((product(vectors)[:, :count] * wanted[:, :count]).sum(axis=0))
    np.testing.assert_allclose(along, 1, atol=1e-12)


def test_rounding_in_blocks_is_that_of_one_after_another():
    """Each reflection takes up what the ones before it were rounded to, in whatever block they are."""
    wanted = directions(300, 299)
    found = rotation_of(wanted)
    along = np.abs((found[:, :299] * wanted).sum(axis=0))
    assert along[150:].mean() > 0.95 * along[:100].mean()


def test_numbers_and_bytes():
    assert stored_numbers(1, 2) == 1
    assert stored_numbers(3, 5) == 4 + 3 + 2
    assert stored_numbers(99, 100) == 99 * 100 // 2
    assert packed_shape(3, 5) == (2, 4)  # nine numbers, eight to a row


def test_a_direction_that_is_an_axis_already():
    wanted = np.eye(5)[:, :2]
    found = rotation_of(wanted)
    np.testing.assert_allclose(np.abs(found), np.eye(5), atol=1e-12)


@pytest.mark.parametrize("scale", [3e38, -3e38, 0.0, 1e-45])
def test_no_scale_leads_beyond_the_numbers(scale):
    packed, scales = rounded_reflections(directions(6, 2))
    vectors = reflection_vectors(packed, np.full_like(scales, scale), 6)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(product(vectors) @ product(vectors).T, np.eye(6), atol=1e-12)
