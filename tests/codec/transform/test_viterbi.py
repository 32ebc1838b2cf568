"""The Viterbi algorithm: the best of all paths, which for short rows can be tried one by one."""

from itertools import product

import numpy as np
import pytest
from kdcode.codec.transform.trellis import transitions
from kdcode.codec.transform.viterbi import FAR, LevelCosts, best_paths

from kdcode.codec.transform.level_tables import fitted_tables

MOST = 5


def costs_of(states, seed=0):
    random = np.random.default_rng(seed)
    counts = np.exp(-np.arange(MOST + 1) / random.uniform(0.5, 3, size=(3, 2, 1)))
    tables = fitted_tables(1000 * counts, random.uniform(0, 0.3, size=(3, 2)))
    return LevelCosts(tables.costs(MOST), tables.shift_of, states)


def every_path(sizes, contexts, trade, costs):
    """The final state, the cost, the bits and the magnitudes of every path of one row."""
    following = transitions(costs.states)
    for magnitudes in product(range(MOST + 1), repeat=len(sizes)):
        state, bits, error = 0, 0.0, 0.0
        for size, context, magnitude in zip(sizes, contexts, magnitudes, strict=True):
            quantizer = state & 1
            table = 2 * context + quantizer
            lies = 2 * magnitude - quantizer - costs.shifts[table] if magnitude else 0.0
            error += (size - lies) ** 2
            bits += costs.bits[table, magnitude]
            state = following[state, magnitude & 1]
        yield state, error + trade * bits, bits, magnitudes


@pytest.mark.parametrize("states", [1, 4, 8])
@pytest.mark.parametrize("trade", [0.0, 0.45, 5.0])
def test_it_finds_the_best_of_all_paths(states, trade):
    random = np.random.default_rng(states)
    costs = costs_of(states)
    sizes = np.abs(random.normal(size=(6, 4)) * 4).astype(np.float32)
    contexts = random.integers(0, 3, size=(6, 4))
    paths = best_paths(sizes, contexts, np.full(6, trade, np.float32), costs)
    for row in range(6):
        best = dict.fromkeys(range(states), (float(FAR), 0.0, ()))
        for state, cost, bits, magnitudes in every_path(sizes[row], contexts[row], trade, costs):
            best[state] = min(best[state], (cost, bits, magnitudes))
        for state, (cost, _, magnitudes) in best.items():
            if not magnitudes:
                assert paths.total[row, state] == FAR
                continue
            assert paths.total[row, state] == pytest.approx(cost, rel=1e-5)
            assert paths.errors[row, state] + trade * paths.bits[row, state] == pytest.approx(cost, rel=1e-4)
            own = paths.magnitudes(np.full(6, state))[row]
            again = [
                other for end, other, _, tried in every_path(sizes[row], contexts[row], trade, costs)
                if end == state and tried == tuple(own.tolist())
            ]  # fmt: skip
            assert again[0] == pytest.approx(cost, rel=1e-5)


def test_states_that_no_path_reaches_are_far():
    paths = best_paths(np.ones((2, 1), np.float32), np.zeros((2, 1), int), np.ones(2, np.float32), costs_of(8))
    reached = paths.total[0] < FAR
    assert np.flatnonzero(reached).tolist() == sorted(transitions(8)[0].tolist())
    assert (paths.errors[:, ~reached] == FAR).all()


def test_coordinates_beyond_the_largest_level_take_the_largest():
    costs = costs_of(8)
    paths = best_paths(np.full((1, 6), 1e4, np.float32), np.zeros((1, 6), int), np.zeros(1, np.float32), costs)
    found = paths.magnitudes(paths.total.argmin(axis=1))[0]
    assert set(found.tolist()) <= {MOST, MOST - 1}


def test_more_trade_makes_shorter_rows():
    random = np.random.default_rng(0)
    sizes = np.abs(random.normal(size=(50, 30)) * 2).astype(np.float32)
    bits = []
    for trade in (0.0, 0.3, 1.0, 10.0):
        paths = best_paths(sizes, np.zeros((50, 30), int), np.full(50, trade, np.float32), costs_of(8))
        best = paths.total.argmin(axis=1)
        bits.append(float(np.take_along_axis(paths.bits, best[:, None], axis=1).mean()))
    assert bits == sorted(bits, reverse=True)
    assert bits[0] > 2 * bits[-1]
