"""Learning an encoder: the loss of an update, the best state, refinement, and runs that are resumed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kdcode.codec import CodewordSpec
from kdcode.data import glove_50d
from kdcode.learning import Checkpoint, learn_encoder
from kdcode.learning.gradient.encoder import fresh_encoder
from kdcode.learning.gradient.encoder_learner import EncoderLearner
from kdcode.learning.gradient.learners import tensor_start
from kdcode.learning.gradient.tensors import TensorTable, generator_for
from kdcode.learning.run import Run
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions, EncoderOptions

QUICK = CompressOptions(8, 6, learner=EncoderOptions(epochs=30, batch_size=100, refine_rounds=0))


def setting(table):
    training = TensorTable(TrainingTable.of(table, QUICK))
    start = tensor_start(training.table, CodewordSpec.named("linear", 50, 8, 6), 0, "random")
    return training, fresh_encoder(training, 6, 8, 0), start


def test_the_first_update_has_the_loss_of_relaxed_one_hots():
    table = glove_50d().head(200)
    training, encoder, start = setting(table)
    rows = torch.randperm(200, generator=generator_for(0, "order", 0))[:100]
    logits = encoder(torch.from_numpy(table.matrix.astype(np.float32))[rows]).detach()
    uniform = torch.rand(logits.shape, generator=generator_for(0, "choice", 0))
    shares = torch.softmax((logits - torch.log(-torch.log(uniform))) / 0.7, dim=-1)
    composed = torch.einsum("njk,jke->ne", shares, start.module.codebook.detach())
    expected = (training.vectors[rows] - composed).square().sum() / (training.table.variance * 100 / 200)
    reports = []
    options = EncoderOptions(epochs=1, batch_size=100, temperature=0.7)
    EncoderLearner(training, encoder, start, options).run(Run(2, on_step=reports.append))
    assert reports[0].loss == pytest.approx(float(expected), rel=1e-4)
    assert reports[0].temperature == 0.7


def test_the_best_state_is_kept():
    table = glove_50d().head(200)
    training, encoder, start = setting(table)
    ruinous = EncoderOptions(epochs=2, batch_size=100, codeword_lr=50.0)
    learner = EncoderLearner(training, encoder, start, ruinous)
    before = learner.best.error
    best = learner.run(Run(0))
    assert best.error <= before
    assert training.error(learner.codes, start.module) > best.error
    start.module.load_state_dict(best.weights)
    encoder.load_state_dict(best.encoder)
    assert np.array_equal(encoder.codes(table.matrix), best.codes.numpy())
    assert training.error(best.codes, start.module) == pytest.approx(best.error, rel=1e-5)


def test_refinement_lowers_the_error_and_leaves_the_network_as_it_was():
    table = glove_50d().head(400)
    plain, refined = (learn_encoder(table, options=QUICK, refine_rounds=rounds) for rounds in (0, 3))
    before, after = (learned.coded.provenance["relative_error"] for learned in (plain, refined))
    assert after < 0.95 * before
    for name, value in plain.encoder.state_dict().items():
        assert torch.equal(value, refined.encoder.state_dict()[name]), name


@pytest.mark.parametrize("step", [5, 61])
def test_a_resumed_run_gives_the_same_network(step, tmp_path):
    table, options = glove_50d().head(200), QUICK.changed(refine_rounds=2)

    def die(report):
        if report.step == step:
            raise KeyboardInterrupt

    whole = learn_encoder(table, options=options)
    with pytest.raises(KeyboardInterrupt):
        learn_encoder(table, options=options, progress=die, checkpoint=Checkpoint(tmp_path / "c"))
    resumed = learn_encoder(table, options=options, checkpoint=Checkpoint(tmp_path / "c"))
    assert np.array_equal(resumed.coded.codes, whole.coded.codes)
    for name, value in whole.encoder.state_dict().items():
        assert torch.equal(value, resumed.encoder.state_dict()[name]), name
