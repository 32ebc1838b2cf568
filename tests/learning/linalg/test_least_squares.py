"""The best codewords for given codes, against a dense least-squares solver."""

from __future__ import annotations

import pytest
import torch

from kdcode.learning.linalg import least_squares
from kdcode.learning.linalg.least_squares import solve_codewords

ROWS, DIM, SIZE, LENGTH = 200, 6, 5, 3


def setting():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(ROWS, DIM, generator=generator)
    codes = torch.randint(SIZE, (ROWS, LENGTH), generator=generator)
    return vectors, codes, torch.randn(LENGTH, SIZE, DIM, generator=generator)


def sums(codes, words):
    return torch.stack([words[position][codes[:, position].long()] for position in range(LENGTH)]).sum(dim=0)


def lost(vectors, codes, words):
    return float((vectors - sums(codes, words)).square().sum())


WAYS = ["exact", "formed", "not formed"]
"""Cholesky factorisation, conjugate gradients with the matrix, and without it."""


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    if request.param != "exact":
        monkeypatch.setattr(least_squares, "_MOST_EXACT", 0)
    if request.param == "not formed":
        monkeypatch.setattr(least_squares, "_MOST_EQUATIONS", 0)
    return request.param


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_codewords_reach_the_exact_least_squares_error(way, dtype):
    vectors, codes, words = setting()
    one_hot = torch.nn.functional.one_hot(codes, SIZE).flatten(1).double()
    exact = one_hot @ torch.linalg.lstsq(one_hot, vectors.double(), driver="gelsd").solution
    best = float((exact - vectors).square().sum())
    assert lost(vectors, codes, words) > 1.5 * best
    solved = solve_codewords(vectors, codes.to(dtype), words)
    assert lost(vectors, codes, solved) == pytest.approx(best, rel=1e-4)


def test_a_few_steps_go_most_of_the_way(way):
    vectors, codes, words = setting()
    best, few = (lost(vectors, codes, solve_codewords(vectors, codes, words, steps=steps)) for steps in (None, 4))
    assert best <= few < best + 0.01 * (lost(vectors, codes, words) - best)


def test_rows_count_by_their_weight(way):
    vectors, codes, words = setting()
    counts = torch.randint(0, 4, (ROWS,), generator=torch.Generator().manual_seed(1))
    weighted = solve_codewords(vectors, codes, words, counts.float())
    repeated = solve_codewords(vectors.repeat_interleave(counts, 0), codes.repeat_interleave(counts, 0), words)
    evenly = solve_codewords(vectors, codes, words)
    torch.testing.assert_close(sums(codes, weighted), sums(codes, repeated), atol=1e-3, rtol=0)
    assert (sums(codes, weighted) - sums(codes, evenly)).abs().max() > 0.05


def test_codewords_that_no_row_uses_stay_and_a_solved_codebook_too(way):
    vectors, codes, words = setting()
    codes[:, 1] = codes[:, 1].clamp_max(SIZE - 2)
    solved = solve_codewords(vectors, codes, words)
    assert torch.equal(solved[1, SIZE - 1], words[1, SIZE - 1])
    best = lost(vectors, codes, solved)
    for steps in (None, 500):
        again = solve_codewords(vectors, codes, solved, steps=steps)
        assert lost(vectors, codes, again) == pytest.approx(best, abs=1e-5 * float(vectors.square().sum()))
        assert (again - solved).abs().max() < 0.5


def test_one_row_and_rows_without_a_weight_are_no_trouble(way):
    vectors, codes, words = setting()
    for count, weights in ((1, None), (1, torch.ones(1)), (ROWS, (torch.arange(ROWS) == 7).float())):
        solved = solve_codewords(vectors[:count], codes[:count], words, weights)
        assert torch.isfinite(solved).all()
        row = 0 if count == 1 else 7
        torch.testing.assert_close(sums(codes, solved)[row], vectors[row], atol=1e-3, rtol=1e-3)


def test_parts_of_the_table_add_up(monkeypatch, way):
    vectors, codes, words = setting()
    whole = solve_codewords(vectors, codes, words)
    monkeypatch.setattr(least_squares, "_SUM_ROWS", 7)
    parts = solve_codewords(vectors, codes, words)
    torch.testing.assert_close(sums(codes, parts), sums(codes, whole), atol=1e-4, rtol=0)
