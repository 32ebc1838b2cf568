"""Rotations as products of rounded reflections."""

import numpy as np
import pytest
from kdcode.codec.transform.reflections import (
    exact_reflections,
    packed_shape,
    product,
    reflected,
    reflection_vectors,
    rounded_reflections,
    stored_numbers,
)


def directions(dim, count, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0][:, :count]


def rotation_of(wanted, bits, dtype=np.float64):
    packed, scales = rounded_reflections(wanted, bits)
    dim, count = wanted.shape
    assert packed.shape == packed_shape(count, dim, bits)
    return product(reflection_vectors(packed, scales, dim, bits, dtype))


@pytest.mark.parametrize("bits", [4, 5, 6, 8])
@pytest.mark.parametrize(("dim", "count"), [(2, 1), (9, 3), (9, 8), (150, 149), (150, 5)])
def test_the_product_is_orthogonal_however_it_is_rounded(dim, count, bits):
    found = rotation_of(directions(dim, count), bits)
    np.testing.assert_allclose(found @ found.T, np.eye(dim), atol=1e-12)
    single = rotation_of(directions(dim, count), bits, np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, found, atol=2e-5)


@pytest.mark.parametrize(("bits", "least"), [(4, 0.9), (6, 0.993), (8, 0.9995)])
def test_the_directions_are_reached_up_to_rounding_and_signs(bits, least):
    wanted = directions(40, 39)
    along = np.abs((rotation_of(wanted, bits)[:, :39] * wanted).sum(axis=0))
    assert along.mean() > least
    few = directions(40, 6)
    along = np.abs((rotation_of(few, bits)[:, :6] * few).sum(axis=0))
    assert along.mean() > least


def test_one_reflection_by_hand():
    """The reflection at (1, 1, 0) swaps two axes and turns them around."""
    vectors = reflection_vectors(np.array([[0x8C, 0x88, 0x88, 0x88]], np.uint8), np.array([0.25], np.float32), 3, 4)
    np.testing.assert_allclose(vectors, [[1, 1, 0]])
    np.testing.assert_allclose(product(vectors), [[0, -1, 0], [-1, 0, 0], [0, 0, 1]], atol=1e-12)


def test_products_in_blocks_are_those_of_one_after_another():
    packed, scales = rounded_reflections(directions(200, 150), 6)
    vectors = reflection_vectors(packed, scales, 200, 6)
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
    found = rotation_of(wanted, 4)
    along = np.abs((found[:, :299] * wanted).sum(axis=0))
    assert along[150:].mean() > 0.95 * along[:100].mean()


def test_numbers_and_bytes():
    assert stored_numbers(1, 2) == 1
    assert stored_numbers(3, 5) == 4 + 3 + 2
    assert stored_numbers(99, 100) == 99 * 100 // 2
    assert packed_shape(3, 5, 6) == (2, 6)  # nine numbers, eight to a row


def test_a_direction_that_is_an_axis_already():
    wanted = np.eye(5)[:, :2]
    found = rotation_of(wanted, 6)
    np.testing.assert_allclose(np.abs(found), np.eye(5), atol=1e-12)


@pytest.mark.parametrize("scale", [3e38, -3e38, 0.0, 1e-45])
def test_no_scale_leads_beyond_the_numbers(scale):
    packed, scales = rounded_reflections(directions(6, 2), 6)
    vectors = reflection_vectors(packed, np.full_like(scales, scale), 6, 6, np.float32)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(product(vectors) @ product(vectors).T, np.eye(6), atol=1e-5)
