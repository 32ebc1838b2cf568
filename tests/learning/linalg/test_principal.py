"""Principal directions, of many rows and of few, against a singular value decomposition."""

from __future__ import annotations

import pytest
import torch
from counted_work import largest_tensor_made

from kdcode.learning.linalg.principal import complete_basis, principal_directions


def rows_of(count, dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    spread = torch.linspace(3, 0.1, dim)
    return torch.randn(count, dim, generator=generator) * spread + 1.5


def orthonormal(columns):
    torch.testing.assert_close(columns.t() @ columns, torch.eye(columns.shape[1]), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("count", "dim"), [(100, 8), (8, 8), (7, 8), (5, 40)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_directions_are_those_of_the_singular_value_decomposition(count, dim, weighted, centred):
    rows = rows_of(count, dim)
    weights = torch.rand(count, generator=torch.Generator().manual_seed(1)) + 0.1 if weighted else None
    mean = rows.mean(dim=0) if centred else None
    found = principal_directions(rows, weights, mean)
    matrix = (rows if mean is None else rows - mean) * (1 if weights is None else weights.sqrt()[:, None])
    values = torch.linalg.svdvals(matrix.double()).square()
    rank = min(int((values > 1e-9 * values[0]).sum()), len(found.variances))
    torch.testing.assert_close(found.variances[:rank].double(), values[:rank], rtol=1e-3, atol=1e-3)
    orthonormal(found.directions)
    # along the directions that are found the rows have these variances, and nothing is left of them beside
    projected = matrix @ found.directions
    torch.testing.assert_close(projected.square().sum(dim=0), found.variances, rtol=1e-3, atol=1e-3)
    assert float((matrix - projected @ found.directions.t()).abs().max()) < 1e-3


@pytest.mark.parametrize("rows", [torch.zeros(3, 10), torch.ones(3, 10), torch.ones(1, 10), torch.zeros(20, 10)])
def test_rows_without_variance_have_directions_too(rows):
    for mean in (None, rows.mean(dim=0)):
        found = principal_directions(rows, mean=mean)
        assert torch.isfinite(found.directions).all()
        orthonormal(found.directions)
        assert found.directions.shape[1] >= 1


def test_few_rows_of_many_dimensions_make_no_square_matrix_of_them():
    rows = rows_of(20, 5000)
    assert largest_tensor_made(lambda: principal_directions(rows)) <= 2 * 20 * 5000
    assert largest_tensor_made(lambda: principal_directions(rows_of(5000, 20))) <= 2 * 20 * 5000
    assert principal_directions(rows).directions.shape == (5000, 20)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_basis_is_cut_or_completed(count):
    given = principal_directions(rows_of(3, 8)).directions
    basis = complete_basis(given, count)
    assert basis.shape == (8, count)
    orthonormal(basis)
    kept = min(count, 3)
    assert torch.equal(basis[:, :kept], given[:, :kept])
