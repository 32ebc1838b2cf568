"""The step, the lengths of rows and the tables of levels, from a sample."""

from dataclasses import replace

import numpy as np
import pytest

from kdcode.codec.transform.centroids import Centroids, rounded_centroids, rounded_frequencies
from kdcode.learning.transform.fitting import Fit, NamedCentroids
from kdcode.learning.transform.level_statistics import LevelStatistics, counted_sides
from kdcode.learning.transform.rotation import Rotation

TRADE = 0.45


def sample(rows=1500, dim=24, seed=0):
    """Normal coordinates whose spread falls from 4 to 0.25."""
    random = np.random.default_rng(seed)
    return (random.normal(size=(rows, dim)) * np.geomspace(4, 0.25, dim)).astype(np.float32)


def fit_of(coordinates, states=64):
    return Fit(coordinates, coordinates[:4], states)


@pytest.mark.parametrize("bits", [30.0, 60.0, 100.0])
def test_rows_take_the_bits_that_are_asked_for(bits):
    fit = fit_of(sample())
    found = fit.adjusted(fit.with_classes(fit.natural(bits, TRADE), bits, 8), bits)
    assert found.bits == pytest.approx(bits, rel=0.02)
    assert len(found.quantizer.lengths) <= 8


def test_the_error_falls_with_bits_and_with_states():
    coordinates = sample()
    errors = [fit_of(coordinates, states).natural(bits, TRADE).error for states, bits in ((32, 40.0), (32, 80.0))]
    assert errors[1] < 0.4 * errors[0]
    found = {}
    for states in (1, 32, 256):
        outcome = fit_of(coordinates, states).natural(72.0, TRADE)
        found[states] = outcome.error * 2 ** (2 * (outcome.bits - 72) / coordinates.shape[1])
    assert found[256] < found[32] < 0.9 * found[1]


def test_contexts_are_those_of_a_spread():
    for statistics in (LevelStatistics(), LevelStatistics(octaves=1.0)):
        assert (statistics.context_of(statistics.spread_of(np.arange(40))) == np.arange(40)).all()


def test_contexts_of_a_few_rows_lie_farther_apart():
    random = np.random.default_rng(0)
    coordinates = (random.normal(size=(1500, 24)) * np.exp(1.5 * random.normal(size=(1500, 1)))).astype(np.float32)
    fit = fit_of(coordinates)
    natural = fit.natural(80.0, TRADE)
    assert fit.with_fewer_contexts(natural, 10_000_000) is None
    coarser = fit.with_fewer_contexts(natural, 1500)
    assert coarser.statistics.octaves > fit.statistics.octaves
    assert coarser.natural(80.0, TRADE).quantizer.tables.nbytes < 0.7 * natural.quantizer.tables.nbytes


def test_rows_begin_from_a_draft_of_about_as_many_bits(monkeypatch):
    fit, rounds, coded = fit_of(sample()), [], Fit._coded
    monkeypatch.setattr(Fit, "_coded", lambda *args: rounds.append(1) or coded(*args))
    first = fit.natural(60.0, TRADE)
    began = len(rounds)
    again = fit.natural(60.0, TRADE, first.quantizer)
    assert len(rounds) - began <= began
    assert again.cost(60.0) < 1.01 * first.cost(60.0)


def test_tables_count_levels():
    """One coordinate, with one state and one class: levels 0, 1 and 2 where rows lie near 0, 2 and 4."""
    random = np.random.default_rng(0)
    coordinates = (0.2 + 3.6 * random.random((4000, 1))).astype(np.float32)
    quantizer = replace(Fit(coordinates, coordinates[:4], 1)._first(8.0, 1e-6, (40,)), step=1.0)
    codec = quantizer.codec(Rotation({"mean": np.zeros(1, dtype=np.float32)}))
    blocks = codec.encode_blocks(coordinates)
    found = LevelStatistics().counted_tables(codec, blocks, 5).whole
    context = int(codec.stored["group_contexts"][0])
    shares = [float((np.abs(blocks.multiples) == 2 * level).mean()) for level in (0, 1, 2)]
    assert found.shares[2 * context][:3] == pytest.approx(shares, rel=0.06)


def test_sides_are_how_far_coordinates_lie_from_their_level():
    errors = np.array([[0.5, -0.25], [-0.5, 0.25]], dtype=np.float32)
    assert counted_sides(np.tile(errors, (500, 1))).tolist() == [64, 33]  # a little of what is expected of all


def test_coordinates_that_lie_on_their_level_stay_there():
    errors = np.array([[0, 0.5], [0, 0.5], [0.5, 0]], dtype=np.float32)
    sides = counted_sides(np.tile(errors, (500, 1)))
    assert sides[0] == 0
    assert sides[1] > 0


def named(rows, share_of_second=0.5):
    """Two centroids, both zero, and which of them rows are measured from."""
    packed, scales = rounded_centroids(np.zeros((2, 24)), 4)
    counts = np.array([1 - share_of_second, share_of_second])
    numbers = (np.arange(rows) < share_of_second * rows).astype(np.int64)
    centroids = Centroids(packed, scales, rounded_frequencies(1e4 * counts), 4)
    return NamedCentroids(centroids, numbers, np.ones(40, dtype=np.int64))


def test_numbers_of_centroids_are_among_the_bits_of_rows():
    coordinates = sample()
    for found in (named(1500), named(1500, 0.1)):
        fit = Fit(coordinates, coordinates[:40], named=found)
        natural = fit.natural(80.0, 0.45)
        assert natural.bits == pytest.approx(80, rel=0.02)
        alone = fit_of(coordinates).natural(80.0 - float(found.centroids.costs[found.numbers].mean()), 0.45)
        assert natural.error == pytest.approx(alone.error, rel=0.03)


def test_zeros_fit_into_the_longest_rows_whatever_centroid_they_have():
    fit = Fit(sample(), sample()[:40], named=named(1500, 1e-4))
    quantizer = fit.natural(80.0, 0.45).quantizer
    short = tuple(length for length in quantizer.lengths if length <= 2)
    alone = replace(quantizer, lengths=short, centroids=None).with_room_for_zeros().lengths[-1]
    assert replace(quantizer, lengths=short).with_room_for_zeros().lengths[-1] >= alone + 1
