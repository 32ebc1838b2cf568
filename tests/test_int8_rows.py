"""Rows of int8 in memory: rounded to the nearest, and multiplied as precisely as float32."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdcode import _core
from kdcode.errors import OptionError
from kdcode.int8_rows import int8_rows, int8_scores


@given(rows=st.integers(1, 90), dim=st.integers(1, 40), seed=st.integers(0, 99))
def test_rows_are_rounded_by_half_a_step_at_most(rows, dim, seed):
    random = np.random.default_rng(seed)
    vectors = (random.normal(size=(rows, dim)) * 10.0 ** random.integers(-20, 20, size=(rows, 1))).astype(np.float32)
    vectors[0] = 0
    numbers, scales = int8_rows(vectors)
    assert numbers.dtype == np.int8
    assert int(np.abs(numbers.astype(int)).max()) <= 127
    assert (np.abs(numbers * scales[:, None].astype(float) - vectors) <= 0.501 * scales[:, None]).all()


@given(rows=st.integers(1, 100), dim=st.integers(1, 50), queries=st.integers(1, 70), seed=st.integers(0, 99))
def test_scores_are_those_in_float64(rows, dim, queries, seed):
    random = np.random.default_rng(seed)
    numbers, scales = int8_rows(random.normal(size=(rows, dim)).astype(np.float32))
    asked = random.normal(size=(queries, dim)) * 100
    expected = asked @ (numbers * scales[:, None].astype(float)).T
    sizes = np.abs(asked).max(axis=1)[:, None] * np.abs(numbers * scales[:, None].astype(float)).sum(axis=1)
    assert (np.abs(int8_scores(numbers, scales, asked) - expected) <= 1e-6 * sizes).all()


def test_threads_give_the_same():
    random = np.random.default_rng(0)
    numbers, scales = int8_rows(random.normal(size=(70_000, 9)).astype(np.float32))
    asked = random.normal(size=(3, 9)).astype(np.float32)
    np.testing.assert_array_equal(int8_scores(numbers, scales, asked, 3), int8_scores(numbers, scales, asked))


def test_arrays_that_do_not_fit_are_refused():
    numbers, scales, queries = np.zeros((5, 3), np.int8), np.ones(5, np.float32), np.zeros((2, 3))
    scores = np.zeros((2, 5), np.float32)
    with pytest.raises(OptionError, match="the scales must have shape"):
        _core.score_int8(numbers, scales[:4], queries, 0, 5, scores)
    with pytest.raises(OptionError, match="the queries must have shape"):
        _core.score_int8(numbers, scales, queries[:, :2].copy(), 0, 5, scores)
    with pytest.raises(OptionError, match="the scores must have shape"):
        _core.score_int8(numbers, scales, queries, 0, 5, scores[:1])
    with pytest.raises(OptionError, match="from one row"):
        _core.score_int8(numbers, scales, queries, 0, 6, scores)


def test_numbers_that_are_not_finite_stay_with_their_query():
    numbers, scales = int8_rows(np.random.default_rng(0).normal(size=(50, 9)).astype(np.float32))
    asked = np.random.default_rng(1).normal(size=(3, 9))
    clean = int8_scores(numbers, scales, asked)
    for wrong in (np.nan, np.inf, -np.inf):
        asked[1, 4] = wrong
        found = int8_scores(numbers, scales, asked)
        assert np.isnan(found[1]).all()
        np.testing.assert_array_equal(found[[0, 2]], clean[[0, 2]])
