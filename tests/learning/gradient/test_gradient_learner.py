"""Algorithm 1: the best state is kept, unused codewords are revived, curvature is what it is said to be."""

from __future__ import annotations

import pytest
import torch

import kdcode
from kdcode.codec import CodewordSpec
from kdcode.codec_torch import make_module
from kdcode.data import glove_50d
from kdcode.learning.gradient.learner import GradientLearner
from kdcode.learning.gradient.learners import tensor_start
from kdcode.learning.gradient.refinement import solve_if_better
from kdcode.learning.gradient.tensors import TensorStart, TensorTable
from kdcode.learning.run import Run
from kdcode.learning.training_table import TrainingTable
from kdcode.nn import estimators
from kdcode.options import CompressOptions, GradientOptions

OPTIONS = GradientOptions(epochs=6, batch_size=100)
COMPOSITIONS = [{}, {"codeword_dim": 10}, {"composition": "lstm", "codeword_dim": 20}, {"composition": "product"}]


def setting(rows=400, **changes):
    options = CompressOptions(8, 4, codebook_dtype="float32").changed(**changes)
    table = TrainingTable.of(glove_50d().head(rows), options)
    spec = CodewordSpec.named(options.composition, 50, 8, 4, codeword_dim=options.codeword_dim)
    return TensorTable(table), spec


@pytest.mark.parametrize("changes", COMPOSITIONS)
@pytest.mark.parametrize("kind", ["warm", "random"])
def test_it_never_ends_worse_than_it_started(changes, kind):
    training, spec = setting(**changes)
    start = tensor_start(training.table, spec, 0, kind)
    before = training.error(start.codes, start.module)
    rough = GradientOptions(batch_size=100, codeword_lr=5.0, epochs=2)  # rates that ruin everything
    best = GradientLearner(training, start, rough).run(Run(0))
    assert best.error <= before
    start.module.load_state_dict(best.weights)
    assert training.error(best.codes, start.module) == pytest.approx(best.error, rel=1e-5)


@pytest.mark.parametrize("changes", COMPOSITIONS)
def test_learned_codes_are_better_than_random_ones_with_the_best_weights(changes):
    training, spec = setting(**changes)
    best = GradientLearner(
        training, tensor_start(training.table, spec, 0, "random"), GradientOptions(epochs=30, batch_size=100)
    )
    learned = best.run(Run(0)).error
    control = tensor_start(training.table, spec, 0, "random")
    solve_if_better(training, control.codes, control.module)
    assert learned < 0.92 * solve_if_better(training, control.codes, control.module)


def test_unused_codewords_are_revived():
    training, spec = setting()
    module = make_module(spec, generator=torch.Generator().manual_seed(0))
    codes = torch.zeros(400, 4, dtype=torch.long)  # every symbol uses codeword 0, the other 28 are dead
    learner = GradientLearner(training, TensorStart(codes, module, "warm"), GradientOptions(epochs=20, batch_size=100))
    seen = []
    learner.run(Run(80, on_step=lambda report: seen.append(report.unused_codewords)))
    assert max(seen) > 0
    assert seen[-1] == 0


def curvatures(monkeypatch, **changes):
    """The curvature of every update of a run."""
    original, seen = estimators.ESTIMATORS["straight-through"], []

    def spy(*args, curvature, **more):
        seen.append(curvature)
        return original(*args, curvature=curvature, **more)

    monkeypatch.setitem(estimators.ESTIMATORS, "straight-through", spy)
    options = CompressOptions(8, 4, learner=GradientOptions(epochs=5, batch_size=100, refine_rounds=0))
    kdcode.compress(glove_50d().head(100), options=options, **changes)
    assert len(seen) == 5 or "composition" in changes
    return seen


@pytest.mark.parametrize("changes", [{}, {"composition": "lstm"}, {"start": "warm"}])
def test_curvature_0_is_algorithm_1_in_every_stage(monkeypatch, changes):
    seen = curvatures(monkeypatch, curvature=0.0, **changes)
    assert seen
    assert all(value is None for value in seen)


def test_curvature_is_phased_in():
    training, spec = setting(rows=100)
    learner = GradientLearner(training, tensor_start(training.table, spec, 0, "random"), OPTIONS)
    rows = torch.arange(100)
    strength = []
    for step in (0, 3, 6):
        learner.step = step
        found = learner._second_derivatives(rows, 5000)
        strength.append(0.0 if found is None else float(found[0]) * 5000)  # the gain of a sum is 1
    assert strength == pytest.approx([0, 0.4, 0.8], rel=1e-5)
    learned = GradientLearner(
        training, tensor_start(training.table, spec, 0, "warm")._replace(origin="learned"), OPTIONS
    )
    assert float(learned._second_derivatives(rows, 5000)[0]) * 5000 == pytest.approx(0.8, rel=1e-5)
