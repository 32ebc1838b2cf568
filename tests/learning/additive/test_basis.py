"""Bases: principal directions shared out evenly, projections, and the best rotation for given codes."""

from __future__ import annotations

import numpy as np
import pytest

import kdcode
from kdcode.codec import CodewordSpec
from kdcode.learning.additive.basis import principal_basis, procrustes
from kdcode.learning.sum_model import SumModel
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions


def spread_rows(dim=8, rows=500):
    """Rows with a variance of 2^-j along direction j of a random rotation."""
    random = np.random.default_rng(0)
    rotation = np.linalg.qr(random.normal(size=(dim, dim)))[0]
    return ((random.normal(size=(rows, dim)) * 2.0 ** (-np.arange(dim) / 2)) @ rotation).astype(np.float32)


def model_of(spec, seed=0):
    return SumModel(spec, np.random.default_rng(seed))


def test_blocks_of_a_balanced_rotation_have_products_of_variances_that_are_nearly_equal():
    vectors = spread_rows()
    model = model_of(CodewordSpec.named("product", 8, 4, 4, rotation=True))
    principal_basis(TrainingTable(vectors, np.zeros(1, dtype=np.float32), 1.0, 1.0), model)
    basis = model.basis
    np.testing.assert_allclose(basis @ basis.T, np.eye(8), atol=1e-5, rtol=0)
    variances = np.square(vectors @ basis.T).mean(axis=0)
    products = [float(variances[block.columns].prod()) for block in model.spec.blocks]
    in_order = [2.0 ** -(2 * first + 1) for first in (0, 2, 4, 6)]  # two and two as they come
    assert max(products) / min(products) < 5
    assert max(in_order) / min(in_order) > 4000


def test_a_model_without_a_basis_is_left_alone():
    model = model_of(CodewordSpec.named("linear", 8, 4, 4))
    before = model.codebook.copy()
    principal_basis(TrainingTable(spread_rows(), np.zeros(1, dtype=np.float32), 1.0, 1.0), model)
    assert model.basis is None
    assert np.array_equal(model.codebook, before)


@pytest.mark.parametrize("rows", [500, 2])
def test_a_projection_starts_as_the_strongest_directions(rows):
    vectors = spread_rows(rows=rows)
    model = model_of(CodewordSpec.named("linear", 8, 4, 3, codeword_dim=3))
    principal_basis(TrainingTable(vectors, np.zeros(1, dtype=np.float32), 1.0, 1.0), model)
    basis = model.basis
    np.testing.assert_allclose(basis @ basis.T, np.eye(3), atol=1e-5, rtol=0)
    values = np.square(np.linalg.svd(vectors.astype(float), compute_uv=False))
    kept = float(np.square(vectors @ basis.T).sum())
    assert kept == pytest.approx(float(values[:3].sum()), rel=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_procrustes_undoes_a_rotation(weighted):
    random = np.random.default_rng(0)
    model = model_of(CodewordSpec.named("grouped", 6, 4, 4, groups=2, rotation=True))
    codes = random.integers(4, size=(300, 4))
    wanted = np.linalg.qr(random.standard_normal((6, 6))).Q.astype(np.float32)
    vectors = model.coordinates(model.compose(codes)) @ wanted
    weights = random.random(300, dtype=np.float32) if weighted else None
    if weighted:
        weights[:50] = 0
        vectors[:50] = 100  # rows without a weight do not count
    training = TrainingTable(vectors, np.zeros(6, dtype=np.float32), 1.0, 1.0, weights)
    procrustes(training, codes, model)
    np.testing.assert_allclose(model.basis, wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("composition", ["product", "grouped"])
def test_a_rotation_is_orthonormal_and_worth_its_bytes(composition):
    table = kdcode.data.glove_50d().head(1500)
    options = CompressOptions(16, 10, composition, codebook_dtype="float32").changed(effort="fast")
    plain, rotated = (kdcode.compress(table, options=options, rotation=rotation) for rotation in (False, True))
    basis = rotated.codec.basis
    np.testing.assert_allclose(basis @ basis.T, np.eye(50), atol=1e-4)
    assert rotated.provenance["relative_error"] < 0.95 * plain.provenance["relative_error"]
