import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from kdcode.codec.row_scales import directions, fit_levels, length_ratios, nearest_level
from kdcode.errors import OptionError


def kept(scales, bits):
    """Scales as rows keep them."""
    levels = fit_levels(scales, bits)
    return levels[nearest_level(scales, levels)]


@given(stn.arrays(np.float32, st.integers(1, 60), elements=st.floats(0.125, 8, width=32)), st.integers(1, 8))
def test_every_scale_gets_the_nearest_level(scales, bits):
    levels = fit_levels(scales, bits)
    assert levels.shape == (1 << bits,)
    assert (np.diff(levels) >= 0).all()
    distances = np.abs(np.log(levels[None]) - np.log(scales)[:, None])
    chosen = np.abs(np.log(levels[nearest_level(scales, levels)]) - np.log(scales))
    np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-5)


def test_more_bits_are_nearer():
    scales = np.exp(np.random.default_rng(0).normal(size=5000)).astype(np.float32)
    lost = [float(np.abs(kept(scales, bits) / scales - 1).mean()) for bits in (2, 4, 8)]
    assert lost[0] > 3 * lost[1] > 20 * lost[2]
    even_steps = float(np.ptp(np.log(scales))) / 256 / 4
    assert lost[2] < 0.95 * even_steps


def test_a_scale_of_zero_stays_zero():
    scales = np.array([0, 1, 2, 0, 1, 2], dtype=np.float32)
    np.testing.assert_allclose(kept(scales, 2), scales, rtol=1e-6)
    assert kept(np.zeros(3, dtype=np.float32), 1).tolist() == [0, 0, 0]


def test_scales_that_are_few_enough_are_kept_as_they_are():
    scales = np.array([1, 3, 3, 1, 9], dtype=np.float32)
    np.testing.assert_allclose(kept(scales, 8), scales, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_scales_does_not_matter(unit):
    scales = np.exp(np.random.default_rng(0).normal(size=50)) * unit
    np.testing.assert_allclose(kept(scales.astype(np.float32), 8), scales, rtol=0.02)


def test_the_nearest_level_by_hand():
    levels = np.array([1, 4, 16], dtype=np.float32)  # borders at 2 and 8
    assert nearest_level(np.array([0, 0.5, 1.9, 2.1, 7.9, 8.1, 99], dtype=np.float32), levels).tolist() == [
        0, 0, 0, 1, 1, 2, 2,
    ]  # fmt: skip


def test_directions_are_one_long():
    vectors = np.array([[3, 4], [0, 0], [0, -2]], dtype=np.float32)
    np.testing.assert_allclose(directions(vectors), [[0.6, 0.8], [0, 0], [0, -1]], rtol=1e-6)
    np.testing.assert_allclose(directions(vectors[0]), [0.6, 0.8], rtol=1e-6)
    for unit in (1e-30, 1e30):
        np.testing.assert_allclose(directions(vectors[:1] * np.float32(unit)), [[0.6, 0.8]], rtol=1e-5)


def test_length_ratios_by_hand():
    vectors = np.array([[3, 4], [0, 0], [6, 8]], dtype=np.float32)
    copies = np.array([[0, 2], [1, 1], [0, 0]], dtype=np.float32)
    assert length_ratios(vectors, copies).tolist() == [2.5, 0, 1]


@pytest.mark.parametrize("bits", [0, 9])
def test_a_scale_has_one_to_eight_bits(bits):
    with pytest.raises(OptionError, match=f"scale_bits must be 1 to 8, got {bits}"):
        fit_levels(np.ones(3, dtype=np.float32), bits)
