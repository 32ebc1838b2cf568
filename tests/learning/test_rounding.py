"""Rounding: codes move to what suits the rounded codewords, and row scales keep lengths."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kdcode.codec_torch import make_module
from kdcode.data import glove_50d
from kdcode.learning import rounding
from kdcode.learning.rounding import rounded, with_row_scales
from kdcode.learning.solution import Solution
from kdcode.learning.sum_model import SumModel
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions
from kdcode.table import VectorTable

TABLE = glove_50d().head(300)
SHAPES = [
    {},
    {"codeword_dim": 7},
    {"composition": "product"},
    {"composition": "grouped"},
    {"composition": "grouped", "rotation": True},
    {"composition": "lstm", "codeword_dim": 7},
]


def setting(factor=1.0, **changes):
    options = CompressOptions(12, 5).changed(**changes)
    random, spec = np.random.default_rng(0), options.spec(50)
    table = VectorTable(None, TABLE.matrix * np.float32(factor))
    is_lstm = spec.composition == "lstm"
    model = make_module(spec, generator=torch.Generator().manual_seed(0)) if is_lstm else SumModel(spec, random)
    return TrainingTable.of(table, options), Solution(random.integers(12, size=(300, 5)), model), table


def errors(table, codes, codec):
    return np.square(table.matrix.astype(np.float64) - codec.compose(codes)).sum(axis=1)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("changes", SHAPES, ids=str)
@pytest.mark.parametrize("factor", [1e-25, 1.0, 1e30])
def test_codes_move_to_what_suits_the_rounded_codewords(changes, dtype, factor):
    training, found, table = setting(factor, codebook_dtype=dtype, **changes)
    codes, codec = rounded(training, found, refine=True)
    assert codec.spec.codebook_dtype == dtype
    before, after = (errors(table, part, codec) for part in (found.codes, codes))
    assert (after <= before * (1 + 1e-5)).all()
    assert after.sum() < 0.95 * before.sum()


def test_tables_are_refined_in_parts(monkeypatch):
    (training, found, _), (_, again, _) = (setting(codebook_dtype="int8") for _ in range(2))
    whole, _ = rounded(training, found, refine=True)
    monkeypatch.setattr(rounding, "_ROWS", 70)
    parts, _ = rounded(training, again, refine=True)
    assert (parts == whole).mean() > 0.99


def test_codes_stay_where_they_are_told_to():
    training, found, _ = setting(codebook_dtype="int8")
    codes, codec = rounded(training, found, refine=False)
    assert np.array_equal(codes, found.codes)
    assert codec.spec.codebook_dtype == "int8"


def test_float32_is_not_rounded_and_codes_stay():
    training, found, _ = setting(codebook_dtype="float32")
    words = found.model.codebook.copy()
    codes, codec = rounded(training, found, refine=True)
    assert np.array_equal(codes, found.codes)
    composed = sum(words[position][codes[:, position]] for position in range(5))
    expected = composed * training.scale + training.shift
    np.testing.assert_allclose(codec.compose(codes), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("factor", [1e-25, 1.0, 1e30])
def test_row_scales_make_vectors_as_long_as_those_of_the_table(factor):
    training, found, table = setting(factor, scale_bits=6)
    moved, codec = rounded(training, found, refine=True)
    codes, scaled = with_row_scales(table, moved, codec)
    assert codes.shape == (300, 6)
    np.testing.assert_array_equal(codes[:, :5], moved)
    lengths, near = (np.linalg.norm(rows.astype(np.float64), axis=1) for rows in (table.matrix, scaled.decode(codes)))
    assert np.abs(near / lengths - 1).max() < 0.1
    levels = scaled.stored["scale_levels"]
    assert (np.diff(levels) >= 0).all()
