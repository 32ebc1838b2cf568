"""Where coordinates stay as they are, because many of them are exactly zero."""

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.evaluation.rate_distortion import gaussian_limit, principal_variances
from kdcode.learning.transform.design import design_codec
from kdcode.learning.transform.plain_basis import better_basis, frequent_values, scalar_error
from kdcode.learning.transform.rotation import chosen_rotation
from kdcode.learning.transform.sampling import table_sample
from kdcode.options import CompressOptions


def correlated(rows, dim, seed=0):
    random = np.random.default_rng(seed)
    return (random.normal(size=(rows, dim)) * np.geomspace(1, 0.1, dim)) @ np.linalg.qr(random.normal(size=(dim, dim)))[
        0
    ]


def basis_of(matrix, bits):
    """The rotation by the covariance, and what is made of it."""
    table = kdcode.VectorTable(None, np.asarray(matrix, dtype=np.float32))
    sample = table_sample(table, 0)
    rotation = chosen_rotation(sample.mean, sample.covariance, len(table), bits)
    return rotation, better_basis(rotation, sample.rows, len(table), bits)


def test_frequent_values_take_the_place_of_others():
    vectors = np.arange(300.0, dtype=np.float32).reshape(100, 3)
    vectors[::4, 1] = 7.0  # a quarter of the rows
    vectors[::5, 2], vectors[1::2, 2] = 3.0, -2.0  # the second one is more frequent
    vectors[:9, 0] = 0.5  # not frequent enough
    found = frequent_values(vectors, np.array([1.0, 2.0, 3.0], dtype=np.float32))
    assert found.tolist() == [1.0, 7.0, -2.0]


def test_the_only_values_of_few_rows_are_not_frequent():
    assert frequent_values(np.ones((3, 2), dtype=np.float32), np.zeros(2, dtype=np.float32)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_the_error_of_normal_numbers_is_known(bits):
    """At a high rate, rounding loses πe/6 times what no code could do without."""
    numbers = np.random.default_rng(0).normal(size=(20_000, 8)).astype(np.float32)
    assert scalar_error(numbers, 8.0 * bits) == pytest.approx(8 * np.pi * np.e / 6 * 4.0**-bits, rel=0.05)


def test_small_steps_are_reckoned_where_rows_are_few():
    numbers = np.random.default_rng(0).normal(size=(600, 8)).astype(np.float32)
    assert scalar_error(numbers, 8.0 * 9) == pytest.approx(8 * np.pi * np.e / 6 * 4.0**-9, rel=0.25)


def test_zeros_take_few_bits_and_large_numbers_more():
    numbers = np.random.default_rng(0).normal(size=(5000, 8)).astype(np.float32)
    zeros = np.where(np.random.default_rng(1).random(numbers.shape) < 0.5, 0, numbers).astype(np.float32)
    assert scalar_error(zeros, 24.0) < 0.2 * scalar_error(numbers, 24.0)
    assert scalar_error(np.abs(numbers), 24.0) < 0.4 * scalar_error(numbers, 24.0)  # without signs
    far = numbers.copy()
    far[0] = 1e6
    assert scalar_error(far, 24.0) > scalar_error(numbers, 24.0)
    assert scalar_error(np.zeros((5, 2), dtype=np.float32), 8.0) == 0.0


def test_coordinates_that_are_often_zero_stay():
    rotation, basis = basis_of(np.maximum(correlated(4000, 32), 0), 128.0)
    assert rotation.reflections
    assert not basis.reflections
    assert not basis.tensors["mean"].any()


@pytest.mark.parametrize("bits", [200.0, 80.0, 20.0])
def test_other_rows_are_rotated(bits):
    rotation, basis = basis_of(glove_50d().head(4000).matrix, bits)
    assert rotation.reflections
    assert basis is rotation


def test_rows_after_a_relu_lose_a_fraction_of_what_normal_rows_would():
    table = kdcode.VectorTable(None, np.maximum(correlated(4000, 32), 0).astype(np.float32))
    coded = kdcode.compress(table, "8x", effort="fast")
    assert (coded.spec.composition, coded.spec.reflections) == ("transform", 0)
    assert coded.provenance["relative_error"] < 0.1 * gaussian_limit(principal_variances(table), 128.0)
    assert not coded.spec.signs


def test_signs_are_there_if_any_row_has_a_negative_number():
    matrix = np.maximum(correlated(20_000, 8), 0).astype(np.float32)
    options = CompressOptions.of(composition="transform", row_bytes=4.0, effort="fast")
    last = np.argsort(np.linalg.norm(matrix, axis=1))[10_000]  # none that a sample would show
    for negative in (0.0, -0.5):
        matrix[last, 3] = negative
        found = design_codec(kdcode.VectorTable(None, matrix), len(matrix), options, quick=True)
        assert found.codec.spec.signs == (negative < 0)
