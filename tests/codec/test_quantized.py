import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from kdcode.codec.quantized import DTYPE_BYTES, MOST_IN_SUM, Quantized, quantize, scale_shape
from kdcode.errors import OptionError

ONE = np.array([[[1.0, -2.0], [0.5, 127.0]], [[0.0, 0.0], [0.0, 0.0]]], dtype=np.float32)  # (2, 2, 2)
SMALL = [dtype for dtype in DTYPE_BYTES if dtype != "float32"]


def relative_error(values, found):
    values, found = (np.asarray(part, dtype=np.float64) for part in (values, found))
    return np.abs(found - values).max() / np.abs(values).max()


def test_float32_keeps_the_values():
    found = quantize(ONE, "float32")
    assert found.scale is None
    np.testing.assert_array_equal(found.values, ONE)
    assert quantize(ONE.astype(np.float64), "float32").stored.dtype == np.float32
    assert quantize(ONE.transpose(2, 1, 0), "float32").stored.flags.c_contiguous


def test_int8_by_hand():
    found = quantize(ONE, "int8")
    assert found.stored.tolist() == [[[1, -2], [0, 127]], [[0, 0], [0, 0]]]  # 0.5 goes to the even neighbour
    assert found.scale.shape == (2, 1, 1)
    assert found.scale[0, 0, 0] == 1
    assert found.values.dtype == np.float32


def test_float16_by_hand():
    # The largest number of the first index is 127, so its scale is 128; 1 becomes 1/128 and comes back exactly.
    found = quantize(ONE * np.float32(1 + 1e-5), "float16")
    assert found.stored.dtype == np.float16
    assert found.scale[0].tolist() == [[128]]
    np.testing.assert_array_equal(found.values, ONE)


def test_each_leading_index_has_its_own_scale():
    values = np.array([[1.0, 2.0, 4.0], [1e-9, 2e-9, 4e-9], [1e20, 2e20, 4e20]], dtype=np.float32)
    for dtype in SMALL:
        found = quantize(values, dtype)
        assert found.scale.shape == scale_shape(values.shape) == (3, 1)
        np.testing.assert_allclose(found.values, values, rtol=0.02)
        assert np.abs(found.stored[0] - found.stored[1]).max() <= 1


