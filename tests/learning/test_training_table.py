"""The training table: standardised, normalised where asked for, and undone again."""

from __future__ import annotations

import numpy as np
import pytest

from kdcode.learning import training_table
from kdcode.learning.sum_model import SumModel
from kdcode.learning.training_table import TrainingTable, can_centre
from kdcode.options import CompressOptions
from kdcode.table import VectorTable

OPTIONS = CompressOptions(5, 3, codebook_dtype="float32")
SHAPES = [
    {},
    {"codeword_dim": 4},
    {"composition": "lstm", "codeword_dim": 4},
    {"composition": "product"},
    {"composition": "grouped", "groups": 2},
    {"composition": "grouped", "groups": 2, "rotation": True},
]


def table(dim=7, factor=1.0, weights=None):
    return VectorTable(None, np.random.default_rng(0).normal(3, 2, size=(50, dim)) * factor, weights)


def spec_of(dim=7, **changes):
    options = OPTIONS.changed(**changes)
    # a projection is folded into the codewords where it does not pay; here it is wanted as it is
    return options.changed(codebook_size=500).spec(dim)


@pytest.mark.parametrize("factor", [1e-30, 1e-12, 1.0, 1e12, 1e30])
def test_standardised_rows_have_spread_one(factor):
    training = TrainingTable.of(table(factor=factor), OPTIONS)
    assert np.abs(training.vectors.mean(axis=0)).max() < 1e-6
    assert np.square(training.vectors).mean() == pytest.approx(1, rel=1e-5)
    assert training.variance == pytest.approx(50 * 7, rel=1e-5)
    np.testing.assert_allclose(training.vectors, TrainingTable.of(table(), OPTIONS).vectors, rtol=1e-4, atol=1e-5)


def test_a_table_that_cannot_be_written_to_is_read_without_a_warning():
    matrix = table().matrix.astype(np.float32)
    matrix.flags.writeable = False
    training = TrainingTable.of(VectorTable(None, matrix), OPTIONS)
    assert np.array_equal(training.vectors, TrainingTable.of(VectorTable(None, matrix.copy()), OPTIONS).vectors)


def test_parts_of_the_table_add_up(monkeypatch):
    weights = np.random.default_rng(1).random(50)
    whole = TrainingTable.of(table(weights=weights), OPTIONS)
    monkeypatch.setattr(training_table, "CHUNK_ROWS", 7)
    parts = TrainingTable.of(table(weights=weights), OPTIONS)
    np.testing.assert_allclose(parts.vectors, whole.vectors)
    assert parts.scale == pytest.approx(whole.scale)


def test_only_sums_of_full_dimension_are_centred():
    centred = [can_centre(spec_of(**changes)) for changes in SHAPES]
    assert centred == [True, False, False, True, True, True]
    assert not TrainingTable.of(table(), OPTIONS.changed(composition="lstm")).shift.any()


@pytest.mark.parametrize("changes", [changes for changes in SHAPES if "lstm" not in changes.values()])
def test_adding_the_mean_and_the_scale_undoes_the_standardisation(changes):
    spec = spec_of(**changes)
    original = table()
    model = SumModel(spec, np.random.default_rng(0))
    training = TrainingTable.of(original, OPTIONS.changed(codebook_size=500, **changes))
    codes = np.random.default_rng(1).integers(spec.codebook_size, size=(50, spec.code_length))
    error = training.error(codes, model)
    expected = model.compose(codes) * training.scale + training.shift
    training.add_mean(model)
    composed = model.compose(codes)
    np.testing.assert_allclose(composed * training.scale, expected, rtol=1e-4, atol=1e-4)
    rows = original.matrix.astype(np.float32)
    np.testing.assert_allclose(training.uncentred(slice(None)) * training.scale, rows, rtol=1e-4, atol=1e-4)
    spread = np.square(rows - rows.mean(axis=0)).sum()
    assert np.square(rows - expected).sum() / spread == pytest.approx(error, rel=1e-4)


def test_rows_count_by_their_weight():
    counts = np.random.default_rng(1).integers(0, 4, size=50)
    weighted = TrainingTable.of(table(weights=counts), OPTIONS)
    repeated = TrainingTable.of(VectorTable(None, table().matrix.repeat(counts, axis=0)), OPTIONS)
    np.testing.assert_allclose(weighted.shift, repeated.shift, rtol=1e-5, atol=1e-5)
    assert weighted.weights.mean() == pytest.approx(1, rel=1e-5)
    assert weighted.scale * weighted.vectors.size**0.5 == pytest.approx(
        repeated.scale * repeated.vectors.size**0.5 / counts.mean() ** 0.5, rel=1e-5
    )
    model = SumModel(OPTIONS.spec(7), np.random.default_rng(0))
    codes = np.random.default_rng(1).integers(5, size=(50, 3))
    rows = np.square(model.compose(codes) - weighted.vectors).sum(axis=1)
    expected = float(rows @ (counts / counts.mean())) / weighted.variance
    assert weighted.error(codes, model) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("factor", [1e-25, 1.0, 1e30])
def test_rows_are_normalised_for_cosines_and_for_row_scales(factor):
    rows = table(factor=factor)
    lengths = np.linalg.norm(rows.matrix, axis=1)
    directions = rows.matrix / lengths[:, None]
    for changes, length in (({"scale_bits": 4}, 1.0), ({"loss": "cosine"}, lengths.mean())):
        training = TrainingTable.of(rows, OPTIONS.changed(**changes))
        assert training.row_length == pytest.approx(length, rel=1e-5)
        original = training.uncentred(slice(None)).astype(float) * training.scale / length
        np.testing.assert_allclose(original, directions, rtol=1e-3, atol=1e-4)
    assert TrainingTable.of(rows, OPTIONS).row_length is None


@pytest.mark.parametrize("matrix", [np.ones((4, 7)), np.full((4, 7), 0.1), np.full((1, 7), 1e20), np.zeros((4, 7))])
def test_a_table_of_one_vector_has_an_error_relative_to_its_length(matrix):
    training = TrainingTable.of(VectorTable(None, matrix), OPTIONS)
    model = SumModel(OPTIONS.spec(7), np.random.default_rng(0))
    model.codebook[...] = 0
    codes = np.zeros((len(matrix), 3), dtype=int)
    assert training.error(codes, model) < 1e-10
    if matrix.any():
        model.codebook += np.float32(1 / 3)  # vectors of ones, in units of the scale
        assert training.error(codes, model) == pytest.approx(1, rel=1e-5)


def test_shares_of_the_variance():
    training = TrainingTable.of(table(), OPTIONS)
    assert training.relative(training.variance) == 1
    assert training.relative(training.variance / 2, rows=25) == 1
    assert TrainingTable.of(VectorTable(None, np.zeros((3, 2))), OPTIONS).relative(0.0) == 0
