"""Bases: principal directions shared out evenly, projections, and the best rotation for given codes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import kdcode
from kdcode.codec import CodewordSpec
from kdcode.codec_torch import make_module
from kdcode.learning.additive.basis import principal_basis, procrustes
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions


def spread_rows(dim=8, rows=500):
    """Rows with a variance of 2^-j along direction j of a random rotation."""
    random = np.random.default_rng(0)
    rotation = np.linalg.qr(random.normal(size=(dim, dim)))[0]
    return torch.from_numpy((random.normal(size=(rows, dim)) * 2.0 ** (-np.arange(dim) / 2)) @ rotation).float()


def test_blocks_of_a_balanced_rotation_have_products_of_variances_that_are_nearly_equal():
    vectors = spread_rows()
    module = make_module(CodewordSpec.named("product", 8, 4, 4, rotation=True))
    principal_basis(TrainingTable(vectors, torch.zeros(1), 1.0, 1.0), module)
    basis = module.basis.detach()
    torch.testing.assert_close(basis @ basis.t(), torch.eye(8), atol=1e-5, rtol=0)
    variances = (vectors @ basis.t()).square().mean(dim=0)
    products = [float(variances[block.columns].prod()) for block in module.spec.blocks]
    in_order = [2.0 ** -(2 * first + 1) for first in (0, 2, 4, 6)]  # two and two as they come
    assert max(products) / min(products) < 5
    assert max(in_order) / min(in_order) > 4000


def test_a_module_without_a_basis_is_left_alone():
    module = make_module(CodewordSpec.named("linear", 8, 4, 4))
    before = module.codebook.detach().clone()
    principal_basis(TrainingTable(spread_rows(), torch.zeros(1), 1.0, 1.0), module)
    assert module.basis is None
    assert torch.equal(module.codebook, before)


@pytest.mark.parametrize("rows", [500, 2])
def test_a_projection_starts_as_the_strongest_directions(rows):
    vectors = spread_rows(rows=rows)
    module = make_module(CodewordSpec.named("linear", 8, 4, 3, codeword_dim=3))
    principal_basis(TrainingTable(vectors, torch.zeros(1), 1.0, 1.0), module)
    basis = module.basis.detach()
    torch.testing.assert_close(basis @ basis.t(), torch.eye(3), atol=1e-5, rtol=0)
    values = torch.linalg.svdvals(vectors.double()).square()
    kept = float((vectors @ basis.t()).square().sum())
    assert kept == pytest.approx(float(values[:3].sum()), rel=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_procrustes_undoes_a_rotation(weighted):
    generator = torch.Generator().manual_seed(0)
    spec = CodewordSpec.named("grouped", 6, 4, 4, groups=2, rotation=True)
    module = make_module(spec, generator=generator)
    codes = torch.randint(4, (300, 4), generator=generator)
    wanted = torch.linalg.qr(torch.randn(6, 6, generator=generator)).Q
    vectors = module.coordinates(module.compose(codes)).detach() @ wanted
    weights = torch.rand(300, generator=generator) if weighted else None
    if weighted:
        weights[:50] = 0
        vectors[:50] = 100  # rows without a weight do not count
    training = TrainingTable(vectors, torch.zeros(6), 1.0, 1.0, weights)
    procrustes(training, codes, module)
    torch.testing.assert_close(module.basis.detach(), wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("composition", ["product", "grouped"])
def test_a_rotation_is_orthonormal_and_worth_its_bytes(composition):
    table = kdcode.data.glove_50d().head(1500)
    options = CompressOptions(16, 10, composition, codebook_dtype="float32").changed(effort="fast")
    plain, rotated = (kdcode.compress(table, options=options, rotation=rotation) for rotation in (False, True))
    basis = rotated.codec.basis
    np.testing.assert_allclose(basis @ basis.T, np.eye(50), atol=1e-4)
    assert rotated.provenance["relative_error"] < 0.95 * plain.provenance["relative_error"]