@given(stn.arrays(np.float32, (2, 3, 2), elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_int8_is_within_half_a_step(values):
    found = quantize(values, "int8")
    assert (np.abs(found.values - values) <= 0.501 * found.scale).all()


@given(stn.arrays(np.float32, (2, 3, 2), elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_float16_keeps_eleven_digits_of_the_largest(values):
    found = quantize(values, "float16")
    most = np.abs(values).max(axis=(1, 2), keepdims=True)
    kept = most > 1e-37
    assert (np.abs(found.values - values)[kept[:, 0, 0]] <= (2.0**-11 * most)[kept[:, 0, 0]]).all()
    assert (np.abs(found.stored) <= 1).all()


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("unit", [1e-35, 1e-25, 1e-7, 1.0, 1e5, 1e30])
def test_the_unit_of_the_numbers_does_not_matter(dtype, unit):
    values = np.random.default_rng(0).normal(size=(3, 8, 5)) * unit
    found = quantize(values.astype(np.float32), dtype)
    assert relative_error(values, found.values) < (0.005 if dtype == "int8" else 0.0005)


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("peak", [1e-45, 2.7e-43, 1e-38])
def test_values_at_the_edge_of_float32(dtype, peak):
    values = np.full((1, 2, 2), peak, dtype=np.float32)
    values[0, 0, 0] *= -1
    found = quantize(values, dtype)
    assert np.sign(found.stored).tolist() in ([[[-1, 1], [1, 1]]], [[[0, 0], [0, 0]]])
    assert np.abs(found.values - values).max() <= values.max()


def test_stored_numbers_are_multiplied_and_not_changed():
    stored = np.array([[1, -2, 3]], dtype=np.int8)
    found = Quantized(stored, np.array([[0.3]], dtype=np.float32))
    assert found.stored is stored
    assert found.values.tolist() == [[np.float32(0.3) * number for number in (1, -2, 3)]]


def test_what_a_dtype_cannot_hold_is_refused():
    with pytest.raises(OptionError, match="codebook_dtype must be one of float32, float16, int8, got 'int4'"):
        quantize(ONE, "int4")
    for dtype in DTYPE_BYTES:
        for value in (np.nan, np.inf):
            with pytest.raises(OptionError, match="must be finite"):
                quantize(np.full((1, 2, 2), value, np.float32), dtype)


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
def test_the_largest_number_of_each_leading_index(dtype):
    values = np.random.default_rng(0).normal(size=(5, 4, 3)) * np.array([1, 1e-30, 1e30, 0, 2])[:, None, None]
    stored = quantize(values, dtype)
    np.testing.assert_array_equal(stored.largest, np.abs(stored.values).max(axis=(1, 2)))


def test_the_least_int8_has_an_absolute_value_and_negative_scales_too():
    stored = np.array([[-128, 127], [3, 2]], dtype=np.int8)
    assert Quantized(stored, np.float32([[0.5], [-2]])).largest.tolist() == [64, 6]
    assert Quantized(stored, np.float32([[3e38], [1]])).largest.tolist() == [np.inf, 3]


def spread(largest):
    """Numbers whose leading indices have these largest absolute values."""
    values = np.random.default_rng(0).uniform(-1, 1, size=(len(largest), 20, 3))
    values[:, 0, 0] = 1
    return values * np.array(largest)[:, None, None]


def multipliers(scales):
    """Small integers that scales are to each other as; None where there are none."""
    for most in range(1, MOST_IN_SUM + 1):
        found = scales.astype(np.float64) * (most / float(scales.max()))
        whole = np.rint(found)
        if (np.abs(found - whole) <= 4e-7 * whole).all() and whole.sum() <= MOST_IN_SUM:
            return whole.astype(np.int16)
    return None


def test_scales_of_numbers_that_are_added_up_are_multiples_by_hand():
    found = quantize(spread([1.0, 0.5, 0.26]), "int8", [slice(0, 3)])
    whole = multipliers(found.scale.reshape(-1))
    assert whole.dtype == np.int16
    assert whole.sum() <= MOST_IN_SUM
    unit = found.scale.reshape(-1) / whole
    np.testing.assert_allclose(unit, unit[0], rtol=1e-6)


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40),
    st.integers(0, 40),
)
def test_scales_grow_a_little_or_not_at_all(largest, cut):
    groups = [slice(0, min(cut, len(largest))), slice(min(cut, len(largest)), len(largest))]
    groups = [group for group in groups if group.stop > group.start]
    values = spread(largest)
    alone, added = quantize(values, "int8"), quantize(values, "int8", groups)
    assert (added.scale >= alone.scale * (1 - 1e-6)).all()
    for group in groups:
        assert np.square(added.scale[group]).sum() <= 1.1001 * np.square(alone.scale[group]).sum()
        whole = multipliers(added.scale[group].reshape(-1))
        assert whole is None or whole.sum() <= MOST_IN_SUM
    assert (np.abs(added.values - values) <= added.scale * 0.501).all()


def test_scales_that_would_grow_much_stay_as_they_are():
    values = spread(np.linspace(0.76, 1, 100))  # the multiples could only be 1 and 2
    alone, added = quantize(values, "int8"), quantize(values, "int8", [slice(0, 100)])
    np.testing.assert_array_equal(added.scale, alone.scale)
    np.testing.assert_array_equal(added.stored, alone.stored)


def test_a_position_of_zeros_does_not_coarsen_the_others():
    values = spread([1e-4, 0.0, 2e-4])
    found = quantize(values, "int8", [slice(0, 3)])
    assert np.abs(found.values - values).max() < 1e-6
    assert np.isfinite(quantize(np.zeros((3, 2, 2)), "int8", [slice(0, 3)]).scale).all()
