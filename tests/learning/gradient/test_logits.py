"""The first logits stand for the codes of a start, and fall with the cost of a swap."""

from __future__ import annotations

import pytest
import torch

from kdcode.codec import CodewordSpec
from kdcode.data import glove_50d
from kdcode.learning.gradient.learners import tensor_start
from kdcode.learning.gradient.logits import first_logits
from kdcode.learning.gradient.tensors import TensorTable, squared_distances
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions

COMPOSITIONS = [{}, {"codeword_dim": 10}, {"composition": "lstm", "codeword_dim": 20}, {"composition": "product"}]


def setting(rows=400, **changes):
    options = CompressOptions(8, 4, codebook_dtype="float32").changed(**changes)
    table = TrainingTable.of(glove_50d().head(rows), options)
    spec = CodewordSpec.named(options.composition, 50, 8, 4, codeword_dim=options.codeword_dim)
    return TensorTable(table), spec


@pytest.mark.parametrize("changes", COMPOSITIONS)
def test_logits_of_a_warm_start_have_its_codes(changes):
    training, spec = setting(**changes)
    start = tensor_start(training.table, spec, 0, "warm")
    assert torch.equal(first_logits(training, start, 0).argmax(dim=-1), start.codes.long())


def test_logits_of_a_random_start_are_near_zero():
    training, spec = setting()
    logits = first_logits(training, tensor_start(training.table, spec, 0, "random"), 0)
    assert logits.shape == (400, 4, 8)
    assert 0.005 < float(logits.std()) < 0.02
    assert torch.equal(logits, first_logits(training, tensor_start(training.table, spec, 0, "random"), 0))
    assert not torch.equal(logits, first_logits(training, tensor_start(training.table, spec, 0, "random"), 1))


def test_logits_fall_with_the_true_cost_of_a_swap():
    training, spec = setting(rows=50)
    start = tensor_start(training.table, spec, 0, "warm")
    logits = first_logits(training, start, 0)

    def row_errors(codes):
        return squared_distances(start.module.compose(codes).detach(), training.vectors)

    errors = row_errors(start.codes)
    for row, position in ((0, 0), (7, 2), (30, 3)):
        for value in range(spec.codebook_size):
            swapped = start.codes.clone()
            swapped[row, position] = value
            rise = row_errors(swapped)[row] - errors[row]
            if value != start.codes[row, position]:
                expected = -0.1 * max(float(rise), 0)
                assert float(logits[row, position, value]) == pytest.approx(expected, abs=1e-3)
