"""The encoder network: its arithmetic, and codes of vectors that it never saw."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kdcode
from kdcode.data import glove_50d
from kdcode.errors import OptionError
from kdcode.learning import learn_encoder
from kdcode.learning.gradient.encoder import Encoder
from kdcode.options import CompressOptions, EncoderOptions

QUICK = CompressOptions(8, 6, learner=EncoderOptions(epochs=30, batch_size=100, refine_rounds=0))


def relative_error(vectors, copies):
    return float(np.square(vectors - copies).sum() / np.square(vectors - vectors.mean(axis=0)).sum())


@pytest.fixture(scope="module")
def split():
    """A learned encoder, the rows it was learned from and rows it never saw."""
    vectors = glove_50d().head(3000).matrix.astype(np.float32)
    unseen = np.arange(len(vectors)) % 10 == 9
    learned = learn_encoder(kdcode.VectorTable(None, vectors[~unseen]), options=QUICK)
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
    assert np.array_equal(encoder.codes(vectors), expected.argmax(axis=-1))
    assert np.array_equal(encoder.codes(vectors[2]), expected[2].argmax(axis=-1))


def test_logits_are_finite_where_softplus_is_zero():
    encoder = Encoder(2, 1, 2)
    with torch.no_grad():
        encoder.output_bias.fill_(-1e4)
    assert bool(encoder(torch.zeros(1, 2)).isfinite().all())


@pytest.mark.parametrize("wrong", [np.ones((2, 6)), np.ones(4), np.ones((1, 1, 5)), [[np.nan] * 5], [[1e300] * 5]])
def test_vectors_that_cannot_be_encoded_are_refused(wrong):
    with pytest.raises(OptionError, match=r"vectors of shape \(5,\)|finite"):
        Encoder(5, 3, 4).codes(wrong)


def test_a_network_of_directions_is_blind_to_lengths():
    encoder = Encoder(5, 3, 4, generator=torch.Generator().manual_seed(0), normalises=True)
    vectors = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32)
    lengths = np.linspace(0.1, 10, 50, dtype=np.float32)[:, None]
    assert np.array_equal(encoder.codes(vectors * lengths), encoder.codes(vectors))
    plain = Encoder(5, 3, 4, generator=torch.Generator().manual_seed(0))
    assert not np.array_equal(plain.codes(vectors * lengths), plain.codes(vectors))


def test_without_refinement_the_codes_are_the_networks_own(split):
    learned, seen, _ = split
    assert np.array_equal(learned.encode(seen), learned.coded.codes)
    error = relative_error(seen, learned.coded.compose(learned.encode(seen)))
    assert error == pytest.approx(learned.coded.provenance["relative_error"], abs=1e-4)
    assert learned.coded.provenance["learner"] == "encoder"


@pytest.mark.parametrize("wrong", [np.ones(4), np.ones((1, 1, 50)), [[np.nan] * 50], [[1e300] * 50], "vectors"])
def test_a_learned_encoder_refuses_what_the_table_refuses(split, wrong):
    for encode in (split[0].encode, split[0].coded.encode):
        with pytest.raises(OptionError, match=r"vectors of shape \(50,\)|vectors of 50|finite"):
            encode(wrong)


def test_codes_have_the_shapes_that_the_table_gives(split):
    learned, seen, _ = split
    for vectors in (seen[0], seen[:1], seen[:5], seen[:5].tolist()):
        assert learned.encode(vectors).shape == learned.coded.encode(vectors).shape


def test_unseen_vectors_are_coded_nearly_as_well_as_seen_ones(split):
    learned, seen, unseen = split
    coded = learned.coded
    inside, outside = (relative_error(part, coded.compose(learned.encode(part))) for part in (seen, unseen))
    draws = np.random.default_rng(0).integers(0, 8, size=(len(unseen), 6))
    searched = relative_error(unseen, coded.compose(coded.encode(unseen)))
    assert outside < 1.25 * inside
    assert outside < 0.5 * relative_error(unseen, coded.compose(draws))
    assert searched < outside < 1.5 * searched


@pytest.mark.parametrize("changes", [{"scale_bits": 4}, {"loss": "cosine"}])
def test_the_network_of_normalised_rows_takes_rows_of_any_length(changes):
    matrix = glove_50d().head(400).matrix * np.exp(np.random.default_rng(0).normal(size=(400, 1)))
    learned = learn_encoder(kdcode.VectorTable(None, matrix), options=QUICK, epochs=20, **changes)
    coded = learned.coded
    codes = learned.encode(matrix)
    assert codes.shape == coded.codes.shape == (400, 6 + ("scale_bits" in changes))
    directions = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)

    def cosines(vectors):
        return np.einsum("ij,ij->i", directions, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

    ours, tables = cosines(coded.compose(codes)).mean(), cosines(coded.decode(range(400))).mean()
    assert ours > tables - 0.001
    assert (codes == coded.codes).mean() > 0.999
    if "scale_bits" in changes:
        lost, stored = (relative_error(matrix, copies) for copies in (coded.compose(codes), coded.decode(range(400))))
        assert lost < 1.01 * stored
    assert np.array_equal(learned.encode(7 * matrix)[:, :6], codes[:, :6])


def test_codewords_may_be_shorter_than_vectors():
    learned = learn_encoder(glove_50d().head(400), options=QUICK, codebook_size=16, codeword_dim=10, epochs=60)
    assert learned.coded.spec.codeword_dim == 10
    assert learned.coded.provenance["relative_error"] < 0.8


@pytest.mark.parametrize("composition", ["lstm", "product"])
def test_other_compositions_are_refused_before_work(composition):
    with pytest.raises(OptionError, match=f"composition must be linear for the encoder, got '{composition}'"):
        learn_encoder(glove_50d().head(50), composition=composition)


def test_only_the_encoder_learner_gives_an_encoder():
    assert (
        learn_encoder(glove_50d().head(50), options=QUICK, epochs=1).coded.provenance["options"]["learner"] == "encoder"
    )
    for arguments in ({"learner": "random"}, {"options": CompressOptions(learner="random")}):
        with pytest.raises(OptionError, match="learner must be encoder to learn one, got 'random'"):
            learn_encoder(glove_50d().head(50), **arguments)


def test_the_options_of_the_encoder_are_kept():
    table, reports = glove_50d().head(50), []
    options = CompressOptions(8, 2, learner=EncoderOptions(epochs=3, batch_size=25, refine_rounds=1))
    learned = learn_encoder(table, options=options, temperature=0.5, progress=reports.append)
    assert reports[-1].step == reports[-1].total_steps == 3 * 2 + 1
    recorded = learned.coded.provenance["options"]
    assert {name: recorded[name] for name in ("epochs", "batch_size", "refine_rounds", "temperature")} == {
        "epochs": 3,
        "batch_size": 25,
        "refine_rounds": 1,
        "temperature": 0.5,
    }
