"""Algorithm 1 as the paper prints it: each update by hand, the schedule, and that nothing is added."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import kdcode
from kdcode.codec import CodewordSpec
from kdcode.codec_torch import make_module
from kdcode.data import glove_50d
from kdcode.errors import OptionError
from kdcode.learning.gradient.algorithm_1 import Algorithm1Learner
from kdcode.learning.gradient.tensors import TensorStart, TensorTable, generator_for
from kdcode.learning.run import Run
from kdcode.learning.starts import drawn_codes
from kdcode.learning.training_table import TrainingTable
from kdcode.options import Algorithm1Options, CompressOptions
from kdcode.provenance import CURVE

SIZE, LENGTH = 8, 4


def learner(composition="linear", rows=30, codeword_dim=None, **changes):
    options = CompressOptions(SIZE, LENGTH, composition=composition, codeword_dim=codeword_dim)
    training = TensorTable(TrainingTable.of(glove_50d().head(rows), options))
    spec = CodewordSpec.named(composition, 50, SIZE, LENGTH, codeword_dim=codeword_dim)
    learning = Algorithm1Options(**{"epochs": 3, "batch_size": 10, **changes})
    codes = torch.from_numpy(drawn_codes(training.share, spec, np.random.default_rng(0)))
    start = TensorStart(codes, make_module(spec, generator=generator_for(0, "start")), "random")
    return Algorithm1Learner(training, start, learning, 0)


def composed_by_hand(weights, choice):
    """(n, d) vectors of a (n, D, K) choice, one-hot or nearly: the equations of section 2."""
    words = torch.einsum("njk,jke->nje", choice, weights["codebook"])
    if "recurrent" not in weights:
        total = words.sum(dim=1)
        return total @ weights["basis"] if "basis" in weights else total
    hidden = memory = total = torch.zeros_like(words[:, 0])
    for place in range(LENGTH):
        forget, write, show, new = (
            words[:, place] + hidden @ matrix.t() + bias
            for matrix, bias in zip(weights["recurrent"], weights["bias"], strict=True)
        )
        memory = forget.sigmoid() * memory + write.sigmoid() * new.tanh()
        hidden = show.sigmoid() * memory.tanh()
        total = total + hidden
    return total @ weights["basis"]


@pytest.mark.parametrize(
    ("composition", "codeword_dim"), [("linear", None), ("linear", 5), ("lstm", 6)], ids=["linear", "H", "lstm"]
)
def test_an_update_is_one_step_of_sgd_as_the_paper_writes_it(composition, codeword_dim):
    found = learner(composition, codeword_dim=codeword_dim, logit_lr=0.01, codeword_lr=0.3, composition_lr=0.002)
    rows, temperature = torch.tensor([3, 7, 8]), 0.4
    weights = {name: value.detach().clone().requires_grad_() for name, value in found.module.named_parameters()}
    logits = found.logits.clone().requires_grad_()
    soft = torch.softmax(logits[rows] / temperature, dim=-1)
    hard = F.one_hot(logits[rows].argmax(dim=-1), SIZE).float()
    choice = (hard - soft).detach() + soft  # stop_gradient(o − ζ) + ζ
    loss = (composed_by_hand(weights, choice) - found.training.vectors[rows]).square().sum()
    loss.backward()

    codes, told = found.update(rows, rows, temperature)

    assert told == pytest.approx(float(loss.detach()), rel=1e-5)
    assert torch.equal(codes, hard.argmax(dim=-1))
    torch.testing.assert_close(found.logits, (logits - 0.01 * logits.grad).detach())
    assert len(weights) == len(list(found.module.parameters()))
    for name, value in found.module.named_parameters():
        rate = 0.3 * SIZE / LENGTH if name == "codebook" else 0.002
        torch.testing.assert_close(value.detach(), (weights[name] - rate * weights[name].grad / 3).detach())


def test_gradients_of_codewords_and_composition_are_those_of_finite_differences():
    found = learner("lstm", codeword_dim=6, codeword_lr=1.0, composition_lr=1.0)
    rows = torch.arange(10)
    codes = found.logits[rows].argmax(dim=-1)
    before = {name: value.detach().clone() for name, value in found.module.named_parameters()}
    found.update(rows, rows, 1.0)
    step = {name: before[name] - value.detach() for name, value in found.module.named_parameters()}
    step["codebook"] *= LENGTH / SIZE
    choice, vectors = F.one_hot(codes, SIZE).double(), found.training.vectors[rows].double()

    def loss(weights):
        return float((composed_by_hand(weights, choice) - vectors).square().sum()) / len(rows)

    for name, value in before.items():
        direction = torch.randn(value.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        moved = {key: weight.double() for key, weight in before.items()}
        ends = [loss({**moved, name: moved[name] + sign * 1e-5 * direction}) for sign in (1, -1)]
        assert float((step[name].double() * direction).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3)


def temperatures(**changes):
    seen = []
    found = learner(rows=30, **changes)
    found.run(Run(found.total_steps, on_step=lambda report: seen.append(report.temperature)))
    return seen


def test_the_temperature_falls_as_the_paper_has_it_by_epochs_or_by_updates():
    by_epoch = [1, 1, 1, 1 / 2, 1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3]
    assert temperatures() == pytest.approx(by_epoch)  # three epochs of three updates
    by_update = [1 / (1 + update) for update in range(9)]
    assert temperatures(temperature_step="update") == pytest.approx(by_update)
    assert temperatures(temperature=2.0, temperature_decay=0.0) == [2.0] * 9


def test_it_ends_where_it_ended_with_unused_codewords_as_they_are():
    found = learner(rows=10, epochs=2)  # ten rows cannot use the eight codewords of all positions evenly
    best = found.run(Run(found.total_steps))
    assert torch.equal(best.codes, found.logits.argmax(dim=-1))
    assert best.error == pytest.approx(found.training.error(best.codes, found.module), rel=1e-6)
    for name, value in found.module.state_dict().items():
        assert torch.equal(best.weights[name], value)
    fresh = learner(rows=10, epochs=2)
    used = torch.zeros(LENGTH, SIZE, dtype=torch.bool)
    fresh_run = Run(fresh.total_steps, on_step=lambda _: used.scatter_(1, fresh.codes.t(), value=True))
    fresh.run(fresh_run)
    untouched = learner(rows=10, epochs=2).module.codebook.detach()[~used]
    assert len(untouched)
    assert torch.equal(fresh.module.codebook.detach()[~used], untouched)


def test_nothing_comes_after_it():
    table = glove_50d().head(300)
    coded = kdcode.compress(table, learner="algorithm-1", codebook_size=16, code_length=4, epochs=40)
    assert coded.provenance["learner"] == "algorithm-1"
    assert coded.provenance["relative_error"] < 0.75
    assert coded.provenance[CURVE]["steps"] == 40
    control = kdcode.compress(table, learner="random", codebook_size=16, code_length=4)
    assert coded.provenance["relative_error"] < control.provenance["relative_error"]
    with pytest.raises(OptionError, match="refine_rounds is an option of the learner straight-through and encoder"):
        kdcode.compress(table, learner="algorithm-1", refine_rounds=1)


def test_rates_that_make_it_diverge_are_told():
    with pytest.raises(OptionError, match=r"codeword_lr and composition_lr: learning diverged with 50\.0"):
        kdcode.compress(glove_50d().head(100), learner="algorithm-1", codeword_lr=50.0, epochs=60)


def test_a_stopped_run_ends_as_one_that_was_not():
    whole, part = learner(epochs=4), learner(epochs=4)
    whole.run(Run(whole.total_steps))
    for _ in range(7):
        part._next_batch()
    resumed = learner(epochs=4)
    resumed.load_state(part.state())
    while resumed.step < resumed.total_steps:
        resumed._next_batch()
    assert torch.equal(resumed.logits, whole.logits)
    assert math.isfinite(float(resumed.logits.sum()))
