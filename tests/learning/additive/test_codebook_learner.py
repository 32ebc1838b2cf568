"""CodebookLearner: rounds with noise, and the rows that rounds are judged by."""

from __future__ import annotations

import numpy as np
import pytest

from kdcode.codec import CodewordSpec
from kdcode.data import glove_50d
from kdcode.learning.additive.annealing import SCHEDULES
from kdcode.learning.additive.codebook_learner import (
    CODEBOOK_SCHEDULES,
    CodebookLearner,
    NoiseSchedule,
    left_to_judge,
)
from kdcode.learning.run import Run
from kdcode.learning.starts import warm_start
from kdcode.learning.training_table import TrainingTable

LINEAR = CodewordSpec.named("linear", 50, 16, 4)


def training_of(rows, weights=None):
    vectors = glove_50d().matrix[:rows].astype(np.float32)
    return TrainingTable.standardised(vectors, weights)


def learned(rounds, rows=800):
    seen, judged = left_to_judge(training_of(rows), 0)
    learner = CodebookLearner(
        seen, judged, warm_start(seen, LINEAR, 0), NoiseSchedule(rounds, SCHEDULES["fast"]), seed=0
    )
    before = learner.best.error
    return learner, before, learner.run(Run(len(learner.rounds))).error


def test_noise_fades_and_more_effort_has_more_rounds():
    counts = []
    for effort in ("fast", "normal", "best"):
        noise = [planned.noise for planned in CODEBOOK_SCHEDULES[effort].plan(LINEAR)]
        assert noise[0] == 0  # tells the scale
        assert noise[1:] == sorted(noise[1:], reverse=True)
        assert (noise[1], noise[-1]) == (3.0, pytest.approx(0.05))
        counts.append(len(noise))
    assert counts == sorted(set(counts))


def test_rotated_product_codes_are_annealed_first():
    rotated, plain = (CodewordSpec.named("product", 50, 16, 5, rotation=turned) for turned in (True, False))
    annealed = SCHEDULES["normal"].plan(rotated)
    planned = CODEBOOK_SCHEDULES["normal"].plan(rotated)
    assert planned[: len(annealed)] == annealed
    assert all(one.noise for one in planned[len(annealed) :])
    assert not any(one.temperatures for one in CODEBOOK_SCHEDULES["normal"].plan(plain))


def test_rounds_lower_the_error_of_rows_that_are_not_learned_from():
    _, before, after = learned(10, rows=3000)
    assert after < 0.98 * before


def test_the_state_that_is_kept_is_the_best_for_the_rows_to_judge_by():
    learner, _, after = learned(6)
    assert learner._error() == pytest.approx(after)  # the model has it
    assert after == learner.best.error


def test_rows_to_judge_by_are_not_learned_from():
    training = training_of(800, weights=np.random.default_rng(0).random(800, dtype=np.float32))
    seen, judged = left_to_judge(training, 0)
    assert (len(seen), len(judged)) == (780, 20)
    both = np.concatenate([seen.vectors, judged.vectors])
    assert len(np.unique(both, axis=0)) == len(np.unique(training.vectors, axis=0))
    assert seen.variance + judged.variance == pytest.approx(training.variance)
    assert seen.weights.sum() + judged.weights.sum() == pytest.approx(training.weights.sum(), rel=1e-5)


def test_few_rows_are_for_both():
    training = training_of(300)
    assert left_to_judge(training, 0) == (training, training)
