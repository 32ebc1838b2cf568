import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from kdcode.budget import scale_bytes
from kdcode.errors import OptionError, StorageError
from kdcode.row_scales import RowScales, directions


@given(stn.arrays(np.float32, st.integers(1, 60), elements=st.floats(0.125, 8, width=32)), st.integers(1, 8))
def test_every_scale_gets_the_nearest_level(scales, bits):
    kept = RowScales.of(scales, bits)
    assert kept.bits == bits
    assert kept.packed.nbytes + kept.levels.nbytes == scale_bytes(len(scales), bits)
    distances = np.abs(np.log(kept.levels[None]) - np.log(scales)[:, None])
    chosen = np.abs(np.log(kept.at(slice(None))) - np.log(scales))
    np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-5)


def test_more_bits_are_nearer():
    scales = np.exp(np.random.default_rng(0).normal(size=5000)).astype(np.float32)
    lost = [float(np.abs(RowScales.of(scales, bits).at(slice(None)) / scales - 1).mean()) for bits in (2, 4, 8)]
    assert lost[0] > 3 * lost[1] > 20 * lost[2]
    even_steps = float(np.ptp(np.log(scales))) / 256 / 4
    assert lost[2] < 0.95 * even_steps


def test_a_scale_of_zero_stays_zero():
    kept = RowScales.of(np.array([0, 1, 2, 0, 1, 2], dtype=np.float32), 2)
    np.testing.assert_allclose(kept.at(np.array([0, 3, 4, 5])), [0, 0, 1, 2], rtol=1e-6)
    assert RowScales.of(np.zeros(3, dtype=np.float32), 1).at(slice(None)).tolist() == [0, 0, 0]


def test_scales_that_are_few_enough_are_kept_as_they_are():
    scales = np.array([1, 3, 3, 1, 9], dtype=np.float32)
    np.testing.assert_allclose(RowScales.of(scales, 8).at(slice(None)), scales, rtol=1e-6)


def test_directions_are_one_long():
    vectors = np.array([[3, 4], [0, 0], [0, -2]], dtype=np.float32)
    np.testing.assert_allclose(directions(vectors), [[0.6, 0.8], [0, 0], [0, -1]], rtol=1e-6)
    np.testing.assert_allclose(directions(vectors[0]), [0.6, 0.8], rtol=1e-6)


@pytest.mark.parametrize("bits", [0, 9])
def test_a_scale_has_one_to_eight_bits(bits):
    with pytest.raises(OptionError, match=f"scale_bits must be 1 to 8, got {bits}"):
        RowScales.of(np.ones(3, dtype=np.float32), bits)


@pytest.mark.parametrize(
    ("packed", "levels", "message"),
    [
        (np.zeros((2, 1), np.uint8), np.ones(2, np.float32), r"scales.packed: expected shape \(1, 1 to 8\)"),
        (np.zeros((1, 9), np.uint8), np.ones(512, np.float32), "scales.packed"),
        (np.zeros((1, 2), np.uint8), np.ones(3, np.float32), "scales.levels: expected 4 finite numbers"),
        (np.zeros((1, 1), np.uint8), np.array([1, np.inf], np.float32), "scales.levels"),
        (np.zeros((1, 1), np.uint8), np.array([1, -1], np.float32), "at least 0"),
    ],
)
def test_what_cannot_be_is_refused(packed, levels, message):
    with pytest.raises(StorageError, match=message):
        RowScales(5, packed, levels)
