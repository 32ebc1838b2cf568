"""The training table: standardised, normalised where asked for, and undone again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kdcode.codec_torch import make_module
from kdcode.learning import training_table
from kdcode.learning.training_table import TrainingTable, can_centre, squared_distances
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
    assert float(training.vectors.mean(dim=0).abs().max()) < 1e-6
    assert float(training.vectors.square().mean()) == pytest.approx(1, rel=1e-5)
    assert training.variance == pytest.approx(50 * 7, rel=1e-5)
    torch.testing.assert_close(training.vectors, TrainingTable.of(table(), OPTIONS).vectors, rtol=1e-4, atol=1e-5)


def test_a_table_that_cannot_be_written_to_is_read_without_a_warning():
    matrix = table().matrix.astype(np.float32)
    matrix.flags.writeable = False
    training = TrainingTable.of(VectorTable(None, matrix), OPTIONS)
    assert torch.equal(training.vectors, TrainingTable.of(VectorTable(None, matrix.copy()), OPTIONS).vectors)


def test_parts_of_the_table_add_up(monkeypatch):
    weights = np.random.default_rng(1).random(50)
    whole = TrainingTable.of(table(weights=weights), OPTIONS)
    monkeypatch.setattr(training_table, "CHUNK_ROWS", 7)
    parts = TrainingTable.of(table(weights=weights), OPTIONS)
    torch.testing.assert_close(parts.vectors, whole.vectors)
    assert parts.scale == pytest.approx(whole.scale)


def test_only_sums_of_full_dimension_are_centred():
    centred = [can_centre(spec_of(**changes)) for changes in SHAPES]
    assert centred == [True, False, False, True, True, True]
    assert float(TrainingTable.of(table(), OPTIONS.changed(composition="lstm")).shift.abs().max()) == 0


@pytest.mark.parametrize("changes", SHAPES)
def test_adding_the_mean_and_the_scale_undoes_the_standardisation(changes):
    spec = spec_of(**changes)
    original = table()
    module = make_module(spec, generator=torch.Generator().manual_seed(0))
    training = TrainingTable.of(original, OPTIONS.changed(codebook_size=500, **changes))
    codes = torch.randint(spec.codebook_size, (50, spec.code_length), generator=torch.Generator().manual_seed(1))
    error = training.error(codes, module)
    expected = module.compose(codes).detach() * training.scale + training.shift
    training.add_mean(module)
    composed = module.compose(codes).detach()
    torch.testing.assert_close(composed * training.scale, expected, rtol=1e-4, atol=1e-4)
    rows = torch.from_numpy(original.matrix).float()
    torch.testing.assert_close(training.uncentred(slice(None)) * training.scale, rows, rtol=1e-4, atol=1e-4)
    spread = (rows - rows.mean(dim=0)).square().sum()
    assert float((rows - expected).square().sum() / spread) == pytest.approx(error, rel=1e-4)


def test_rows_count_by_their_weight():
    counts = np.random.default_rng(1).integers(0, 4, size=50)
    weighted = TrainingTable.of(table(weights=counts), OPTIONS)
    repeated = TrainingTable.of(VectorTable(None, table().matrix.repeat(counts, axis=0)), OPTIONS)
    torch.testing.assert_close(weighted.shift, repeated.shift, rtol=1e-5, atol=1e-5)
    assert weighted.weights.mean() == pytest.approx(1, rel=1e-5)
    assert weighted.scale * weighted.vectors.numel() ** 0.5 == pytest.approx(
        repeated.scale * repeated.vectors.numel() ** 0.5 / counts.mean() ** 0.5, rel=1e-5
    )
    module = make_module(OPTIONS.spec(7), generator=torch.Generator().manual_seed(0))
    codes = torch.randint(5, (50, 3), generator=torch.Generator().manual_seed(1))
    rows = squared_distances(module.compose(codes).detach(), weighted.vectors)
    expected = float(rows @ torch.from_numpy(counts / counts.mean()).float()) / weighted.variance
    assert weighted.error(codes, module) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("factor", [1e-25, 1.0, 1e30])
def test_rows_are_normalised_for_cosines_and_for_row_scales(factor):
    rows = table(factor=factor)
    lengths = np.linalg.norm(rows.matrix, axis=1)
    directions = torch.from_numpy(rows.matrix / lengths[:, None]).float()
    for changes, length in (({"scale_bits": 4}, 1.0), ({"loss": "cosine"}, lengths.mean())):
        training = TrainingTable.of(rows, OPTIONS.changed(**changes))
        assert training.row_length == pytest.approx(length, rel=1e-5)
        original = training.uncentred(slice(None)).double() * training.scale / length
        torch.testing.assert_close(original.float(), directions, rtol=1e-3, atol=1e-4)
    assert TrainingTable.of(rows, OPTIONS).row_length is None


@pytest.mark.parametrize("matrix", [np.ones((4, 7)), np.full((4, 7), 0.1), np.full((1, 7), 1e20), np.zeros((4, 7))])
def test_a_table_of_one_vector_has_an_error_relative_to_its_length(matrix):
    training = TrainingTable.of(VectorTable(None, matrix), OPTIONS)
    module = make_module(OPTIONS.spec(7))
    with torch.no_grad():
        module.codebook.zero_()
    codes = torch.zeros(len(matrix), 3, dtype=torch.long)
    assert training.error(codes, module) < 1e-10
    if matrix.any():
        with torch.no_grad():
            module.codebook += 1 / 3  # vectors of ones, in units of the scale
        assert training.error(codes, module) == pytest.approx(1, rel=1e-5)


def test_shares_of_the_variance():
    training = TrainingTable.of(table(), OPTIONS)
    assert training.relative(training.variance) == 1
    assert training.relative(training.variance / 2, rows=25) == 1
    assert TrainingTable.of(VectorTable(None, np.zeros((3, 2))), OPTIONS).relative(0.0) == 0
