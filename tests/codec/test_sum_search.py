"""The search of the core for sums of codewords, against plain loops; with tables of products and without."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdcode import _core
from kdcode.codec.sum_search import SumSearch, nearest_labels, product
from kdcode.errors import OptionError
from kdcode.threads import using_threads

SHAPES = [(5, 32, 8), (3, 7, 3), (1, 40, 5), (40, 96, 6)]
"""D, K and e; the last has no table, since it would be large."""


def task(shape, rows=150, seed=0):
    draw = np.random.default_rng(seed)
    words = (
        draw.standard_normal(shape, dtype=np.float32) * (0.8 ** np.arange(shape[0], dtype=np.float32))[:, None, None]
    )
    return 2 * draw.standard_normal((rows, shape[2]), dtype=np.float32), words + np.float32(0.5)


def errors(vectors, codes, words):
    sums = sum(words[position].astype(float)[codes[:, position]] for position in range(len(words)))
    return np.square(vectors - sums).sum(axis=1)


def plain_beam(vector, words, beam):
    """The error of the code that beam search finds for one vector, by the book."""
    means = words.astype(float).mean(axis=1)
    centred, left = words - means[:, None], vector - means.sum(axis=0)
    kept = [(left, ())]
    for position in np.argsort(-np.square(centred).sum(axis=(1, 2)), kind="stable"):
        longer = [(rest - word, (*code, k)) for rest, code in kept for k, word in enumerate(centred[position])]
        kept = sorted(longer, key=lambda partial: float(np.square(partial[0]).sum()))[:beam]
    return float(np.square(kept[0][0]).sum())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("beam", [1, 3, 20])
def test_beam_search_is_that_of_the_book(shape, beam):
    vectors, words = task(shape, rows=6)
    codes = SumSearch(words).encode(vectors, beam=beam)
    expected = [plain_beam(vector, words, beam) for vector in vectors]
    np.testing.assert_allclose(errors(vectors, codes, words), expected, rtol=1e-3, atol=1e-3)


@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 20), st.integers(1, 30), st.integers(0, 2**31))
@settings(deadline=None)
def test_any_shape_has_lawful_codes_that_sweeps_make_no_worse(length, size, dim, beam, seed):
    vectors, words = task((length, size, dim), rows=20, seed=seed)
    search = SumSearch(words)
    codes = search.encode(vectors, beam=beam)
    assert codes.min() >= 0
    assert codes.max() < size
    better = search.icm(vectors, codes, 3, seed=seed % 100)
    assert (errors(vectors, better, words) <= errors(vectors, codes, words) * (1 + 1e-4) + 1e-4).all()
    np.testing.assert_allclose(search.distances(vectors, codes), errors(vectors, codes, words), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_sweeps_end_where_no_other_codeword_is_nearer(shape):
    vectors, words = task(shape)
    found = SumSearch(words).icm(vectors, np.zeros((150, shape[0]), dtype=np.int32), 50)
    assert found.dtype == np.int32
    lost = errors(vectors, found, words)
    for position in range(shape[0]):
        for k in range(shape[1]):
            trial = found.copy()
            trial[:, position] = k
            assert (errors(vectors, trial, words) > lost * (1 - 1e-4) - 1e-3).all()


@pytest.mark.parametrize("shape", [(1, 6, 3), (40, 96, 6)])
def test_codes_are_drawn_with_the_probabilities_of_a_temperature(shape):
    """All positions but the first have one codeword that is far nearer than others."""
    vectors, words = task(shape, rows=1)
    words[1:] += 100
    words[1:, 0] = 0
    rows = np.repeat(vectors, 20_000, axis=0)
    start = np.zeros((len(rows), shape[0]), dtype=np.uint8)
    codes = SumSearch(words).gibbs_sweeps(rows, start, [7.0] * 2, seed=3)
    assert not codes[:, 1:].any()
    shares = np.exp(-np.square(vectors - words[0]).sum(axis=1) / 7.0)
    counts = np.bincount(codes[:, 0], minlength=shape[1]) / len(rows)
    np.testing.assert_allclose(counts, shares / shares.sum(), atol=0.015)


def test_rows_keep_codes_that_are_nearer():
    vectors, words = task((5, 32, 8))
    search = SumSearch(words)
    before = search.encode(vectors, beam=16, sweeps=4).astype(np.uint8)
    before[100:] = 0
    found, anew = search.encode(vectors, beam=1, before=before), search.encode(vectors, beam=1)
    assert found.dtype == np.uint8
    lost = errors(vectors, found, words)
    np.testing.assert_allclose(
        lost, np.minimum(errors(vectors, before, words), errors(vectors, anew, words)), rtol=1e-4
    )
    assert (lost[:100] < 0.999 * errors(vectors, anew, words)[:100]).any()


@pytest.mark.parametrize("shape", SHAPES)
def test_results_do_not_depend_on_threads_or_parts(shape):
    vectors, words = task(shape, rows=5000)
    start = np.random.default_rng(1).integers(0, shape[1], (5000, shape[0]))
    found = []
    for threads in (1, 3):
        with using_threads(threads):
            search = SumSearch(words)
            encoded = search.encode(vectors, beam=4, sweeps=2)
            found.append((encoded, search.gibbs_sweeps(vectors, start, [1.0, 0.0], seed=5)))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(search.encode(vectors[77:91], beam=4, sweeps=2), encoded[77:91])
    step = max(1024, min(4096, (1 << 21) // (shape[0] * shape[1])))
    later = SumSearch(words, first_row=step).gibbs_sweeps(vectors[step:], start[step:], [1.0, 0.0], seed=5)
    np.testing.assert_array_equal(later, found[0][1][step:])


def test_numbers_that_are_none_lead_to_lawful_codes():
    words = np.full((3, 20, 2), np.nan, dtype=np.float32)
    vectors = np.array([[np.nan, 1], [np.inf, 0], [3e38, -3e38]], dtype=np.float32)
    for search in (SumSearch(words), SumSearch(np.zeros_like(words))):
        codes = search.icm(vectors, search.encode(vectors, beam=4), 2)
        assert codes.min() >= 0
        assert codes.max() < 20


def test_products_are_made_in_one_order():
    draw = np.random.default_rng(0)
    rows, matrix = draw.standard_normal((50, 9), dtype=np.float32), draw.standard_normal((9, 21), dtype=np.float32)
    expected = np.zeros((50, 21), dtype=np.float32)
    for i in range(9):
        expected += rows[:, i : i + 1] * matrix[i]
    np.testing.assert_array_equal(product(rows, matrix), expected)


def test_the_border_refuses_what_does_not_fit_together():
    search, rows = _core.SumSearch(np.ones((2, 3, 4), dtype=np.float32)), np.ones((5, 4), dtype=np.float32)
    codes, order = np.zeros((5, 2), dtype=np.uint8), np.array([[0, 1]], dtype=np.uint32)
    warm, places = np.ones(1, dtype=np.float32), np.zeros((1, 2), dtype=np.uint64)
    cold, short = warm * 0, places[:, :1].copy()
    no_noise = np.empty(0, dtype=np.float32)
    cases = [
        (lambda: search.encode(rows[:, :3].copy(), 2, codes), "the rows must have shape"),
        (lambda: search.encode(rows, 2, codes[:4]), "the codes must have shape"),
        (lambda: search.encode(rows, 0, codes), "1 to 1,048,576"),
        (
            lambda: search.sweep(rows, codes + np.uint8(3), order, cold, places, no_noise, True),
            "codes must be below",
        ),
        (lambda: search.sweep(rows, codes, order + np.uint32(1), cold, places, no_noise, True), "below the code"),
        (lambda: search.sweep(rows, codes, order, warm, places, no_noise, True), "noise for each visit"),
        (
            lambda: search.sweep(rows, codes, order, cold, short, no_noise, True),
            "the places of noise",
        ),
        (lambda: _core.SumSearch(np.ones((2, 0, 4), dtype=np.float32)), "needs codewords"),
        (lambda: _core.nearest(rows, rows[:, :2].copy(), np.zeros(5, dtype=np.int64)), "as many numbers"),
        (lambda: _core.add_rows(rows, codes, 2, no_noise, 0, np.zeros((3, 4), dtype=np.float32)), "a code at this"),
    ]
    for call, words in cases:
        with pytest.raises(OptionError, match=words):
            call()
    assert (nearest_labels(rows, rows[:2]) == 0).all()
