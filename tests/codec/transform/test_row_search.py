"""The levels and the class of each row."""

import numpy as np
import pytest
from sample_tables import transform_codec

from kdcode import compiled
from kdcode.codec.transform.row_search import first_places, margin_of
from kdcode.codec.transform.row_search import search_rows as search_with
from kdcode.codec.transform.trellis import unsigned


def search_rows(coordinates, problem, allowed):
    """With the λ of usual rows."""
    return search_with(coordinates, np.full(len(coordinates), problem.trade, dtype=np.float32), allowed, problem)


HAS_NUMBA = pytest.mark.skipif(compiled.kernels(0) is None, reason="numba is not installed")


@pytest.fixture
def codec():
    return transform_codec(12)


def rows_of(spread, count=200, dim=12, seed=0):
    return (np.random.default_rng(seed).normal(size=(count, dim)) * spread).astype(np.float32)


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.5, 4, 50])
def test_rows_fit_into_their_class(codec, spread):
    step, allowed = codec.step_levels[1]
    assert step == 0.5
    levels, classes = search_rows(rows_of(spread), codec.problem, allowed)
    assert set(classes.tolist()) <= set(allowed.tolist())
    room = codec.coder.write(unsigned(levels), classes, None)[1]
    assert room.min() >= 0


def test_longer_rows_have_longer_classes(codec):
    _, allowed = codec.step_levels[0]
    lengths = [
        codec.problem.lengths[search_rows(rows_of(spread), codec.problem, allowed)[1]].mean() for spread in (0.1, 1, 3)
    ]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_what_does_not_fit_is_made_shorter_until_it_does(codec):
    """Coordinates that need far more bits than the longest class has are coded worse, and not refused."""
    _, allowed = codec.step_levels[0]
    levels, classes = search_rows(rows_of(100), codec.problem, allowed)
    assert (classes == allowed[-1]).all()
    assert (np.abs(levels).sum(axis=1) > 0).all()


def test_signs_are_those_of_the_coordinates(codec):
    coordinates = rows_of(3)
    levels, _ = search_rows(coordinates, codec.problem, codec.step_levels[0][1])
    assert (levels * coordinates >= 0).all()
    mirrored, _ = search_rows(-coordinates, codec.problem, codec.step_levels[0][1])
    np.testing.assert_array_equal(mirrored, -levels)


def test_the_first_class_that_is_tried_is_near_the_one_that_is_taken(codec):
    coordinates = rows_of(2)
    _, allowed = codec.step_levels[0]
    guessed = codec.problem.lengths[allowed[first_places(np.abs(coordinates), allowed, codec.problem)]]
    taken = codec.problem.lengths[search_rows(coordinates, codec.problem, allowed)[1]]
    assert abs(guessed.mean() - taken.mean()) < 2
    assert margin_of(100) > margin_of(1) > 0


def test_rows_are_searched_in_chunks_as_at_once(codec, monkeypatch):
    from kdcode.codec.transform import row_search

    coordinates = rows_of(2)
    whole = search_rows(coordinates, codec.problem, codec.step_levels[0][1])
    monkeypatch.setattr(row_search, "_NUMBERS_AT_ONCE", 12 * 7)
    parts = search_rows(coordinates, codec.problem, codec.step_levels[0][1])
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


@HAS_NUMBA
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("spread", [0.2, 2, 30])
def test_compiled_code_finds_the_same(plain, spread):
    codec = transform_codec(12, plain=plain)
    for _, allowed in codec.step_levels:
        coordinates = rows_of(spread)
        with compiled.using("1"):
            quick = codec.compiled.search(
                coordinates, np.full(len(coordinates), codec.problem.trade, dtype=np.float32), allowed, codec.problem
            )
        assert quick is not None
        slow = search_rows(coordinates, codec.problem, allowed)
        same = (quick[0] == slow[0]).all(axis=1) & (quick[1] == slow[1])
        assert same.mean() > 0.99  # float32 sums may be rounded in another order where two paths cost the same
