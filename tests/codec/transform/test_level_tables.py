"""Tables of levels: weights by counts, and the bits that levels take."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_tables import transform_codec

from kdcode.codec import Transform
from kdcode.codec.transform.level_tables import MAX_MAGNITUDE, LevelTables, fitted_tables
from kdcode.errors import OptionError


@pytest.fixture
def tables():
    """Of one context: magnitudes up to 2 and up to 0."""
    return LevelTables(np.array([[2, 0]], np.uint16), np.array([64, 32, 16, 32, 255, 15], np.uint8))


def core_bits(tables, magnitudes):
    """(T, 2, magnitudes) bits of levels as the core has them."""
    codec = transform_codec(7, plain=True)
    changes = {"contexts": tables.count, "weights": len(tables.weights), "signs": tables.signs}
    stored = {**codec.stored, "magnitudes": tables.magnitudes, "weights": tables.weights}
    stored["group_contexts"] = np.zeros_like(stored["group_contexts"])
    bits = np.empty((tables.count, 2, magnitudes), np.float32)
    Transform(replace(codec.spec, **changes), stored).core.level_bits(bits)
    return bits


def test_shares_are_those_of_weights(tables):
    assert tables.count == 1
    assert tables.first.tolist() == [0, 4, 6]
    wanted = np.array([16, 2 * 4, 2 * 2, 4]) / 32
    np.testing.assert_allclose(tables.shares[0], wanted)
    assert tables.shares[1][1] == pytest.approx(2**-15, rel=1e-3)
    assert tables.zero_bits[0] == pytest.approx(1)
    assert tables.entropies[0] == pytest.approx((0.5 + 0.25 * 2 + 0.125 * 3 + 0.125 * 3 + 0.375) / 2, abs=1e-3)


def test_bits_of_levels_are_those_of_shares(tables):
    bits = core_bits(tables, 7)
    np.testing.assert_allclose(bits[0, 0, :3], [1, 3, 4], atol=1e-3)  # of 1/2, 1/8 and 1/16
    np.testing.assert_allclose(bits[0, 0, 3:], 3 + np.array([3, 5, 5, 7]), atol=1e-3)  # an escape and its excess
    assert bits[0, 1, 0] == pytest.approx(0, abs=1e-3)


@given(st.data())
def test_fitted_tables_are_tables_whatever_was_counted(data):
    numbers = st.one_of(st.just(0.0), st.floats(0, 1e6), st.floats(0, 1))
    shape = (data.draw(st.integers(1, 3)), 2, data.draw(st.integers(1, 40)))
    size = prod(shape)
    flat = data.draw(st.lists(numbers, min_size=size, max_size=size))
    tables = fitted_tables(np.array(flat).reshape(shape))  # which checks them
    assert tables.count == shape[0]
    assert (np.maximum.reduceat(tables.weights, tables.first[:-1]) == 255).all()
    assert (core_bits(tables, 40) >= 0).all()


def test_fitted_tables_follow_the_counts():
    counts = np.array([[[600.0, 300, 90, 9, 1, 0, 0], [100, 800, 90, 9, 1, 0, 0]]])
    tables = fitted_tables(counts)
    assert tables.magnitudes.tolist() == [[4, 4]]
    taken = (counts[0, :, :5] * core_bits(tables, 5)[0]).sum()
    shares = np.concatenate([counts[0, :, :1], counts[0, :, 1:5] / 2], axis=1) / 1000
    best = -(counts[0, :, :5] * np.log2(shares)).sum()
    assert best < taken < best * 1.005
    more = counts.copy()
    more[0, 0, 5] = 1
    assert fitted_tables(more).magnitudes.tolist() == [[5, 4]]


def test_no_magnitude_beyond_the_largest_has_a_weight():
    tables = fitted_tables(np.ones((1, 2, MAX_MAGNITUDE + 100)))
    assert tables.magnitudes.tolist() == [[MAX_MAGNITUDE] * 2]


@pytest.mark.parametrize("count", [5, 7])
def test_weights_that_do_not_fit_are_refused(tables, count):
    with pytest.raises(OptionError, match=f"weights: expected 6 numbers for the given magnitudes, got {count}"):
        LevelTables(tables.magnitudes, np.zeros(count, np.uint8))


def test_tables_of_some_contexts_and_of_more(tables):
    both = LevelTables(np.tile(tables.magnitudes, (2, 1)), np.tile(tables.weights, 2))
    assert tables.extended(both).weights.tolist() == both.weights.tolist()
    assert both.extended(tables) is both
    assert both.cut(1).weights.tolist() == tables.weights.tolist()


def test_without_signs_a_level_takes_a_bit_less():
    counts = np.tile([500.0, 250.0, 125.0, 125.0], (1, 2, 1))
    signed, positive = (core_bits(fitted_tables(counts, signs=signs), 4)[0, 0] for signs in (True, False))
    assert signed[0] == pytest.approx(positive[0], abs=0.05)
    np.testing.assert_allclose(signed[1:] - 1, positive[1:], atol=0.05)
    tables = fitted_tables(counts, signs=False)
    assert not tables.cut(1).signs
    assert not tables.extended(tables).signs
