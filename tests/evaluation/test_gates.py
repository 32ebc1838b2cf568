from dataclasses import fields, replace

import numpy as np
import pytest

from kdcode.errors import GateError, OptionError
from kdcode.evaluation import Gates, RowMatch, WordScore, evaluate
from kdcode.evaluation.gates import GATES, WEIGHTED, GateResult, require


@pytest.fixture(scope="module")
def found():
    random = np.random.default_rng(0)
    matrix = random.normal(size=(200, 5))
    lost = evaluate(matrix, matrix + random.normal(size=matrix.shape) / 2, "rank")
    return replace(
        lost, tests=(WordScore("similarity", "ws", 0.6, 0.55, 9, 9), WordScore("analogies", "g", 0.4, 0.5, 9, 9))
    )


VALUES = {
    "max_error": lambda found: found.relative_error,
    "min_cosine": lambda found: found.mean_cosine,
    "min_low_cosine": lambda found: found.cosine_percentiles[5],
    "max_norm_error": lambda found: found.norm_error,
    "min_recall": lambda found: found.recall_at_10,
    "min_correlation": lambda found: found.rank_correlation,
    "max_weighted_error": lambda found: found.weighted.relative_error,
    "min_weighted_cosine": lambda found: found.weighted.mean_cosine,
    "min_weighted_recall": lambda found: found.weighted.recall_at_10,
}


@pytest.mark.parametrize("name", VALUES)
def test_each_bound_is_kept_up_to_the_value_and_not_beyond(found, name):
    value = VALUES[name](found)
    assert 0 < value < 1
    beyond = np.nextafter(value, 2 if name.startswith("min") else -2)
    kept, missing = Gates(**{name: value}).check(found)
    assert (kept.gate, kept.value, kept.passed, missing.passed) == (name, value, True, True)
    broken, _ = Gates(**{name: beyond}).check(found)
    assert not broken.passed
    require([kept, missing])
    with pytest.raises(GateError, match=rf"1 of 2 gates failed: .* \({name}=\)"):
        require([broken, missing])


def test_every_bound_is_tested_above():
    assert {*VALUES, "max_drop", "max_missing"} == {item.name for item in fields(Gates)}
    assert {*VALUES} == {*GATES, *WEIGHTED}


def test_a_drop_is_looked_for_in_every_test(found):
    results = Gates(max_drop=0.01).check(found)
    assert [(result.measure, result.passed) for result in results] == [
        ("drop of ws", False),
        ("drop of g", True),
        ("symbols missing", True),
    ]
    assert all(result.passed for result in Gates(max_drop=0.0501).check(found))


def test_symbols_that_are_missing(found):
    lacking = replace(found, match=RowMatch(rows=200, only_in_original=3))
    assert Gates().check(lacking) == ()  # nothing was asked for
    assert [result.passed for result in Gates(max_error=9).check(lacking)] == [True, False]
    assert [result.passed for result in Gates(max_error=9, max_missing=3).check(lacking)] == [True, True]


def test_all_that_is_not_kept_is_listed_with_values_and_bounds(found):
    results = Gates(max_error=0.01, min_cosine=0.5, min_recall=0.999).check(found)
    with pytest.raises(GateError) as caught:
        require(results)
    assert str(caught.value) == (
        f"2 of 4 gates failed: relative error {found.relative_error:.6g} is above 0.01 (max_error=); "
        f"recall@10 {found.recall_at_10:.6g} is below 0.999 (min_recall=)"
    )


def test_a_value_that_is_no_number_keeps_to_no_bound():
    assert not GateResult("min_cosine", "mean cosine", float("nan"), 0.5).passed
    assert not GateResult("max_error", "relative error", float("nan"), 0.5).passed


def test_results_in_words_and_as_json():
    result = GateResult("min_cosine", "mean cosine", 0.87654321, 0.9)
    assert str(result) == "mean cosine 0.876543 is below 0.9"
    assert str(GateResult("max_error", "relative error", 0.1, 0.1)) == "relative error 0.1 is not above 0.1"
    assert result.as_dict() == {
        "gate": "min_cosine", "measure": "mean cosine", "value": 0.87654321, "bound": 0.9, "passed": False
    }  # fmt: skip


def test_bounds_for_what_is_not_measured_are_refused(found):
    plain = replace(found, weighted=None, tests=())
    with pytest.raises(OptionError, match="min_weighted_recall is a bound for measures by weight; give weights="):
        Gates(min_weighted_recall=0.5).check(plain)
    with pytest.raises(OptionError, match="max_drop is a bound for scores of word tests; give files with similarity="):
        Gates(max_drop=0.5).check(plain)
    with pytest.raises(OptionError, match="min_cosine must be a number from -1 to 1, got 90"):
        Gates(min_cosine=90)
