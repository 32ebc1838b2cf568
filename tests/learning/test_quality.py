"""How good codes get on the whole embedded table; takes minutes."""

from __future__ import annotations

import pytest

import kdcode
from kdcode.data import glove_50d

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def error():
    def measure(**options):
        coded = kdcode.compress(glove_50d(), codebook_size=50, code_length=10, **options)
        return coded.provenance["relative_error"]

    gradient = {"learner": "straight-through"}
    return {
        "random codes": measure(learner="random"),
        "algorithm 1": measure(**gradient, curvature=0.0, refine_rounds=0),
        "random": measure(**gradient, start="random"),
        "warm": measure(**gradient, start="warm"),
        "lstm": measure(composition="lstm"),
        "additive": measure(),
    }


def test_learned_codes_are_far_better_than_random_ones(error):
    assert error["random"] < 0.3 * error["random codes"]


def test_curvature_and_refinement_improve_on_algorithm_1(error):
    assert error["random"] < 0.92 * error["algorithm 1"]


def test_both_starts_end_near_each_other(error):
    assert error["warm"] == pytest.approx(error["random"], rel=0.1)


def test_the_lstm_is_no_worse_than_linear(error):
    assert error["lstm"] <= error["random"]


def test_annealing_is_better_than_gradients(error):
    assert error["additive"] < min(error["random"], error["warm"])
