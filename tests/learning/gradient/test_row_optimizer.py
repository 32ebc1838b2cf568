"""Row-wise steps against the formula by hand."""

from __future__ import annotations

import math

import torch

from kdcode.learning.gradient.row_optimizer import RowOptimizer


def test_steps_follow_the_formula_and_leave_other_rows_alone():
    table = torch.ones(4, 2, 2)
    optimizer = RowOptimizer(table, decay=0.9)
    rows = torch.tensor([3, 1])
    grads = torch.stack([torch.full((2, 2), 2.0), torch.tensor([[0.0, 0.0], [0.0, 4.0]])])
    optimizer.step(rows, table[rows].clone(), grads, rate=0.5)
    assert torch.equal(table[[0, 2]], torch.ones(2, 2, 2))
    # first visit: the corrected mean square is the gradient's own, 4 for both rows
    torch.testing.assert_close(table[3], torch.full((2, 2), 0.5))
    torch.testing.assert_close(table[1], torch.tensor([[1.0, 1.0], [1.0, 0.0]]))
    optimizer.step(torch.tensor([3]), table[3:4].clone(), torch.full((1, 2, 2), 1.0), rate=0.5)
    mean_square = (0.9 * 0.1 * 4 + 0.1 * 1) / (1 - 0.9**2)
    torch.testing.assert_close(table[3], torch.full((2, 2), 0.5 - 0.5 / math.sqrt(mean_square)))


def test_a_zero_gradient_moves_nothing():
    table = torch.ones(2, 3)
    RowOptimizer(table).step(torch.tensor([0]), table[:1].clone(), torch.zeros(1, 3), rate=1.0)
    assert torch.equal(table, torch.ones(2, 3))


def test_state_goes_over():
    first, second = (RowOptimizer(torch.ones(3, 2)) for _ in range(2))
    first.step(torch.tensor([1]), torch.ones(1, 2), torch.ones(1, 2), rate=0.1)
    second.load_state_dict(first.state_dict())
    second.table.copy_(first.table)
    for optimizer in (first, second):
        optimizer.step(torch.tensor([1]), optimizer.table[1:2].clone(), torch.full((1, 2), 3.0), rate=0.1)
    assert torch.equal(first.table, second.table)
    assert float(first.mean_square[1]) > 0
