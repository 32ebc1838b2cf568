"""Sums of rows by label against `index_add_`."""

from __future__ import annotations

import pytest
import torch

from kdcode.learning.linalg.label_sums import label_sums


@pytest.mark.parametrize("kind", [torch.uint8, torch.int32, torch.int64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("count", [7, 40_000])
def test_rows_are_added_up_by_label(kind, weighted, count):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(300, 5, generator=generator)
    labels = torch.randint(1, 6, (300,), generator=generator)  # none has the first label or the last
    weights = torch.rand(300, generator=generator) if weighted else None
    summed = rows if weights is None else rows * weights[:, None]
    expected = torch.zeros(count, 5).index_add_(0, labels, summed)
    torch.testing.assert_close(label_sums(rows, labels.to(kind), count, weights), expected)
