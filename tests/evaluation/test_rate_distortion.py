from itertools import pairwise

import numpy as np
import pytest
from sample_tables import coded_table

from kdcode import VectorTable
from kdcode.evaluation.rate_distortion import gaussian_limit, principal_variances


def test_one_direction():
    # D(R) = σ²·2^(−2R)
    assert gaussian_limit([7.0], 0) == 1
    assert gaussian_limit([7.0], 1) == pytest.approx(1 / 4)
    assert gaussian_limit([7.0], 2.5) == pytest.approx(2**-5)


def test_reverse_water_filling_by_hand():
    # Up to one bit only the first direction is coded, down to the level of the second: 4 to 1. Then both share.
    assert gaussian_limit([4.0, 1.0], 0.5) == pytest.approx((2 + 1) / 5)
    assert gaussian_limit([1.0, 4.0], 1) == pytest.approx((1 + 1) / 5)
    assert gaussian_limit([4.0, 1.0], 3) == pytest.approx((0.25 + 0.25) / 5)


@pytest.mark.parametrize("bits", [0, 0.3, 2, 17, 300])
def test_the_bits_are_used_up_at_the_water_level(bits):
    variances = np.random.default_rng(0).random(30) ** 6
    found = gaussian_limit(variances, bits) * variances.sum()
    low, high = 0.0, variances.max()
    for _ in range(200):  # the level whose error this is
        level = (low + high) / 2
        low, high = (level, high) if np.minimum(variances, level).sum() < found else (low, level)
    used = np.maximum(np.log2(variances / high), 0).sum() / 2
    assert used == pytest.approx(bits, abs=1e-6)


def test_the_unit_and_the_order_do_not_matter_and_more_bits_help():
    variances = np.random.default_rng(1).random(20)
    limits = [gaussian_limit(variances, bits) for bits in range(40)]
    assert limits == pytest.approx([gaussian_limit(variances[::-1] * 1e30, bits) for bits in range(40)])
    assert all(one > other for one, other in pairwise(limits))


def test_directions_without_variance_cost_nothing():
    assert gaussian_limit([4.0, 1.0, 0.0, -1e-18], 3) == gaussian_limit([4.0, 1.0], 3)
    assert gaussian_limit([0.0, 0.0], 3) == 0


def test_the_limit_of_a_small_error_is_not_zero():
    assert gaussian_limit(np.ones(100), 3200) == pytest.approx(2.0**-64)


def test_variances_are_the_spectrum_of_the_covariance():
    matrix = np.random.default_rng(0).normal(size=(9000, 4)) * [1, 5, 2, 0] + 3
    found = principal_variances(VectorTable(None, matrix.astype(np.float32)))
    expected = np.linalg.eigvalsh(np.cov(matrix.T, bias=True))[::-1]
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    coded = coded_table("linear", rows=50)
    assert principal_variances(coded) == pytest.approx(principal_variances(coded.to_table()))
