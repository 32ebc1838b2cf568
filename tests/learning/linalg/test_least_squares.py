"""The best codewords for given codes, against a dense least-squares solver."""

from __future__ import annotations

import numpy as np
import pytest

from kdcode.learning.linalg import least_squares
from kdcode.learning.linalg.least_squares import solve_codewords

ROWS, DIM, SIZE, LENGTH = 200, 6, 5, 3


def setting():
    random = np.random.default_rng(0)
    vectors, words = (random.standard_normal(shape, dtype=np.float32) for shape in ((ROWS, DIM), (LENGTH, SIZE, DIM)))
    return vectors, random.integers(SIZE, size=(ROWS, LENGTH)), words


def sums(codes, words):
    return sum(words[position][codes[:, position]] for position in range(LENGTH))


def lost(vectors, codes, words):
    return float(np.square(vectors - sums(codes, words)).sum())


WAYS = ["exact", "formed", "not formed"]
"""A factorisation, conjugate gradients with the matrix, and without it."""


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    if request.param != "exact":
        monkeypatch.setattr(least_squares, "_MOST_EXACT", 0)
    if request.param == "not formed":
        monkeypatch.setattr(least_squares, "_MOST_EQUATIONS", 0)
    return request.param


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_codewords_reach_the_exact_least_squares_error(way, dtype):
    vectors, codes, words = setting()
    one_hot = np.eye(SIZE)[codes].reshape(ROWS, -1)
    best = float(np.square(one_hot @ np.linalg.lstsq(one_hot, vectors, rcond=None)[0] - vectors).sum())
    assert lost(vectors, codes, words) > 1.5 * best
    solved = solve_codewords(vectors, codes.astype(dtype), words)
    assert lost(vectors, codes, solved) == pytest.approx(best, rel=1e-4)


def test_a_few_steps_go_most_of_the_way(way):
    vectors, codes, words = setting()
    best, few = (lost(vectors, codes, solve_codewords(vectors, codes, words, steps=steps)) for steps in (None, 4))
    assert best <= few < best + 0.01 * (lost(vectors, codes, words) - best)


def test_rows_count_by_their_weight(way):
    vectors, codes, words = setting()
    counts = np.random.default_rng(1).integers(0, 4, ROWS)
    weighted = solve_codewords(vectors, codes, words, counts.astype(np.float32))
    repeated = solve_codewords(vectors.repeat(counts, 0), codes.repeat(counts, 0), words)
    evenly = solve_codewords(vectors, codes, words)
    np.testing.assert_allclose(sums(codes, weighted), sums(codes, repeated), atol=1e-3, rtol=0)
    assert np.abs(sums(codes, weighted) - sums(codes, evenly)).max() > 0.05


def test_codewords_that_no_row_uses_stay_and_a_solved_codebook_too(way):
    vectors, codes, words = setting()
    codes[:, 1] = codes[:, 1].clip(max=SIZE - 2)
    solved = solve_codewords(vectors, codes, words)
    assert np.array_equal(solved[1, SIZE - 1], words[1, SIZE - 1])
    best = lost(vectors, codes, solved)
    for steps in (None, 500):
        again = solve_codewords(vectors, codes, solved, steps=steps)
        assert lost(vectors, codes, again) == pytest.approx(best, abs=1e-5 * float(np.square(vectors).sum()))
        assert np.abs(again - solved).max() < 0.5


def test_one_row_and_rows_without_a_weight_are_no_trouble(way):
    vectors, codes, words = setting()
    for count, weights in ((1, None), (1, np.ones(1)), (ROWS, np.arange(ROWS) == 7)):
        solved = solve_codewords(
            vectors[:count], codes[:count], words, None if weights is None else weights.astype(np.float32)
        )
        assert np.isfinite(solved).all()
        row = 0 if count == 1 else 7
        np.testing.assert_allclose(sums(codes, solved)[row], vectors[row], atol=1e-3, rtol=1e-3)


def test_parts_of_the_table_add_up(monkeypatch, way):
    vectors, codes, words = setting()
    whole = solve_codewords(vectors, codes, words)
    monkeypatch.setattr(least_squares, "_SUM_ROWS", 7)
    parts = solve_codewords(vectors, codes, words)
    np.testing.assert_allclose(sums(codes, parts), sums(codes, whole), atol=1e-4, rtol=0)
