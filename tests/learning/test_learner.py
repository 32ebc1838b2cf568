"""The loop of updates: best state, revival of codewords, starts."""

from __future__ import annotations

import pytest
import torch

from kdcode.budget import CodeShape
from kdcode.data import glove_50d
from kdcode.learning.composition import LinearComposition, make_composition
from kdcode.learning.learner import GradientLearner
from kdcode.learning.run import Run
from kdcode.learning.settle import settle_codes
from kdcode.learning.starts import STARTS, Start, first_logits, lstm_start
from kdcode.learning.target import Target, can_shift
from kdcode.options import CompressOptions

OPTIONS = CompressOptions(codebook_size=8, code_length=4, epochs=6, batch_size=100)
COMPOSITIONS = [("linear", 50), ("linear", 10), ("lstm", 20), ("product", 13)]


def setting(composition="linear", width=50, rows=400, start="warm"):
    shape = CodeShape(rows, 50, 8, 4, width, composition, "float32")
    target = Target.of(glove_50d().head(rows), centred=can_shift(shape))
    return target, shape, STARTS[start](target, shape, 0)


@pytest.mark.parametrize(("composition", "width"), COMPOSITIONS)
@pytest.mark.parametrize("start_name", ["warm", "random"])
def test_it_never_ends_worse_than_it_started(composition, width, start_name):
    target, _, start = setting(composition, width, start=start_name)
    before = target.error(start.codes, start.composition)
    rough = OPTIONS.changed(start=start_name, codeword_rate=5.0, epochs=2)  # rates that ruin everything
    best = GradientLearner(target, start, rough, learn_codes=True).run(Run(0))
    assert best.error <= before
    start.composition.load_state_dict(best.weights)
    assert target.error(best.codes, start.composition) == pytest.approx(best.error, rel=1e-5)


@pytest.mark.parametrize(("composition", "width"), COMPOSITIONS)
def test_a_warm_start_is_far_better_than_a_random_one(composition, width):
    errors = {}
    for name in ("warm", "random"):
        target, _, start = setting(composition, width, start=name)
        errors[name] = target.error(start.codes, start.composition)
    assert errors["warm"] < 0.75 * errors["random"]


@pytest.mark.parametrize(("composition", "width"), COMPOSITIONS)
def test_first_logits_stand_for_the_codes_of_a_warm_start(composition, width):
    target, _, start = setting(composition, width)
    assert torch.equal(first_logits(target, start, "warm", 0).argmax(dim=-1), start.codes)


def test_first_logits_fall_with_the_true_cost_of_a_swap():
    target, shape, start = setting(rows=50)
    logits = first_logits(target, start, "warm", 0)
    errors = target.row_errors(start.codes, start.composition)
    for row, position in ((0, 0), (7, 2), (30, 3)):
        for value in range(shape.codebook_size):
            swapped = start.codes.clone()
            swapped[row, position] = value
            rise = target.row_errors(swapped, start.composition)[row] - errors[row]
            if value != start.codes[row, position]:
                expected = -0.1 * max(float(rise), 0)
                assert float(logits[row, position, value]) == pytest.approx(expected, abs=1e-3)


def test_an_lstm_starts_as_the_linear_composition_it_is_given():
    start = setting("linear", 50)[2]
    shape = CodeShape(400, 50, 8, 4, 50, "lstm", "float32")
    words = start.composition.codebook.detach()
    lstm = lstm_start(start.codes, words * 1e-2, shape, 0)
    expected = start.composition.compose(start.codes).detach()
    found = lstm.composition.compose(start.codes).detach() * 1e2
    error = (found - expected).square().sum() / expected.square().sum()
    assert float(error) < 0.05
    assert lstm.settled


def test_unused_codewords_are_revived():
    target, shape, _ = setting()
    composition = make_composition(shape, generator=torch.Generator().manual_seed(0))
    assert isinstance(composition, LinearComposition)
    codes = torch.zeros(400, 4, dtype=torch.long)  # every symbol uses codeword 0, the other 28 are dead
    learner = GradientLearner(
        target, Start(codes, composition), OPTIONS.changed(epochs=20, start="warm"), learn_codes=True
    )
    seen = []
    run = Run(0, on_step=lambda report: seen.append(report.unused_codewords))
    learner.run(run)
    assert max(seen) > 0
    assert seen[-1] == 0


def test_settling_lowers_every_changed_row_and_stops_at_the_bottom():
    target, _, start = setting(start="random")
    errors = target.row_errors(start.codes, start.composition)
    codes = settle_codes(target, start.codes, start.composition)
    changed = (codes != start.codes).any(dim=1)
    assert bool(changed.any())
    assert int((codes != start.codes).sum(dim=1).max()) == 1
    after = target.row_errors(codes, start.composition)
    assert bool((after[changed] < errors[changed]).all())
    for _ in range(60):
        codes = settle_codes(target, codes, start.composition)
    assert torch.equal(settle_codes(target, codes, start.composition), codes)
    # at the bottom no single swap helps any row
    for position in range(4):
        for value in range(8):
            swapped = codes.clone()
            swapped[:, position] = value
            errors = target.row_errors(codes, start.composition)
            assert bool((target.row_errors(swapped, start.composition) >= errors - 1e-3).all())
