"""Exact refinement: single swaps that help, and the best weights for given codes."""

from __future__ import annotations

import pytest
import torch

from kdcode.codec import CodewordSpec
from kdcode.codec_torch import make_module
from kdcode.data import glove_50d
from kdcode.learning.gradient import refinement
from kdcode.learning.gradient.learners import tensor_start
from kdcode.learning.gradient.refinement import Found, refine, solve_if_better, solve_weights, swap_codewords
from kdcode.learning.gradient.tensors import TensorTable, squared_distances
from kdcode.learning.run import Run
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions
from kdcode.table import VectorTable

ROWS, DIM, SIZE, LENGTH = 200, 6, 5, 3


def small(composition, width=None):
    generator = torch.Generator().manual_seed(0)
    table = VectorTable(None, torch.randn(ROWS, DIM, generator=generator).numpy())
    training = TensorTable(TrainingTable.of(table, CompressOptions(SIZE, LENGTH)))
    codes = torch.randint(SIZE, (ROWS, LENGTH), generator=generator)
    spec = CodewordSpec.named(composition, DIM, SIZE, LENGTH, codeword_dim=width, codebook_dtype="float32")
    return training, codes, make_module(spec, generator=generator)


def test_linear_codewords_reach_the_exact_least_squares_error():
    training, codes, module = small("linear")
    one_hot = torch.nn.functional.one_hot(codes, SIZE).flatten(1).double()
    exact = one_hot @ torch.linalg.lstsq(one_hot, training.vectors.double(), driver="gelsd").solution
    best = float((exact - training.vectors).square().sum()) / training.table.variance
    assert training.error(codes, module) > 1.5
    solve_weights(training, codes, module)
    assert training.error(codes, module) == pytest.approx(best, rel=1e-4)


def test_product_codewords_become_means_and_unused_ones_stay():
    training, codes, module = small("product")
    codes[:, 1] = codes[:, 1].clamp_max(SIZE - 2)  # the last codeword of position 1 is not used
    kept = module.codebook[1, SIZE - 1].detach().clone()
    solve_weights(training, codes, module)
    members = training.vectors[codes[:, 1] == 2][:, 2:4]
    torch.testing.assert_close(module.codebook[1, 2].detach(), members.mean(dim=0))
    assert torch.equal(module.codebook[1, SIZE - 1], kept)


@pytest.mark.parametrize("composition", ["lstm", "linear"])
def test_weights_without_a_closed_form_are_improved_too(composition):
    training, codes, module = small(composition, 4)
    before = training.error(codes, module)
    solve_weights(training, codes, module)
    assert training.error(codes, module) < 0.7 * before
    assert all(value.grad is None for value in module.parameters())


def test_weights_that_got_worse_are_taken_back(monkeypatch):
    training, codes, module = small("linear")
    before = {name: value.clone() for name, value in module.state_dict().items()}

    def ruin(_, __, module):
        with torch.no_grad():
            module.codebook.mul_(5)

    monkeypatch.setattr(refinement, "solve_weights", ruin)
    error = solve_if_better(training, codes, module)
    assert error == pytest.approx(training.error(codes, module))
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_swaps_lower_every_changed_row_and_stop_at_the_bottom():
    training = TensorTable(TrainingTable.of(glove_50d().head(400), CompressOptions(8, 4)))
    start = tensor_start(training.table, CodewordSpec.named("linear", 50, 8, 4), 0, "random")

    def row_errors(codes):
        return squared_distances(start.module.compose(codes).detach(), training.vectors)

    errors = row_errors(start.codes)
    codes = swap_codewords(training.vectors, start.codes, start.module)
    changed = (codes != start.codes).any(dim=1)
    assert bool(changed.any())
    assert int((codes != start.codes).sum(dim=1).max()) == 1
    after = row_errors(codes)
    assert bool((after[changed] < errors[changed]).all())
    for _ in range(60):
        codes = swap_codewords(training.vectors, codes, start.module)
    assert torch.equal(swap_codewords(training.vectors, codes, start.module), codes)
    errors = row_errors(codes)
    for position in range(4):  # at the bottom no single swap helps any row
        for value in range(8):
            swapped = codes.clone()
            swapped[:, position] = value
            assert bool((row_errors(swapped) >= errors - 1e-3).all())


@pytest.mark.parametrize(("composition", "width"), [("linear", None), ("linear", 4), ("lstm", 4), ("product", None)])
def test_no_round_makes_anything_worse(composition, width):
    training, codes, module = small(composition, width)
    before, reports = training.error(codes, module), []
    found = refine(training, Found(codes, module), 3, Run(3, on_step=reports.append), stage=0)
    losses = [report.loss for report in reports]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < before
    assert losses[-1] == pytest.approx(training.error(found.codes, found.module))
    assert [report.step for report in reports] == [1, 2, 3]


def test_no_rounds_leave_everything_as_it_is():
    training, codes, module = small("linear")
    before = training.error(codes, module)
    found = refine(training, Found(codes, module), 0, Run(0), stage=0)
    assert found.codes is codes
    assert training.error(codes, found.module) == before
