"""Probes: samples of a table, the Gaussian limit, and errors of all blocks from those of some."""

from __future__ import annotations

import numpy as np
import pytest

import kdcode
from kdcode.data import glove_50d
from kdcode.learning.additive.annealing import SCHEDULES
from kdcode.learning.planning import block_probe
from kdcode.learning.planning.block_probe import Sample, _drawn, block_limit, probe
from kdcode.learning.starts import warm_start
from kdcode.options import CompressOptions

PRODUCT = CompressOptions.of(
    effort="fast", composition="product", codebook_size=16, code_length=10, codebook_dtype="float32"
)


def test_a_sample_has_other_rows_to_test_with():
    table = glove_50d().head(3000)
    sample = Sample.of(table, 500, PRODUCT)
    assert (len(sample.training), len(sample.unseen)) == (500, 2000)
    assert sample.share == pytest.approx(1 / 6)
    training = sample.training
    rows = np.concatenate([training.vectors, sample.unseen]) * training.scale + training.shift
    distances = np.square(rows[:, None, :8] - table.matrix[:, :8]).sum(axis=2)
    row = distances.argmin(axis=1)
    assert np.abs(rows - table.matrix[row]).max() < 1e-4
    assert len(set(row.tolist())) == 2500


def test_a_sample_of_all_rows_has_none_left():
    sample = Sample.of(glove_50d().head(100), 100, PRODUCT)
    assert (len(sample.unseen), sample.share) == (0, 1.0)
    assert probe(sample, PRODUCT.spec(50), SCHEDULES["fast"], 0).unseen is None


@pytest.mark.parametrize(("bits", "expected"), [(0, 17.0), (2, 2.0), (1, 1 + 4.0), (3, 1.0)])
def test_the_limit_of_a_gaussian_is_that_of_reverse_water_filling(bits, expected):
    rows = np.array([[4.0, 1.0], [4.0, -1.0], [-4.0, 1.0], [-4.0, -1.0]])  # variances 16 and 1, no covariance
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2))).Q
    assert block_limit(rows @ turn, bits) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("rotation", "within"), [(False, 0.08), (True, 0.05)])
def test_some_blocks_tell_of_all(rotation, within, monkeypatch):
    table = glove_50d().head(2000)
    spec = PRODUCT.changed(rotation=rotation, code_length=25).spec(50)
    sample = Sample.of(table, 1000, PRODUCT)
    some = probe(sample, spec, SCHEDULES["fast"], 0)
    monkeypatch.setattr(block_probe, "_PRODUCT_BLOCKS", 25)
    every = probe(sample, spec, SCHEDULES["fast"], 0)
    assert some.seen == pytest.approx(every.seen, rel=within)
    assert some.unseen == pytest.approx(every.unseen, rel=within)
    assert some.seen != every.seen


def test_rotated_blocks_are_those_of_a_run():
    table = glove_50d().head(600)
    options = PRODUCT.changed(rotation=True)
    sample = Sample.of(table, 600, options)
    found, _ = sample.coordinates(options.spec(50))
    started = warm_start(sample.training, options.spec(50), 0).model.coordinates(sample.training.vectors)
    np.testing.assert_allclose(np.abs(found), np.abs(started), rtol=0, atol=1e-3)  # directions have no sign


def test_a_table_without_variance_is_probed():
    table = kdcode.VectorTable(None, np.ones((50, 8), dtype=np.float32))
    options = PRODUCT.changed(code_length=4)
    found = probe(Sample.of(table, 20, options), options.spec(8), SCHEDULES["fast"], 0)
    assert found.seen == pytest.approx(0, abs=1e-9)


def test_rows_that_count_more_are_drawn_sooner_and_stand_for_fewer():
    table = glove_50d().head(2000)
    weights = 1 / (np.arange(2000) + 10)
    unit = table.matrix / np.linalg.norm(table.matrix, axis=1, keepdims=True)
    weighted = kdcode.VectorTable(None, unit, weights)
    order, chances = _drawn(weighted, 300, 0)
    assert chances.sum() == pytest.approx(300, rel=1e-3)
    assert set(np.flatnonzero(chances == 1)) <= set(order[:300])
    sums = []
    for seed in range(20):
        order, chances = _drawn(weighted, 300, seed)
        picked = order[:300]
        sums.append((weights[picked] / chances[picked]).sum())  # each estimates the sum of all weights
    assert np.mean(sums) == pytest.approx(weights.sum(), rel=0.02)
    assert np.std(sums) < 0.05 * weights.sum()


def test_rows_that_count_for_nothing_are_no_rows_to_test_with():
    weights = np.zeros(2000)
    weights[5] = 1.0
    sample = Sample.of(kdcode.VectorTable(None, glove_50d().head(2000).matrix, weights), 500, PRODUCT)
    assert len(sample.unseen) == 0
    assert probe(sample, PRODUCT.spec(50), SCHEDULES["fast"], 0).unseen is None
