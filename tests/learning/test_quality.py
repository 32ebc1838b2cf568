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

    return {
        "random codes": measure(learner="random"),
        "plain": measure(start="random", curvature=0.0, settle=0),
        "random": measure(start="random"),
        "warm": measure(start="warm"),
        "lstm": measure(start="random", composition="lstm"),
    }


def test_learned_codes_are_far_better_than_random_ones(error):
    assert error["random"] < 0.3 * error["random codes"]


def test_the_curvature_and_the_refits_earn_their_keep(error):
    assert error["random"] < 0.92 * error["plain"]


def test_both_starts_end_near_each_other(error):
    assert error["warm"] == pytest.approx(error["random"], rel=0.1)


def test_the_lstm_is_no_worse_than_linear(error):
    assert error["lstm"] <= error["random"]
