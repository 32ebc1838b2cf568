"""What learners in batches have in common: temperature, rates, and the order of rows."""

from __future__ import annotations

import pytest
import torch

from kdcode.codec import CodewordSpec
from kdcode.codec_torch import make_module
from kdcode.data import glove_50d
from kdcode.learning.gradient.batches import BatchLearner, weight_groups
from kdcode.learning.gradient.tensors import Best, TensorStart, TensorTable
from kdcode.learning.run import Run
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions, GradientOptions

SPEC = CodewordSpec.named("linear", 50, 4, 2)


class Seen(BatchLearner):
    """Learns nothing, and keeps what it is given."""

    saved = ("step", "codes")

    def __init__(self, options, rows=250):
        training = TensorTable(TrainingTable.of(glove_50d().head(rows), CompressOptions(4, 2)))
        start = TensorStart(torch.zeros(rows, 2, dtype=torch.uint8), make_module(SPEC), "random")
        super().__init__(training, start, options, seed=3)
        self.best = Best.of(1.0, self.codes, self.module)
        self.batches, self.epochs = [], 0

    def update(self, rows, batch, temperature):
        assert rows is batch
        self.batches.append((rows, temperature, self.fading))
        return torch.ones(len(rows), 2, dtype=torch.long), 0.5 * self.training.table.variance * len(rows) / 250

    def end_epoch(self):
        self.epochs += 1


def test_every_epoch_sees_every_row_once_in_another_order():
    learner = Seen(GradientOptions(epochs=3, batch_size=100))
    learner.run(Run(0))
    assert [len(rows) for rows, _, _ in learner.batches] == [100, 100, 50] * 3
    orders = [torch.cat([rows for rows, _, _ in learner.batches[first : first + 3]]) for first in (0, 3, 6)]
    for order in orders:
        assert torch.equal(order.sort().values, torch.arange(250))
    assert not torch.equal(orders[0], orders[1])
    again = Seen(GradientOptions(epochs=3, batch_size=100))
    again.run(Run(0))
    assert torch.equal(again.batches[4][0], learner.batches[4][0])
    assert learner.epochs == 3


def test_a_constant_temperature_stays():
    learner = Seen(GradientOptions(temperature=0.5, epochs=4, batch_size=250))
    learner.run(Run(0))
    assert [temperature for _, temperature, _ in learner.batches] == [0.5] * 4


def test_decay_follows_the_paper_by_epoch():
    learner = Seen(GradientOptions(temperature=2.0, temperature_decay=0.5, epochs=7, batch_size=125))
    learner.run(Run(0))
    temperatures = [temperature for _, temperature, _ in learner.batches]
    assert temperatures[::2] == temperatures[1::2]  # both updates of an epoch
    assert [temperatures[2 * epoch] for epoch in (0, 2, 6)] == [2.0, 1.0, 0.5]


def test_rates_fade_along_a_cosine():
    learner = Seen(GradientOptions(epochs=4, batch_size=125))
    learner.run(Run(0))
    fading = [fading for _, _, fading in learner.batches]
    assert fading[0] == 1
    assert fading[4] == pytest.approx(0.5)
    assert fading == sorted(fading, reverse=True)
    assert learner.fading == pytest.approx(0)


def test_reports_count_steps_and_changed_codes():
    reports = []
    learner = Seen(GradientOptions(epochs=2, batch_size=125))
    learner.run(Run(4, on_step=reports.append))
    assert [report.step for report in reports] == [1, 2, 3, 4]
    assert [report.codes_changed for report in reports] == [1, 1, 0, 0]  # from all 0 to all 1
    assert [report.loss for report in reports] == pytest.approx([0.5] * 4)


@pytest.mark.parametrize("composition", ["linear", "lstm", "product"])
def test_codewords_learn_in_units_of_their_spread(composition):
    spec = CodewordSpec.named(composition, 48, 8, 4, codeword_dim=None if composition == "product" else 20)
    module = make_module(spec, generator=torch.Generator().manual_seed(0))
    start = TensorStart(torch.zeros(1, 4, dtype=torch.long), module, "random")
    rates = [group["relative_rate"] for group in weight_groups(start)]
    with torch.no_grad():
        module.codebook *= 10
    longer = [group["relative_rate"] for group in weight_groups(start)]
    assert longer[0] == pytest.approx(10 * rates[0], rel=1e-4)
    assert longer[1:] == rates[1:]
    learned = [group["relative_rate"] for group in weight_groups(start._replace(origin="learned"))]
    assert all(rate == 0.5 for rate in learned[1:])
