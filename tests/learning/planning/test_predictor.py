"""Predictions from a sample, and the formulas that they are made of."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.learning.planning import predictor
from kdcode.learning.planning.predictor import FITTED, Predictor, _grown, _power
from kdcode.options import CompressOptions

FAST = CompressOptions.of(effort="fast")


def test_a_sample_tells_what_all_rows_would_come_to(monkeypatch):
    table = glove_50d().head(2000)
    seen = kdcode.plan(table, "20x", options=FAST)
    monkeypatch.setitem(predictor._SAMPLE_ROWS, "fast", 1000)
    guessed = {one.options: one.relative_error for one in kdcode.plan(table, "20x", options=FAST).candidates}
    both = [candidate for candidate in seen.candidates if candidate.options in guessed]
    assert len(both) >= 5
    for candidate in both:
        assert guessed[candidate.options] == pytest.approx(candidate.relative_error, rel=0.12)


def test_each_setting_is_probed_once(monkeypatch):
    calls, original = [], Predictor._predict
    monkeypatch.setattr(Predictor, "_predict", lambda self, options: calls.append(options) or original(self, options))
    asked = Predictor(glove_50d().head(100), 0, "cpu")
    options = FAST.changed(codebook_size=4, code_length=3)
    first, again = asked.predict(options), asked.predict(options)
    assert first == again
    assert calls == [options]
    assert 0 < first.relative_error < 1
    assert first.seconds > 0


def test_rows_count_by_their_weight():
    matrix = glove_50d().head(300).matrix.copy()
    matrix[:200] = matrix[np.arange(200) % 4]  # two thirds of the rows are four vectors, which codes can hold exactly
    weights = np.where(np.arange(300) < 200, 1.0, 0.01)
    options = FAST.changed(codebook_size=4, code_length=2)
    even, weighted = (
        Predictor(kdcode.VectorTable(None, matrix, used), 0, "cpu").predict(options).relative_error
        for used in (None, weights)
    )
    reached = kdcode.compress(kdcode.VectorTable(None, matrix, weights), options).provenance
    assert weighted == pytest.approx(reached["weighted_error"], rel=0.1)
    assert weighted < 0.5 * even


def test_rounding_to_int8_is_counted_in():
    asked = Predictor(glove_50d().head(200), 0, "cpu")
    exact, coarse = (
        asked.predict(FAST.changed(codebook_size=4, code_length=40, codebook_dtype=dtype)).relative_error
        for dtype in ("float16", "int8")
    )
    assert exact < coarse < 1.2 * exact


@pytest.mark.parametrize("composition", ["linear", "product"])
def test_errors_grow_with_the_rows_as_far_as_half_of_them_tells(composition):
    options = FAST.changed(composition=composition)
    assert _grown(options, 0.2, 0.2, 10) == 0.2  # half the rows tell of no growth
    assert _grown(options, 0.3, 0.2, 10) == 0.2
    grown = [_grown(options, 0.18, 0.2, times) for times in (1, 2, 10, 1000)]
    assert grown[0] == pytest.approx(0.2)
    assert grown == sorted(grown)
    limit = 0.22 if composition == "product" else 0.2 * (0.2 / 0.18) ** (FITTED.saturation / math.log(2))
    assert grown[-1] <= limit * 1.05


def test_the_power_follows_effort_length_and_error():
    assert _power(FAST.changed(composition="product"), 0.3) == 1.0
    rotated = CompressOptions(composition="product", rotation=True)
    assert _power(rotated, 0.3) == FITTED.rotated_power
    long = [_power(CompressOptions.of(effort=effort, code_length=16), 0.3) for effort in ("fast", "normal", "best")]
    assert long == sorted(long)
    assert 0.3 ** _power(CompressOptions.of(effort="normal", code_length=8), 0.3) == pytest.approx(0.23, abs=0.005)
    assert _power(CompressOptions(), 0.01) > _power(CompressOptions(), 0.1) > _power(CompressOptions(), 0.3)
    assert _power(FAST.changed(code_length=100), 0.3) == FITTED.least_power
