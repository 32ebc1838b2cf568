"""Where learning starts: residual k-means is far better than random codes, an LSTM starts as a sum."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kdcode.codec import CodewordSpec
from kdcode.data import glove_50d
from kdcode.learning.gradient.learners import lstm_start
from kdcode.learning.linalg import kmeans
from kdcode.learning.row_share import RowShare
from kdcode.learning.starts import BlockSample, random_start, residual_codes, residual_codewords, warm_start
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions

SHAPES = [
    ("linear", {}),
    ("linear", {"codeword_dim": 10}),
    ("linear", {"codeword_dim": 70}),
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
    errors = [training.error(start.codes, start.model) for start in (warm, random)]
    assert errors[0] < 0.75 * errors[1]
    assert errors[0] < 0.9
    assert (warm.origin, random.origin) == ("warm", "random")
    assert warm.codes.shape == random.codes.shape == (400, 4)
    for start in (warm, random):
        assert start.model.codebook.shape == (4, 8, spec.codeword_dim)
        assert all(np.isfinite(value).all() for value in start.model.weights.values())


@pytest.mark.parametrize("make", [warm_start, random_start])
@pytest.mark.parametrize(("composition", "changes"), SHAPES)
def test_a_seed_gives_the_same_start(make, composition, changes):
    training, spec = setting(composition, **changes)
    first, again, other = (make(training, spec, seed) for seed in (3, 3, 4))
    assert np.array_equal(first.codes, again.codes)
    assert np.array_equal(first.model.codebook, again.model.codebook)
    assert not np.array_equal(first.codes, other.codes)


def test_random_codes_are_drawn_evenly_in_few_bytes():
    training, spec = setting("linear", rows=2000)
    codes = random_start(training, spec, 0).codes
    assert np.abs(np.bincount(codes.reshape(-1), minlength=8) / 8000 - 1 / 8).max() < 0.02
    assert codes.dtype == np.uint8
    assert random_start(*setting("linear", rows=20, size=300), 0).codes.dtype == np.int32


@pytest.mark.parametrize("width", [50, 70])
def test_an_lstm_starts_as_the_sum_that_it_is_given(width):
    training, linear = setting("linear")
    start = warm_start(training, linear, 0)
    spec = CodewordSpec.named("lstm", 50, 8, 4, codeword_dim=width)
    codes, words = torch.from_numpy(start.codes), torch.from_numpy(start.model.codebook)
    lstm = lstm_start(codes, words * 1e-2, spec, 0)
    expected = start.model.compose(start.codes)
    found = lstm.module.compose(codes).detach().numpy() * 1e2
    assert np.square(found - expected).sum() / np.square(expected).sum() < 0.05
    assert lstm.origin == "learned"


@pytest.mark.parametrize("composition", ["linear", "product"])
def test_more_codewords_than_rows_are_no_trouble(composition):
    training, spec = setting(composition, rows=5, size=300)
    start = warm_start(training, spec, 0)
    assert training.error(start.codes, start.model) < 0.1
    assert int(start.codes.max()) < 300


# Residual k-means.


def left_over(rows, length, size, seed=0, weights=None):
    """What `length` levels of residual k-means leave over of rows."""
    sample = BlockSample.of(rows, weights, size, RowShare.whole(len(rows)), np.random.default_rng(seed))
    words = residual_codewords(sample, length, size)
    codes = residual_codes(rows, words)
    return [rows - sum(words[level][codes[:, level]] for level in range(last + 1)) for last in range(length)]


def drawn(*shape):
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def test_each_residual_level_lowers_the_error_and_rows_are_left_alone():
    rows = drawn(600, 10)
    errors = [float(np.square(left).sum()) for left in left_over(rows, 4, 8)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.5 * errors[0]
    assert np.array_equal(rows, drawn(600, 10))


def test_rows_count_by_their_weight():
    rows, weights = drawn(300, 4), np.where(np.arange(300) < 30, 50, 1).astype(np.float32)
    even, weighted = (np.square(left_over(rows, 2, 4, 0, used)[-1][:30]).sum() for used in (None, weights))
    assert weighted < 0.8 * even


def test_progressive_dimensions_leave_less_over_than_seeds(monkeypatch):
    rows = glove_50d().head(2000).matrix.astype(np.float32)

    def lost():
        return sum(float(np.square(left_over(rows, 8, 64, seed)[-1]).sum()) for seed in range(2))

    progressive = lost()
    monkeypatch.setattr(kmeans, "_NARROW", 50)
    assert progressive < 0.96 * lost()


def test_small_tables_have_their_clusters_found():
    exact = 0
    for seed in range(5):
        random = np.random.default_rng(seed)
        coarse, fine = (random.standard_normal((8, 20), dtype=np.float32) for _ in range(2))
        rows = (3 * coarse[:, None] + fine).reshape(-1, 20)
        exact += float(np.square(left_over(rows, 2, 8, seed)[-1]).sum()) < 1e-6 * float(np.square(rows).sum())
    assert exact >= 3
