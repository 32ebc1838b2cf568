"""Where learning starts: residual k-means is far better than random codes, an LSTM starts as a sum."""

from __future__ import annotations

import pytest
import torch

from kdcode.codec import CodewordSpec
from kdcode.data import glove_50d
from kdcode.learning.starts import lstm_start, random_start, warm_start
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions

SHAPES = [
    ("linear", {}),
    ("linear", {"codeword_dim": 10}),
    ("linear", {"codeword_dim": 70}),
    ("lstm", {"codeword_dim": 20}),
    ("lstm", {"codeword_dim": 70}),
    ("product", {}),
    ("grouped", {"groups": 3}),
    ("grouped", {"groups": 2, "rotation": True}),
]


def setting(composition, rows=400, size=8, **changes):
    spec = CodewordSpec.named(composition, 50, size, 4, **changes)
    options = CompressOptions(size, 4, composition, codeword_dim=changes.get("codeword_dim"))
    return TrainingTable.of(glove_50d().head(rows), options), spec


@pytest.mark.parametrize(("composition", "changes"), SHAPES)
def test_a_warm_start_is_far_better_than_a_random_one(composition, changes):
    training, spec = setting(composition, **changes)
    warm, random = (make(training, spec, 0) for make in (warm_start, random_start))
    errors = [training.error(start.codes, start.module) for start in (warm, random)]
    assert errors[0] < 0.75 * errors[1]
    assert errors[0] < 0.9
    assert (warm.origin, random.origin) == ("warm", "random")
    assert warm.codes.shape == random.codes.shape == (400, 4)
    for start in (warm, random):
        assert start.module.codebook.shape == (4, 8, spec.codeword_dim)
        assert all(torch.isfinite(value).all() for value in start.module.parameters())


@pytest.mark.parametrize("make", [warm_start, random_start])
@pytest.mark.parametrize(("composition", "changes"), SHAPES)
def test_a_seed_gives_the_same_start(make, composition, changes):
    training, spec = setting(composition, **changes)
    first, again, other = (make(training, spec, seed) for seed in (3, 3, 4))
    assert torch.equal(first.codes, again.codes)
    assert torch.equal(first.module.codebook, again.module.codebook)
    assert not torch.equal(first.codes, other.codes)


def test_random_codes_are_drawn_evenly():
    training, spec = setting("linear", rows=2000)
    shares = torch.bincount(random_start(training, spec, 0).codes.flatten(), minlength=8) / 8000
    assert float((shares - 1 / 8).abs().max()) < 0.02


@pytest.mark.parametrize("width", [50, 70])
def test_an_lstm_starts_as_the_sum_that_it_is_given(width):
    training, linear = setting("linear")
    start = warm_start(training, linear, 0)
    spec = CodewordSpec.named("lstm", 50, 8, 4, codeword_dim=width)
    words = start.module.codebook.detach()
    lstm = lstm_start(start.codes, words * 1e-2, spec, 0)
    expected = start.module.compose(start.codes).detach()
    found = lstm.module.compose(start.codes).detach() * 1e2
    error = (found - expected).square().sum() / expected.square().sum()
    assert float(error) < 0.05
    assert lstm.origin == "learned"


@pytest.mark.parametrize("composition", ["linear", "product"])
def test_more_codewords_than_rows_are_no_trouble(composition):
    training, spec = setting(composition, rows=5, size=300)
    start = warm_start(training, spec, 0)
    assert training.error(start.codes, start.module) < 0.1
    assert int(start.codes.max()) < 300
