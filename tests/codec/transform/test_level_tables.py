"""Tables of levels: frequencies that add up, places of values, and what levels cost."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdcode.codec.transform.level_tables import PRECISION, TOTAL, LevelTables, as_lookup, fitted_tables
from kdcode.errors import OptionError


@pytest.fixture
def tables():
    """Of one context: magnitudes up to 2 and up to 0."""
    return LevelTables(
        np.array([[2, 0]], np.uint16),
        np.array([16384, 4096, 2048, 4096, 32000, 768], np.uint16),
        np.array([[128, 0]], np.uint8),
    )


def test_values_have_the_frequency_of_their_magnitude(tables):
    assert tables.count == 1
    assert tables.first.tolist() == [0, 6, 8]
    assert tables.sizes.tolist() == [16384, 4096, 4096, 2048, 2048, 4096, 32000, 768]
    assert tables.starts.tolist() == [0, 16384, 20480, 24576, 26624, 28672, 0, 32000]
    assert tables.places.tolist() == [0, 16384, 20480, 24576, 26624, 28672, TOTAL, TOTAL + 32000]
    assert tables.escapes.tolist() == [5, 1]
    assert tables.shift_of.tolist() == [0.25, 0]


def test_costs_are_the_bits_of_levels(tables):
    costs = tables.costs(6)
    np.testing.assert_allclose(costs[0, :3], [1, 3, 4])  # of 1/2, 1/8 and 1/16
    # Magnitude 3 has the values 5 and 6, the escape with an excess of 0 and 1: 1 or 3 bits more, and so on.
    np.testing.assert_allclose(costs[0, 3:], 3 + np.array([3, 5, 5, 7]))
    np.testing.assert_allclose(costs[1, 0], PRECISION - np.log2(32000), rtol=1e-6)
    np.testing.assert_allclose(tables.costs(1)[0], [1, 3])


@given(st.data())
def test_fitted_tables_add_up_whatever_was_counted(data):
    numbers = st.one_of(st.just(0.0), st.floats(0, 1e6), st.floats(0, 1))
    shape = (data.draw(st.integers(1, 3)), 2, data.draw(st.integers(1, 40)))
    size = prod(shape)
    flat = data.draw(st.lists(numbers, min_size=size, max_size=size))
    tables = fitted_tables(np.array(flat).reshape(shape), np.full(shape[:2], 0.1))  # which checks them
    assert (np.add.reduceat(tables.sizes, tables.first[:-1]) == TOTAL).all()
    assert tables.shifts.tolist() == [[51, 51]] * shape[0]


def test_fitted_tables_follow_the_counts():
    counts = np.array([[[600.0, 300, 90, 9, 1, 0, 0], [100, 800, 90, 9, 1, 0, 0]]])
    tables = fitted_tables(counts, np.zeros((1, 2)))
    assert tables.magnitudes.tolist() == [[4, 4]]
    taken = (counts[0, :, :5] * tables.costs(4)).sum()
    shares = np.concatenate([counts[0, :, :1], counts[0, :, 1:5] / 2], axis=1) / 1000
    best = -(counts[0, :, :5] * np.log2(shares)).sum()
    assert best < taken < best * 1.005
    more = counts.copy()
    more[0, 0, 5] = 1
    assert fitted_tables(more, np.zeros((1, 2))).magnitudes.tolist() == [[5, 4]]


def test_frequencies_that_save_less_than_they_take_are_not_stored():
    size = np.arange(400)
    counts = np.exp(-np.square(size / 100) / 2)[None, None].repeat(2, axis=1)
    many, few = (scale * counts / counts[0, 0].sum() for scale in (1e6, 200.0))
    every = fitted_tables(many, np.zeros((1, 2)))
    assert fitted_tables(many, np.zeros((1, 2)), stored_bits=16.0).magnitudes[0, 0] > 0.7 * every.magnitudes[0, 0]
    plain, cut = (fitted_tables(few, np.zeros((1, 2)), stored_bits=bits) for bits in (0.0, 16.0))
    assert cut.nbytes < 0.5 * plain.nbytes
    taken = [8 * tables.nbytes + (few[0] * tables.costs(399)).sum() for tables in (plain, cut)]
    assert taken[1] < taken[0]


@pytest.mark.parametrize("bits", [1, 5, 8, 15])
def test_a_lookup_leads_to_the_value_or_to_one_before_it(tables, bits):
    found = as_lookup(tables, bits)
    assert found.shape == (2, 1 << bits)
    for table in (0, 1):
        ends = tables.starts[tables.first[table] : tables.first[table + 1]]
        first_places = np.arange(1 << bits) << PRECISION - bits
        np.testing.assert_array_equal(found[table], np.searchsorted(ends, first_places, side="right") - 1)


@pytest.mark.parametrize(
    ("frequencies", "message"),
    [
        ([16384, 4096, 2048, 4096, 32000], "frequencies: expected 6 numbers for the given magnitudes, got 5"),
        ([16384, 4096, 2048, 4096, 32000, 767], "frequencies: those of table 1 add up to 32767, expected 32768"),
        ([16385, 4096, 2048, 4096, 32000, 768], "frequencies: those of table 0 add up to 32769"),
        ([28672, 0, 0, 4096, 32000, 768], "frequencies: expected numbers of at least 1"),
    ],
)
def test_tables_that_do_not_add_up_are_refused(tables, frequencies, message):
    with pytest.raises(OptionError, match=message):
        LevelTables(tables.magnitudes, np.array(frequencies, np.uint16), tables.shifts)


def test_without_signs_the_positive_values_alone_have_frequencies():
    tables = LevelTables(
        np.array([[2, 0]], np.uint16),
        np.array([16384, 8192, 4096, 4096, 32000, 768], np.uint16),
        np.array([[128, 0]], np.uint8),
        signs=False,
    )
    assert tables.sizes.tolist() == [16384, 8192, 0, 4096, 0, 4096, 32000, 768]
    assert tables.costs(2)[0].tolist() == [1, 2, 3]
    assert not tables.cut(1).signs
    assert not tables.extended(tables).signs


def test_counts_without_signs_take_a_bit_less_for_each_level():
    counts = np.tile([500.0, 250.0, 125.0, 125.0], (1, 2, 1))
    costs = [fitted_tables(counts, np.zeros((1, 2)), signs=signs).costs(3)[0] for signs in (True, False)]
    assert costs[0][0] == pytest.approx(costs[1][0], abs=0.01)
    assert costs[0][1:] - 1 == pytest.approx(costs[1][1:], abs=0.02)
