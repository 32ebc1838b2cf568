"""The encoder network: its arithmetic, its learning, and codes of vectors that it never saw."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kdcode
from kdcode.data import glove_50d
from kdcode.errors import OptionError
from kdcode.learning import Checkpoint, learn_encoder
from kdcode.learning.encoder import Encoder, EncoderLearner, fresh_encoder
from kdcode.learning.randomness import generator_for, shuffled_rows
from kdcode.learning.run import Run
from kdcode.learning.starts import random_start
from kdcode.learning.target import Target
from kdcode.options import CompressOptions

QUICK = CompressOptions(codebook_size=8, code_length=6, epochs=30, batch_size=100, settle=0)


def relative_error(vectors, copies):
    return float(np.square(vectors - copies).sum() / np.square(vectors - vectors.mean(axis=0)).sum())


@pytest.fixture(scope="module")
def split():
    """A learned encoder, the rows it was learned from and rows it never saw."""
    vectors = glove_50d().head(3000).matrix.astype(np.float32)
    unseen = np.arange(len(vectors)) % 10 == 9
    learned = learn_encoder(kdcode.VectorTable(None, vectors[~unseen]), QUICK)
    return learned, vectors[~unseen], vectors[unseen]


def test_logits_are_those_of_the_published_network():
    encoder = Encoder(5, 3, 4, generator=torch.Generator().manual_seed(0))
    torch.nn.init.normal_(encoder.hidden_bias, generator=torch.Generator().manual_seed(1))
    torch.nn.init.normal_(encoder.output_bias, generator=torch.Generator().manual_seed(2))
    encoder.shift.fill_(0.5)
    encoder.scale.fill_(2.0)
    vectors = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    hidden, hidden_bias, output, output_bias = (weight.detach().numpy() for weight in encoder.parameters())
    assert hidden.shape == (5, 6)
    inner = np.tanh((vectors - 0.5) / 2 @ hidden + hidden_bias)
    expected = np.log(np.log1p(np.exp(inner @ output + output_bias))).reshape(7, 3, 4)
    np.testing.assert_allclose(encoder(torch.from_numpy(vectors)).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    vectors.flags.writeable = False  # as of a mapped file
    assert np.array_equal(encoder.encode(vectors), expected.argmax(axis=-1))
    assert np.array_equal(encoder.encode(vectors[2]), expected[2].argmax(axis=-1))


def test_logits_are_finite_where_softplus_is_zero():
    encoder = Encoder(2, 1, 2)
    with torch.no_grad():
        encoder.output_bias.fill_(-1e4)
    assert bool(encoder(torch.zeros(1, 2)).isfinite().all())


@pytest.mark.parametrize("wrong", [np.ones((2, 6)), np.ones(4), np.ones((1, 1, 5)), [[np.nan] * 5], [[1e300] * 5]])
def test_vectors_that_cannot_be_encoded_are_refused(wrong):
    with pytest.raises(OptionError, match="finite vectors of size 5"):
        Encoder(5, 3, 4).encode(wrong)


def test_the_first_update_has_the_loss_of_relaxed_one_hots():
    table, options = glove_50d().head(200), QUICK.changed(temperature=0.7)
    shape = options.code_shape(200, 50)
    target = Target.of(table, centred=True)
    encoder, start = fresh_encoder(target, 6, 8, 0), random_start(target, shape, 0)
    rows = shuffled_rows(200, 0, 0)[:100]
    logits = encoder(torch.from_numpy(table.matrix.astype(np.float32))[rows]).detach()
    uniform = torch.rand(logits.shape, generator=generator_for(0, "choice", 0))
    shares = torch.softmax((logits - torch.log(-torch.log(uniform))) / 0.7, dim=-1)
    composed = torch.einsum("njk,jke->ne", shares, start.composition.codebook.detach())
    expected = (target.vectors[rows] - composed).square().sum() / (target.variance * 100 / 200)
    reports = []
    EncoderLearner(target, encoder, start, options.changed(epochs=1)).run(Run(2, on_step=reports.append))
    assert reports[0].loss == pytest.approx(float(expected), rel=1e-4)
    assert reports[0].temperature == 0.7


def test_with_settle_0_the_codes_are_the_networks_own(split):
    learned, seen, _ = split
    assert np.array_equal(learned.encoder.encode(seen), learned.coded.codes)
    error = relative_error(seen, learned.coded.compose(learned.encoder.encode(seen)))
    assert error == pytest.approx(learned.coded.provenance["relative_error"], abs=1e-4)
    assert learned.coded.provenance["learner"] == "encoder"


def test_refits_lower_the_error_and_leave_the_network_as_it_was():
    table = glove_50d().head(400)
    plain, refitted = (learn_encoder(table, QUICK, settle=rounds) for rounds in (0, 3))
    before, after = (learned.coded.provenance["relative_error"] for learned in (plain, refitted))
    assert after < 0.95 * before
    for name, value in plain.encoder.state_dict().items():
        assert torch.equal(value, refitted.encoder.state_dict()[name]), name


def test_unseen_vectors_are_coded_nearly_as_well_as_seen_ones(split):
    learned, seen, unseen = split
    coded = learned.coded
    inside, outside = (relative_error(part, coded.compose(learned.encoder.encode(part))) for part in (seen, unseen))
    draws = np.random.default_rng(0).integers(0, 8, size=(len(unseen), 6))
    searched = relative_error(unseen, coded.compose(coded.encode(unseen)))
    assert outside < 1.25 * inside
    assert outside < 0.5 * relative_error(unseen, coded.compose(draws))
    assert searched < outside < 1.5 * searched


def test_the_best_state_is_kept():
    table = glove_50d().head(200)
    target = Target.of(table, centred=True)
    encoder, start = fresh_encoder(target, 6, 8, 0), random_start(target, QUICK.code_shape(200, 50), 0)
    learner = EncoderLearner(target, encoder, start, QUICK.changed(epochs=2, codeword_rate=50.0))  # ruins everything
    before = learner.best.error
    best = learner.run(Run(0))
    assert best.error <= before
    assert target.error(learner.codes, start.composition) > best.error
    start.composition.load_state_dict(best.weights)
    encoder.load_state_dict(best.encoder)
    assert np.array_equal(encoder.encode(table.matrix), best.codes.numpy())
    assert target.error(best.codes, start.composition) == pytest.approx(best.error, rel=1e-5)


@pytest.mark.parametrize("step", [5, 61])
def test_a_resumed_run_gives_the_same_network(step, tmp_path):
    table, options = glove_50d().head(200), QUICK.changed(settle=2)

    def die(report):
        if report.step == step:
            raise KeyboardInterrupt

    whole = learn_encoder(table, options)
    with pytest.raises(KeyboardInterrupt):
        learn_encoder(table, options, on_step=die, checkpoint=Checkpoint(tmp_path / "c"))
    resumed = learn_encoder(table, options, checkpoint=Checkpoint(tmp_path / "c"))
    assert np.array_equal(resumed.coded.codes, whole.coded.codes)
    for name, value in whole.encoder.state_dict().items():
        assert torch.equal(value, resumed.encoder.state_dict()[name]), name


def test_codewords_may_be_shorter_than_vectors():
    learned = learn_encoder(glove_50d().head(400), QUICK, codebook_size=16, codeword_dim=10, epochs=60)
    assert learned.coded.codebook.codeword_dim == 10
    assert learned.coded.provenance["relative_error"] < 0.8


@pytest.mark.parametrize("composition", ["lstm", "product"])
def test_other_compositions_are_refused_before_work(composition):
    with pytest.raises(OptionError, match=f"composition must be linear for the encoder, got '{composition}'"):
        CompressOptions(learner="encoder", composition=composition)


def test_only_the_encoder_learner_gives_an_encoder():
    assert learn_encoder(glove_50d().head(50), QUICK, epochs=1).coded.provenance["options"]["learner"] == "encoder"
    with pytest.raises(OptionError, match="learner must be encoder to learn one, got 'random'"):
        learn_encoder(glove_50d().head(50), learner="random")
