"""The additive learner: annealing earns its time, any shape will do, rows count by weight."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.learning.additive import learner as module
from kdcode.learning.additive.annealing import SCHEDULES
from kdcode.learning.additive.learner import AdditiveLearner
from kdcode.learning.run import Run
from kdcode.learning.starts import random_start, warm_start
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions

FAST = CompressOptions.of(codebook_size=16, code_length=6, effort="fast", codebook_dtype="float32")
SHAPES = [
    {},
    {"codeword_dim": 20},
    {"composition": "product"},
    {"composition": "grouped"},
    {"composition": "grouped", "rotation": True},
]


def learner_of(table, options=FAST, make_start=warm_start):
    training = TrainingTable.of(table, options)
    start = make_start(training, options.spec(table.embedding_dim), options.seed)
    return AdditiveLearner(training, start, SCHEDULES[options.learning.effort], options.seed)


def error_of(table, options=FAST, **changes):
    return kdcode.compress(table, options=options, **changes).provenance["relative_error"]


def test_annealing_leaves_the_warm_start_far_behind():
    learner = learner_of(glove_50d().head(1000), FAST.changed(effort="normal"))
    reports = []
    start = learner.best.error
    best = learner.run(Run(len(learner.rounds), on_step=reports.append))
    searched = reports[0].loss
    assert searched < start
    assert best.error < 0.95 * searched
    assert best.error == pytest.approx(learner.training.error(best.codes, learner.model))
    assert [report.step for report in reports] == list(range(1, len(learner.rounds) + 1))
    drawn = [number for number, report in enumerate(reports) if math.isinf(report.temperature)]
    assert len(drawn) == 1
    assert reports[drawn[0]].loss > 0.8  # nothing is left of the codes before
    assert reports[drawn[0] - 1].loss > best.error


def test_more_effort_gives_less_error():
    table = glove_50d().head(600)
    fast, normal = (error_of(table, effort=effort) for effort in ("fast", "normal"))
    assert normal < 0.9 * fast
    long = {"codebook_size": 8, "code_length": 24}
    assert error_of(table, effort="normal", **long) <= error_of(table, effort="fast", **long)


def test_fast_effort_anneals_long_codes():
    learner = learner_of(glove_50d().head(600), FAST.changed(code_length=24))
    reports = []
    learner.run(Run(len(learner.rounds), on_step=reports.append))
    assert reports[-1].loss < 0.97 * reports[0].loss


def test_a_run_that_goes_wrong_ends_with_its_start(monkeypatch):
    learner = learner_of(glove_50d().head(300))
    before = learner.best.error
    monkeypatch.setattr(module, "solve_codewords", lambda _, __, words, *___, **____: 3 * words)
    best = learner.run(Run(0))
    assert best.error == before
    assert learner.training.error(best.codes, learner.model) == pytest.approx(before)


@pytest.mark.parametrize(("size", "length"), [(3, 5), (37, 3), (2, 9), (300, 2)])
def test_any_codebook_size_and_code_length_will_do(size, length):
    assert error_of(glove_50d().head(400), codebook_size=size, code_length=length) < 0.9


def test_short_codewords_come_with_the_best_basis():
    table = glove_50d().head(800)
    options = FAST.changed(codeword_dim=20, codebook_size=16, code_length=12)
    coded = kdcode.compress(table, options=options)
    assert coded.codec.basis.shape == (20, 50)
    matrix = table.matrix.astype(np.float64)
    values = np.linalg.svd(matrix, compute_uv=False) ** 2
    around_mean = np.square(matrix - matrix.mean(axis=0)).sum()
    cut_off = values[20:].sum() / around_mean  # what no code of 20 numbers can give back
    error = coded.provenance["relative_error"]
    gradient = options.changed(learner="straight-through", epochs=40)
    assert cut_off < error < error_of(table, gradient)


@pytest.mark.parametrize("changes", SHAPES)
def test_every_shape_learns_from_either_start(changes):
    options = FAST.changed(code_length=8, **changes)
    warm, random = (learner_of(glove_50d().head(400), options, make) for make in (warm_start, random_start))
    for learner, share in ((warm, 1.0), (random, 0.6)):
        before = learner.best.error
        assert learner.run(Run(0)).error < share * before


def test_product_codes_are_blocks_of_their_own():
    options = FAST.changed(composition="product", code_length=7)
    learner = learner_of(glove_50d().head(300), options)
    assert [block.width for block in learner.spec.blocks] == [8, 7, 7, 7, 7, 7, 7]
    best = learner.run(Run(0))
    warm = learner_of(glove_50d().head(300), options).best.error
    assert best.error < warm


@pytest.mark.parametrize("changes", SHAPES)
def test_rows_that_count_more_are_nearer(changes):
    matrix = glove_50d().head(600).matrix
    weights = np.where(np.arange(600) < 100, 20.0, 1.0)
    even, weighted = (
        kdcode.compress(kdcode.VectorTable(None, matrix, used), options=FAST, **changes) for used in (None, weights)
    )
    lost = [np.square(coded.decode(np.arange(100)) - matrix[:100]).sum() for coded in (even, weighted)]
    assert lost[1] < 0.85 * lost[0]
    assert "weighted_error" not in even.provenance
    copies = weighted.decode(np.arange(600))
    mean = weights @ matrix.astype(np.float64) / weights.sum()
    expected = (weights @ np.square(matrix - copies).sum(axis=1)) / (weights @ np.square(matrix - mean).sum(axis=1))
    assert weighted.provenance["weighted_error"] == pytest.approx(expected, rel=1e-3)


def test_the_scale_of_weights_is_no_matter_and_zero_leaves_a_row_out():
    matrix = glove_50d().head(300).matrix
    weights = np.where(np.arange(300) < 200, 1.0, 0.0)
    one, many = (
        kdcode.compress(kdcode.VectorTable(None, matrix, scale * weights), options=FAST) for scale in (1, 1000)
    )
    np.testing.assert_array_equal(one.codes, many.codes)
    alone = error_of(kdcode.VectorTable(None, matrix[:200]))
    assert one.provenance["weighted_error"] < 1.1 * alone


def test_it_stops_where_nothing_is_left_to_gain():
    words = np.random.default_rng(0).normal(size=(5, 8))
    table = kdcode.VectorTable(None, words[np.arange(200) % 5])
    reports = []
    coded = kdcode.compress(table, codebook_size=8, code_length=1, codebook_dtype="float32", progress=reports.append)
    assert coded.provenance["relative_error"] < 1e-9
    assert len(reports) < 5
    assert reports[-1].step == reports[-1].total_steps > 50
