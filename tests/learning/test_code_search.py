from itertools import product

import numpy as np
import pytest
import torch

from kdcode.learning import code_search
from kdcode.learning.code_search import SumSearch


def problem(rows=300, length=4, size=5, dim=6, seed=0):
    draw = torch.Generator().manual_seed(seed)
    words = torch.randn(length, size, dim, generator=draw)
    vectors = torch.randn(rows, dim, generator=draw) * 2
    codes = torch.randint(size, (rows, length), generator=draw)
    return SumSearch(words), vectors, codes


def nearest_of_all(search, vectors):
    """(n,) the least squared distance over all K^D codes."""
    every = torch.tensor(list(product(range(search.size), repeat=search.length)))
    sums = sum(search.words[position][every[:, position]] for position in range(search.length))
    return torch.cdist(vectors.double(), sums.double()).square().min(dim=1).values


@pytest.fixture(params=["tables", "residuals"])
def way(request, monkeypatch):
    if request.param == "residuals":
        monkeypatch.setattr(code_search, "_MOST_TABLE_FLOATS", 0)
    return request.param


def test_distances_are_those_of_the_composed_vectors():
    search, vectors, codes = problem()
    sums = torch.stack([search.words[j][codes[:, j]] for j in range(4)]).sum(dim=0)
    torch.testing.assert_close(search.distances(vectors, codes), (vectors - sums).square().sum(dim=1))


def test_a_sweep_ends_where_no_single_change_helps(way):
    search, vectors, codes = problem()
    found = search.improve(vectors, codes, [0.0] * 50, seed=1)
    best = search.distances(vectors, found)
    assert (best <= search.distances(vectors, codes) + 1e-4).all()
    for position, choice in product(range(search.length), range(search.size)):
        other = found.clone()
        other[:, position] = choice
        assert (search.distances(vectors, other) >= best - 1e-4).all()


def test_tables_and_residuals_find_the_same_codes(monkeypatch):
    search, vectors, codes = problem()
    by_tables = search.improve(vectors, codes, [0.5, 0.2, 0.0], seed=3)
    monkeypatch.setattr(code_search, "_MOST_TABLE_FLOATS", 0)
    by_residuals = SumSearch(search.words).improve(vectors, codes, [0.5, 0.2, 0.0], seed=3)
    assert search.pairs is not None
    assert float((by_tables == by_residuals).float().mean()) > 0.99  # rounding may tip a draw


def test_cooling_finds_the_best_codes_where_descent_stops_short(way):
    search, vectors, codes = problem(length=6, size=3)
    best = nearest_of_all(search, vectors)
    start, cold = [0.0] * 20, [*np.linspace(10, 0.2, 100), 0.0, 0.0]
    descended, cooled = (search.improve(vectors, codes, heats, seed=0) for heats in (start, cold))
    missed, left = (search.distances(vectors, found) - best for found in (descended, cooled))
    assert float(missed.mean()) > 0.1 * float(best.mean())
    assert -1e-4 < float(left.mean()) < 0.3 * float(missed.mean())


@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_choices_are_drawn_in_proportion_to_exp_of_minus_distance_over_temperature(temperature):
    search, vectors, codes = problem(rows=1, length=1, size=6, dim=3)
    many = vectors.expand(40_000, -1)
    drawn = search.improve(many, codes.expand(40_000, -1), [temperature], seed=5)
    distances = search.distances(vectors.expand(6, -1), torch.arange(6)[:, None])
    expected = torch.softmax(-distances / temperature, dim=0)
    share = torch.bincount(drawn[:, 0], minlength=6) / 40_000
    torch.testing.assert_close(share, expected, atol=0.015, rtol=0)


def test_keep_better_never_makes_a_row_worse():
    search, vectors, codes = problem()
    settled = search.improve(vectors, codes, [0.0] * 20, seed=0)
    shaken = search.improve(vectors, settled, [5.0], seed=0)
    kept = search.improve(vectors, settled, [5.0], seed=0, keep_better=True)
    before = search.distances(vectors, settled)
    assert (search.distances(vectors, shaken) > before + 0.1).any()
    assert (search.distances(vectors, kept) <= before).all()
    assert (search.distances(vectors, kept) < before - 0.01).any()


def test_a_seed_and_a_number_give_the_same_codes_whatever_the_threads():
    search, vectors, codes = problem(rows=9000)
    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(search.improve(vectors, codes, [1.0, 0.5], seed=7, number=2))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)
    assert not torch.equal(found[0], search.improve(vectors, codes, [1.0, 0.5], seed=8, number=2))
    assert not torch.equal(found[0], search.improve(vectors, codes, [1.0, 0.5], seed=7, number=3))


def test_codes_that_were_given_are_left_alone():
    search, vectors, codes = problem()
    before = codes.clone()
    search.improve(vectors, codes, [1.0, 0.0], seed=0)
    assert torch.equal(codes, before)
