"""The levels and the class of each row."""

from dataclasses import replace

import numpy as np
import pytest
from kdcode.codec.transform.row_search import first_places, fitting_rows, margin_of, search_rows
from kdcode.codec.transform.trellis import unsigned
from sample_tables import transform_codec

from kdcode import compiled
from kdcode.codec.transform import row_search
from kdcode.errors import OptionError

HAS_NUMBA = pytest.mark.skipif(compiled.kernels(0) is None, reason="numba is not installed")


@pytest.fixture
def codec():
    return transform_codec(12)


def rows_of(spread, count=200, dim=12, seed=0):
    return (np.random.default_rng(seed).normal(size=(count, dim)) * spread).astype(np.float32)


def searched(codec, coordinates, step=0, trade=None, taken=0):
    """Levels and classes, with the classes of one of the steps."""
    trades = np.full(len(coordinates), codec.problem.trade if trade is None else trade, np.float32)
    spent = np.full(len(coordinates), taken, np.float32)
    return search_rows(coordinates, trades, spent, codec.encoder.step_levels[step][1], codec.problem)


def no_numbers(rows):
    """(n, 0) numbers of centroids, where there are none."""
    return np.empty((rows, 0), np.int64)


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("spread", [0.0, 0.3, 1.5, 4, 50])
def test_rows_fit_into_their_class(codec, spread, step):
    levels, classes = searched(codec, rows_of(spread), step)
    assert set(classes.tolist()) <= set(codec.encoder.step_levels[step][1].tolist())
    room = codec.coder.write(unsigned(levels), no_numbers(200), classes, None)[1]
    assert room.min() >= 0


def test_no_row_could_have_a_shorter_class_and_the_same_levels(codec):
    levels, classes = searched(codec, rows_of(3))
    allowed = codec.encoder.step_levels[0][1].tolist()
    shorter = np.array([allowed[max(0, allowed.index(own) - 1)] for own in classes])
    some = shorter != classes
    assert some.any()
    contexts, bits = codec.problem.contexts, codec.problem.costs.bits
    assert (codec.problem.lengths[shorter[some]] < codec.problem.lengths[classes[some]]).all()
    taken = bits[2 * contexts[classes[some]], np.abs(levels[some])].sum(axis=1)
    assert (taken > 8 * codec.problem.lengths[shorter[some]] - 24).mean() > 0.9  # near what the longer class is for


def test_longer_rows_have_longer_classes(codec):
    lengths = [codec.problem.lengths[searched(codec, rows_of(spread))[1]].mean() for spread in (0.1, 1, 3)]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_what_does_not_fit_is_made_shorter_until_it_does(codec):
    """Coordinates that need far more bits than the longest class has are coded worse, and not refused."""
    levels, classes = searched(codec, rows_of(100))
    assert (classes == codec.encoder.step_levels[0][1][-1]).all()
    assert (np.abs(levels).sum(axis=1) > 0).all()


def test_more_trade_makes_shorter_rows(codec):
    lengths = [
        codec.problem.lengths[searched(codec, rows_of(2), trade=trade)[1]].mean() for trade in (0.05, 0.45, 5, 100)
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


@pytest.mark.parametrize("taken", [1, 5, 12])
def test_bits_that_are_not_for_levels_are_kept_free(codec, taken):
    """As of the number of a centroid, which is written before the levels."""
    coordinates = rows_of(3)
    levels, classes = searched(codec, coordinates, taken=taken)
    room = codec.coder.write(unsigned(levels), no_numbers(200), classes, None)[1]
    assert room.min() >= taken
    usual = codec.problem.lengths[searched(codec, coordinates)[1]]
    assert (codec.problem.lengths[classes] >= usual).mean() > 0.95


def test_signs_are_those_of_the_coordinates(codec):
    coordinates = rows_of(3)
    levels, _ = searched(codec, coordinates)
    assert (levels * coordinates >= 0).all()
    np.testing.assert_array_equal(searched(codec, -coordinates)[0], -levels)


def test_the_first_place_is_the_shortest_that_plain_levels_fit_into(codec):
    sizes, problem, taken = np.abs(rows_of(3)), codec.problem, np.arange(200, dtype=np.float32) % 9
    allowed = codec.encoder.step_levels[0][1]
    level = (sizes / 2 + 0.4).astype(np.int64)
    expected = []
    for row in range(len(sizes)):
        bits = [problem.costs.bits[2 * problem.contexts[own], level[row]].sum() for own in allowed]
        room = 8 * problem.lengths[allowed] - problem.margin - taken[row]
        fits = [place for place in range(len(allowed)) if bits[place] <= room[place]]
        expected.append(fits[0] if fits else len(allowed) - 1)
    found = first_places(sizes, taken, allowed, problem)
    assert (found == expected).mean() > 0.95  # contexts differ between classes, so that bisection may miss one
    assert len(set(found.tolist())) > 1


def test_rows_are_searched_in_chunks_as_at_once(codec, monkeypatch):
    whole = searched(codec, rows_of(2))
    monkeypatch.setattr(row_search, "_NUMBERS_AT_ONCE", 12 * 7)
    for one, other in zip(whole, searched(codec, rows_of(2)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_that_are_a_little_too_long_are_searched_again(codec, monkeypatch):
    """With a margin that is too small some rows do not fit, and all do in the end."""
    coordinates, trades = rows_of(2)[:30], np.full(30, codec.problem.trade, np.float32)
    careless, allowed = replace(codec.problem, margin=-4.0), codec.encoder.step_levels[0][1]

    def write(values, numbers, classes):
        return codec.coder.write(values, numbers, classes, None)

    levels, classes = search_rows(coordinates, trades, np.zeros(30, np.float32), allowed, careless)
    assert (write(unsigned(levels), no_numbers(30), classes)[1] < 0).any()
    values, classes, room = fitting_rows((search_rows, write), coordinates, no_numbers(30), trades, allowed, careless)
    assert room.min() >= 0
    np.testing.assert_array_equal(write(values, no_numbers(30), classes)[1], room)
    short = replace(codec.problem, lengths=np.zeros_like(codec.problem.lengths))
    monkeypatch.setattr(row_search, "_MOST_MARGIN", 2)  # each margin before is a search of its own
    steps = (search_rows, lambda *_: (None, np.full(1, -1)))
    with pytest.raises(OptionError, match="lengths: rows of 0 bytes are too short for any code"):
        fitting_rows(steps, coordinates[:1], no_numbers(1), trades[:1], allowed, short)
    assert 0 < margin_of(12) < margin_of(1000) < 1


@HAS_NUMBA
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("most_taken", [0, 12])
@pytest.mark.parametrize("spread", [0.2, 2, 30])
def test_compiled_code_finds_the_same(plain, most_taken, spread):
    codec = transform_codec(12, plain=plain)
    taken = np.linspace(0, most_taken, 200, dtype=np.float32)
    coordinates, trades = rows_of(spread), np.full(200, codec.problem.trade, np.float32)
    for _, allowed in codec.encoder.step_levels:
        with compiled.using("1"):
            quick = codec.compiled.search(coordinates, trades, taken, allowed, codec.problem)
        assert quick is not None
        slow = search_rows(coordinates, trades, taken, allowed, codec.problem)
        same = (quick[0] == slow[0]).all(axis=1) & (quick[1] == slow[1])
        assert same.mean() > 0.99  # float32 sums may be rounded in another order where two paths cost the same
