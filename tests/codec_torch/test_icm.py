"""Sweeps over codes: ICM and Gibbs sampling, against exhaustive search and the distribution they should draw from."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from kdcode.codec_torch import icm
from kdcode.codec_torch.icm import SumSearch


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
        monkeypatch.setattr(icm, "_MOST_TABLE_FLOATS", 0)
    return request.param


def test_distances_are_those_of_the_composed_vectors():
    search, vectors, codes = problem()
    sums = torch.stack([search.words[j][codes[:, j]] for j in range(4)]).sum(dim=0)
    torch.testing.assert_close(search.distances(vectors, codes), (vectors - sums).square().sum(dim=1))


def test_unary_and_pairwise_terms_add_up_to_distances(way):
    search, vectors, codes = problem()
    assert (search.pairs is None) == (way == "residuals")
    flat = codes + search.size * torch.arange(search.length)
    unary = search.unary(vectors)
    others = [position for position in range(search.length) if position != 2]
    costs = unary[:, 2] + search.pairwise(flat[:, others], 2)
    for choice in range(1, search.size):
        first, other = codes.clone(), codes.clone()
        first[:, 2], other[:, 2] = 0, choice
        rise = search.distances(vectors, other) - search.distances(vectors, first)
        torch.testing.assert_close(costs[:, choice] - costs[:, 0], rise, rtol=1e-4, atol=1e-3)


def test_icm_ends_where_no_single_change_helps(way):
    search, vectors, codes = problem()
    found = search.icm(vectors, codes, 50, seed=1)
    best = search.distances(vectors, found)
    assert (best <= search.distances(vectors, codes) + 1e-4).all()
    for position, choice in product(range(search.length), range(search.size)):
        other = found.clone()
        other[:, position] = choice
        assert (search.distances(vectors, other) >= best - 1e-4).all()


def test_tables_and_residuals_find_the_same_codes(monkeypatch):
    search, vectors, codes = problem()
    by_tables = search.gibbs_sweeps(vectors, codes, [0.5, 0.2, 0.0], seed=3)
    monkeypatch.setattr(icm, "_MOST_TABLE_FLOATS", 0)
    by_residuals = SumSearch(search.words).gibbs_sweeps(vectors, codes, [0.5, 0.2, 0.0], seed=3)
    assert search.pairs is not None
    assert float((by_tables == by_residuals).float().mean()) > 0.99  # rounding may tip a draw


def test_annealing_finds_the_best_codes_where_descent_stops_short(way):
    search, vectors, codes = problem(length=6, size=3)
    best = nearest_of_all(search, vectors)
    descent, annealing = [0.0] * 20, [*np.linspace(10, 0.2, 100), 0.0, 0.0]
    descended, annealed = (
        search.gibbs_sweeps(vectors, codes, temperatures, seed=0) for temperatures in (descent, annealing)
    )
    missed, left = (search.distances(vectors, found) - best for found in (descended, annealed))
    assert float(missed.mean()) > 0.1 * float(best.mean())
    assert -1e-4 < float(left.mean()) < 0.3 * float(missed.mean())


@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_choices_are_drawn_in_proportion_to_exp_of_minus_distance_over_temperature(temperature):
    search, vectors, codes = problem(rows=1, length=1, size=6, dim=3)
    many = vectors.expand(40_000, -1)
    drawn = search.gibbs_sweeps(many, codes.expand(40_000, -1), [temperature], seed=5)
    distances = search.distances(vectors.expand(6, -1), torch.arange(6)[:, None])
    expected = torch.softmax(-distances / temperature, dim=0)
    share = torch.bincount(drawn[:, 0], minlength=6) / 40_000
    torch.testing.assert_close(share, expected, atol=0.015, rtol=0)


def test_the_nearer_of_two_codes_is_kept_row_by_row():
    search, vectors, codes = problem()
    others = codes.flip(0)
    kept = search.nearer(vectors, others, codes)
    one, other = search.distances(vectors, codes), search.distances(vectors, others)
    assert bool((one < other).any())
    assert bool((other < one).any())
    torch.testing.assert_close(search.distances(vectors, kept), torch.minimum(one, other))


def test_icm_never_makes_a_row_worse(monkeypatch):
    search, vectors, codes = problem()
    codes = search.icm(vectors, codes, 20)
    before = search.distances(vectors, codes)
    monkeypatch.setattr(icm, "argmin_rows", lambda costs: costs.argmax(dim=1))  # the worst choice at every position
    shaken = search.gibbs_sweeps(vectors, codes, [0.0], seed=0)
    assert (search.distances(vectors, shaken) > before).all()
    assert torch.equal(search.icm(vectors, codes, 1), codes)


def test_icm_of_a_chunk_is_descent_with_the_unary_terms_given():
    search, vectors, codes = problem()
    found = search.icm_chunk(vectors, codes, 20, search.unary(vectors))
    assert float(search.distances(vectors, found).sum()) < 0.8 * float(search.distances(vectors, codes).sum())
    again = search.icm_chunk(vectors, found, 20, search.unary(vectors))
    assert torch.equal(again, found)


def test_a_seed_and_a_number_give_the_same_codes_whatever_the_threads():
    search, vectors, codes = problem(rows=9000)
    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(search.gibbs_sweeps(vectors, codes, [1.0, 0.5], seed=7, number=2))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)
    assert not torch.equal(found[0], search.gibbs_sweeps(vectors, codes, [1.0, 0.5], seed=8, number=2))
    assert not torch.equal(found[0], search.gibbs_sweeps(vectors, codes, [1.0, 0.5], seed=7, number=3))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_codes_that_were_given_are_left_alone_and_keep_their_type(dtype):
    search, vectors, codes = problem()
    codes = codes.to(dtype)
    before = codes.clone()
    found = search.gibbs_sweeps(vectors, codes, [1.0, 0.0], seed=0)
    assert torch.equal(codes, before)
    assert found.dtype == dtype
