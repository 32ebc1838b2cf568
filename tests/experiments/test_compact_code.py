from __future__ import annotations

import itertools

import compact_code
import numpy as np
import pytest
from compact_code import Scores

SIZE = 12


@pytest.fixture(scope="module")
def vectors():
    """144 words around 20 centres of unequal size, so that many want the same slots."""
    draw = np.random.default_rng(1)
    centres = draw.normal(size=(20, 6))
    return centres[np.minimum(draw.geometric(0.15, size=SIZE**2) - 1, 19)] + 0.3 * draw.normal(size=(SIZE**2, 6))


@pytest.fixture(scope="module")
def guess(vectors):
    return compact_code.first_guess(vectors, SIZE, seed=0, start="warm")


@pytest.fixture(scope="module")
def scores(vectors, guess):
    return Scores.of(vectors, guess[1])


def squared_error(vectors, slots, codewords):
    size = codewords.shape[1]
    copies = [codewords[0][slot // size] + codewords[1][slot % size] for slot in slots]
    return sum(float(np.sum((vector - copy) ** 2)) for vector, copy in zip(vectors, copies, strict=True))


def test_codewords_are_those_of_least_squares(vectors, guess):
    slots = guess[0]
    design = np.zeros((SIZE**2, 2 * SIZE))
    design[np.arange(SIZE**2), slots // SIZE] = 1
    design[np.arange(SIZE**2), SIZE + slots % SIZE] = 1
    best = design @ np.linalg.lstsq(design, vectors, rcond=None)[0]
    found = compact_code.compose(slots, compact_code.fit_codewords(vectors, slots, SIZE))
    np.testing.assert_allclose(found, best, atol=1e-10)


def test_the_dense_matching_has_the_least_squared_error_of_all_permutations():
    draw = np.random.default_rng(2)
    vectors, codewords = draw.normal(size=(4, 3)), draw.normal(size=(2, 2, 3))
    least = min(itertools.permutations(range(4)), key=lambda slots: squared_error(vectors, slots, codewords))
    found = compact_code.match_dense(Scores.of(vectors, codewords), np.arange(4))
    assert found.tolist() == list(least)


def test_the_table_of_scores_is_row_part_plus_column_part_less_price(scores):
    prices = np.arange(SIZE**2, dtype=float).reshape(SIZE, SIZE)
    table = scores.table(slice(3, 5), prices)
    assert table[1, 2 * SIZE + 7] == pytest.approx(scores.row[4, 2] + scores.column[4, 7] - prices[2, 7])


@pytest.mark.parametrize("match", [compact_code.match_dense, compact_code.match_priced])
def test_priced_and_dense_matchings_are_equally_good(scores, guess, match):
    slots = match(scores, guess[0])
    compact_code.check_slots(slots)
    assert scores.total(slots) == pytest.approx(scores.total(compact_code.match_dense(scores, guess[0])), rel=1e-9)


@pytest.mark.parametrize("match", [compact_code.match_nearest, compact_code.match_lines])
def test_cheaper_matchings_use_every_slot_once_and_lie_between_the_present_and_the_best(scores, guess, match):
    slots = match(scores, guess[0])
    compact_code.check_slots(slots)
    best = scores.total(compact_code.match_dense(scores, guess[0]))
    assert scores.total(guess[0]) < scores.total(slots) < best


def test_a_matching_can_keep_the_present_slots_whatever_the_candidates(scores, guess):
    slots = compact_code.match_nearest(scores, guess[0], candidates=1)
    assert slots.tolist() == guess[0].tolist()


def test_the_bound_is_above_the_best_matching_and_near_it(scores, guess):
    best = scores.total(compact_code.match_dense(scores, guess[0]))
    assert best <= compact_code.best_total(scores) < 1.02 * best
    assert scores.table(slice(None)).max(axis=1).sum() > 1.1 * best  # the bound without prices


def test_the_excess_is_that_of_squared_errors(vectors, scores, guess):
    slots, codewords = guess
    better = compact_code.match_dense(scores, slots)
    excess = compact_code.cost_excess(vectors, codewords, scores.total(slots), scores.total(better))
    expected = squared_error(vectors, slots, codewords) / squared_error(vectors, better, codewords) - 1
    assert excess == pytest.approx(expected)


@pytest.mark.parametrize("start", ["random", "warm"])
def test_the_error_falls_and_is_that_of_the_codes(vectors, start):
    found = compact_code.learn_compact_code(vectors, seed=0, start=start)
    compact_code.check_slots(found.slots)
    errors = [record["relative_error"] for record in found.rounds]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] - errors[-1] > 0.001
    variance = np.square(vectors - vectors.mean(axis=0)).sum()
    assert errors[-1] == pytest.approx(squared_error(vectors, found.slots, found.codewords) / variance)
    assert (found.codes @ [SIZE, 1]).tolist() == found.slots.tolist()


def test_a_planted_grid_is_found_again():
    draw = np.random.default_rng(5)
    rows, columns = draw.normal(size=(2, 8, 20)) * [[[3]], [[1]]]
    vectors = (rows[:, None] + columns).reshape(64, 20)[draw.permutation(64)]
    found = compact_code.learn_compact_code(vectors, seed=0)
    assert found.rounds[-1]["relative_error"] < 1e-9


def test_words_that_fill_no_square_are_refused(vectors):
    with pytest.raises(ValueError, match="square number of words, got 143"):
        compact_code.learn_compact_code(vectors[1:], seed=0)


@pytest.mark.parametrize("slots", [[0, 1, 2, 2], [0, 1, 2, 4]])
def test_a_slot_used_twice_or_outside_is_refused(slots):
    with pytest.raises(RuntimeError, match="not used exactly once"):
        compact_code.check_slots(np.array(slots))
