"""Predictions from a sample, and the formulas that they are made of."""

from __future__ import annotations

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.learning.planning import predictor
from kdcode.learning.planning.block_probe import Probed
from kdcode.learning.planning.predictor import FITTED, Predictor, predicted_error, predicted_unseen_error, probe_rows
from kdcode.options import CompressOptions

FAST = CompressOptions.of(effort="fast")
SHAPES = {
    "sums": {"codebook_size": 16, "code_length": 12},
    "short sums": {"codebook_size": 32, "code_length": 3},
    "product": {"codebook_size": 16, "code_length": 10, "composition": "product"},
    "rotated product": {"codebook_size": 16, "code_length": 10, "composition": "product", "rotation": True},
    "rotated groups": {"codebook_size": 8, "code_length": 20, "composition": "grouped", "groups": 5, "rotation": True},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sample_tells_what_all_rows_come_to(shape, monkeypatch):
    table = glove_50d().head(4000)
    options = FAST.changed(codebook_dtype="int8", **SHAPES[shape])
    reached = kdcode.compress(table, options=options).provenance["relative_error"]
    monkeypatch.setattr(predictor, "_PRODUCT_ROWS", 2000)
    predicted = Predictor(table).predict(options).relative_error
    assert predicted == pytest.approx(reached, rel=0.06)


def test_each_setting_is_probed_once_and_told():
    table, told = glove_50d().head(100), []
    options = FAST.changed(codebook_size=4, code_length=3)
    asked = Predictor(table, on_new=lambda known: told.append(dict(known)))
    first, again = asked.predict(options), asked.predict(options)
    assert first == again
    assert len(told) == 1
    assert 0 < first.relative_error < 1
    assert first.seconds > 0
    resumed = Predictor(table, told[0], on_new=lambda known: pytest.fail("probed again"))
    assert resumed.predict(options) == first


def test_rows_count_by_their_weight():
    matrix = glove_50d().head(300).matrix.copy()
    matrix[:200] = matrix[np.arange(200) % 4]  # two thirds of the rows are four vectors, which codes can hold exactly
    weights = np.where(np.arange(300) < 200, 1.0, 0.01)
    options = FAST.changed(codebook_size=4, code_length=2)
    even, weighted = (
        Predictor(kdcode.VectorTable(None, matrix, used)).predict(options).relative_error for used in (None, weights)
    )
    reached = kdcode.compress(kdcode.VectorTable(None, matrix, weights), options=options).provenance
    assert weighted == pytest.approx(reached["weighted_error"], rel=0.1)
    assert weighted < 0.5 * even


def test_weights_of_unseen_rows_count_too(monkeypatch):
    monkeypatch.setattr(predictor, "_FEWEST_ROWS", 200)
    matrix = np.concatenate([glove_50d().head(1000).matrix, 1e-3 * glove_50d().head(1000).matrix])
    weights = np.repeat([1e-6, 1.0], 1000)  # only the small half counts
    options = FAST.changed(codebook_size=2, code_length=6)
    predicted = Predictor(kdcode.VectorTable(None, matrix, weights)).predict(options).relative_error
    reached = kdcode.compress(kdcode.VectorTable(None, matrix, weights), options=options).provenance["weighted_error"]
    assert predicted == pytest.approx(reached, rel=0.1)


@pytest.mark.parametrize("changes", [{"loss": "cosine"}, {"scale_bits": 4}])
def test_normalised_rows_are_probed_as_they_are_learned(changes, monkeypatch):
    monkeypatch.setattr(predictor, "_FEWEST_ROWS", 500)
    table = glove_50d().head(1000)
    longer = kdcode.VectorTable(None, table.matrix * np.linspace(0.1, 10, 1000, dtype=np.float32)[:, None])
    options = FAST.changed(codebook_size=8, code_length=6, **changes)
    one, other = (Predictor(used).predict(options).relative_error for used in (table, longer))
    assert one == pytest.approx(other, rel=0.01)


def test_rounding_to_int8_is_counted_in():
    asked = Predictor(glove_50d().head(200))
    exact, coarse = (
        asked.predict(FAST.changed(codebook_size=4, code_length=40, codebook_dtype=dtype)).relative_error
        for dtype in ("float16", "int8")
    )
    assert exact < coarse < 1.2 * exact


def test_the_error_of_all_rows_is_between_those_of_seen_and_unseen_ones():
    spec = FAST.changed(codebook_size=16, code_length=8).spec(50)
    found = Probed(0.2, 0.3, 0.0, 1.0, 1.0)
    assert predicted_error(found, spec, 1.0, "fast") == pytest.approx(0.2)
    some, few = (predicted_error(found, spec, share, "fast") for share in (0.5, 0.0))
    assert 0.2 < some < few < 0.3
    assert predicted_error(found._replace(unseen=None), spec, 0.1, "fast") == pytest.approx(0.2)
    assert predicted_error(found._replace(unseen=0.1), spec, 0.1, "fast") == pytest.approx(0.2)
    assert predicted_error(found._replace(rounding=0.01), spec, 1.0, "fast") == pytest.approx(0.21)
    assert predicted_error(found._replace(seen=0.9, rounding=0.4), spec, 1.0, "fast") == 1.0


def test_the_error_of_unseen_rows_falls_with_the_rows_that_are_learned_from():
    spec = FAST.changed(codebook_size=16, code_length=8).spec(50)
    found = Probed(0.2, 0.3, 0.0, 1.0, 1.0)
    factor = FITTED.unseen_sums["fast"]
    assert predicted_unseen_error(found, spec, 1.0, "fast") == pytest.approx(0.3 * factor)  # all rows: what was seen
    many, some = (predicted_unseen_error(found, spec, share, "fast") for share in (0.0, 0.5))
    assert factor * predicted_error(found, spec, 0.0, "fast") == pytest.approx(many)  # both meet at infinitely many
    assert many < some < 0.3 * factor
    assert predicted_unseen_error(found._replace(unseen=None), spec, 1.0, "fast") == pytest.approx(0.2)
    assert predicted_unseen_error(found._replace(unseen=0.1), spec, 1.0, "fast") == pytest.approx(0.2 * factor)
    assert predicted_unseen_error(found._replace(seen=0.9, rounding=0.4), spec, 1.0, "fast") == 1.0
    fast, normal = (predicted_unseen_error(found, spec, 0.5, effort) for effort in ("fast", "normal"))
    assert normal < fast


@pytest.mark.parametrize(
    "shape",
    [{"code_length": 4}, {"code_length": 10, "composition": "product", "rotation": True}],
    ids=["sum", "product"],
)
def test_predicted_errors_of_unseen_rows_are_near_those_of_whole_runs(shape):
    table = kdcode.VectorTable(None, glove_50d().matrix[np.random.default_rng(0).permutation(6000)])
    options = FAST.changed(codebook_size=32, **shape)
    predicted = Predictor(table).predict(options).unseen_error
    measured = kdcode.learn_codebook(table, options=options).provenance["unseen_error"]
    assert predicted == pytest.approx(measured, rel=0.1)


def test_more_effort_and_rotations_lower_the_error():
    found = Probed(0.2, 0.3, 0.0, 1.0, 1.0)
    sums = FAST.changed(codebook_size=16, code_length=8).spec(50)
    fast, normal, best = (predicted_error(found, sums, 1.0, effort) for effort in ("fast", "normal", "best"))
    assert fast > normal > best
    product = FAST.changed(codebook_size=16, code_length=10, composition="product")
    plain, rotated = (product.changed(rotation=turned).spec(50) for turned in (False, True))
    assert predicted_error(found, plain, 1.0, "normal") == pytest.approx(0.2)
    assert predicted_error(found, rotated, 1.0, "normal") == pytest.approx(0.2 * FITTED.rotated["normal"])


def test_probes_see_enough_rows_for_every_codeword():
    sums, groups, product = (
        FAST.changed(codebook_size=256, code_length=16, **shape).spec(64)
        for shape in ({}, {"composition": "grouped", "groups": 4}, {"composition": "product"})
    )
    assert probe_rows(sums, 10**6, "fast") == 4 * 16 * 256
    assert probe_rows(sums, 10**6, "normal") == 4 * 16 * 256  # a long probe already
    assert probe_rows(groups, 10**6, "normal") == 8 * 4 * 256
    assert probe_rows(groups, 10**6, "fast") == 4 * 4 * 256
    assert probe_rows(product, 10**6, "fast") == 8192
    assert probe_rows(FAST.changed(codebook_size=2, code_length=2).spec(64), 10**6, "fast") == 1500
    assert probe_rows(sums, 100, "fast") == 95  # some are left to test with
