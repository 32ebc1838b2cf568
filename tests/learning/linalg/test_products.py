"""Products of matrices that are large enough to be shared among threads, against float64, for any number of threads."""

from __future__ import annotations

import pytest
import torch

from kdcode.codec_torch.parallel import using_threads
from kdcode.learning.linalg.label_sums import label_sums
from kdcode.learning.linalg.products import multiply, scatter

SIZES = [(3, 4, 5), (20_000, 40, 30), (9_001, 64, 64), (2_000, 2_000, 7)]
"""Rows, dimensions and columns: a small product, and some that are shared among threads."""


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def same_for_any_number_of_threads(compute):
    results = []
    for threads in (1, 3):
        with using_threads(threads):
            results.append(compute())
    assert torch.equal(*results)
    return results[0].double()


@pytest.mark.parametrize(("rows", "dim", "columns"), SIZES)
def test_multiply(rows, dim, columns):
    left, right = drawn(rows, dim), drawn(dim, columns)
    found = same_for_any_number_of_threads(lambda: multiply(left, right))
    torch.testing.assert_close(found, left.double() @ right.double(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("rows", "dim", "columns"), SIZES)
def test_scatter(rows, dim, columns, is_weighted):
    vectors = drawn(rows, dim)
    weights = drawn(rows).abs() if is_weighted else None
    found = same_for_any_number_of_threads(lambda: scatter(vectors, weights))
    counted = vectors.double() * (1 if weights is None else weights.double()[:, None])
    torch.testing.assert_close(found, counted.t() @ vectors.double(), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("rows", "dim", "count"), [(50, 3, 4), (30_000, 40, 256), (30_000, 40, 5), (60_000, 20, 300)])
def test_sums_by_label(rows, dim, count, is_weighted):
    values, weights = drawn(rows, dim), drawn(rows).abs() if is_weighted else None
    labels = torch.randint(count, (rows,), generator=torch.Generator().manual_seed(1))
    labels[labels == count - 2] = 0  # one that no row has
    found = same_for_any_number_of_threads(lambda: label_sums(values, labels, count, weights))
    counted = values.double() * (1 if weights is None else weights.double()[:, None])
    expected = torch.zeros(count, dim, dtype=torch.float64).index_add_(0, labels, counted)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)
