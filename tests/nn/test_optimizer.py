"""The ready optimiser: row-wise steps for the tables that codes come from, Adam for the rest."""

from __future__ import annotations

import copy

import pytest
import torch
from counted_work import largest_tensor_made
from torch import nn

from kdcode.errors import OptionError
from kdcode.nn import KDEmbedding, make_optimizer, parameter_groups
from kdcode.nn.assignment import LEARNED
from kdcode.nn.optimizer import ROW_RATE

ANY_ASSIGNMENT = pytest.mark.parametrize("assignment", LEARNED)


def model_with(assignment="free", count=50, **arguments):
    torch.manual_seed(0)
    layer = KDEmbedding(count, 6, codebook_size=4, code_length=3, assignment=assignment, **arguments)
    return nn.Sequential(layer, nn.Linear(6, 2))


def one_step(model, optimizer, ids):
    optimizer.zero_grad()
    model(ids).square().sum().backward()
    optimizer.step()


@ANY_ASSIGNMENT
def test_groups_hold_every_parameter_once_and_tables_apart(assignment):
    model = model_with(assignment)
    groups = parameter_groups(model)
    assert [group["row_wise"] for group in groups] == [False, True]
    assert groups[1]["params"] == [model[0].assignment.rows.weight]
    assert groups[1]["lr"] == ROW_RATE
    held = [id(value) for group in groups for value in group["params"]]
    assert sorted(held) == sorted(id(value) for value in model.parameters())
    assert parameter_groups(model, row_lr=0.5)[1]["lr"] == 0.5


def test_frozen_parameters_are_left_out():
    model = model_with()
    model[1].weight.requires_grad_(False)
    assert not any(value is model[1].weight for value in parameter_groups(model)[0]["params"])


@pytest.mark.parametrize("model", [nn.Linear(2, 2), KDEmbedding.from_codes(torch.zeros(5, 2, dtype=torch.long), 4, 6)])
def test_a_model_without_learned_codes_is_refused(model):
    with pytest.raises(OptionError, match="no layer that learns codes"):
        make_optimizer(model)


@ANY_ASSIGNMENT
def test_only_rows_of_the_batch_are_touched(assignment):
    model = model_with(assignment)
    optimizer, rows = make_optimizer(model), model[0].assignment.rows
    before = rows.weight.detach().clone()
    one_step(model, optimizer, torch.tensor([3, 7, 7]))
    assert rows.weight.grad.is_sparse
    changed = (rows.weight.detach() != before).any(dim=1).nonzero()[:, 0].tolist()
    assert changed == [3, 7]


@ANY_ASSIGNMENT
def test_the_work_of_a_step_does_not_grow_with_the_number_of_symbols(assignment):
    def largest(count):
        model = model_with(assignment, count)
        optimizer, ids = make_optimizer(model), torch.arange(8)
        one_step(model, optimizer, ids)  # the first step makes the state
        return largest_tensor_made(lambda: one_step(model, optimizer, ids))

    assert largest(20_000) == largest(200) < 1000


@ANY_ASSIGNMENT
def test_dense_and_sparse_gradients_give_the_same_steps(assignment):
    sparse = model_with(assignment)
    dense = copy.deepcopy(sparse)
    optimizers = [make_optimizer(sparse), make_optimizer(dense)]
    dense[0].assignment.rows.sparse = False
    for _ in range(5):
        ids = torch.randint(50, (2, 6))
        for model, optimizer in zip((sparse, dense), optimizers, strict=True):
            one_step(model, optimizer, ids)
    for one, other in zip(sparse.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_others_are_stepped_as_by_adamw():
    model = model_with()
    twin = copy.deepcopy(model)
    optimizer = make_optimizer(model, 0.01, row_lr=0.0, weight_decay=0.1)
    others = [value for name, value in twin.named_parameters() if "rows" not in name]
    reference = torch.optim.AdamW(others, lr=0.01, weight_decay=0.1)
    for _ in range(3):
        ids = torch.randint(50, (10,))
        one_step(model, optimizer, ids)
        one_step(twin, reference, ids)
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@ANY_ASSIGNMENT
def test_a_row_step_has_the_length_of_the_rate_whatever_the_size_of_gradients(assignment):
    steps = []
    for scale in (1e-4, 1.0, 1e4):
        model = model_with(assignment)
        optimizer, rows = make_optimizer(model, row_lr=0.2), model[0].assignment.rows
        before = rows.weight.detach().clone()
        (scale * model(torch.arange(10)).square().sum()).backward()
        optimizer.step()
        steps.append(rows.weight.detach()[:10] - before[:10])
        torch.testing.assert_close(steps[-1].square().mean(dim=1).sqrt(), torch.full((10,), 0.2), rtol=1e-3, atol=0)
    torch.testing.assert_close(steps[0], steps[1], rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(steps[1], steps[2], rtol=1e-3, atol=1e-6)


@ANY_ASSIGNMENT
def test_state_goes_round_and_training_goes_on_as_it_would_have(assignment):
    model = model_with(assignment)
    optimizer = make_optimizer(model)
    batches = [torch.randint(50, (10,)) for _ in range(6)]
    for ids in batches[:3]:
        one_step(model, optimizer, ids)
    resumed = model_with(assignment)
    resumed.load_state_dict(model.state_dict())
    again = make_optimizer(resumed)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for ids in batches[3:]:
        one_step(model, optimizer, ids)
        one_step(resumed, again, ids)
    for one, other in zip(model.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_closure_is_called_and_its_loss_returned():
    model = model_with()
    optimizer = make_optimizer(model)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.arange(5)).square().sum()
        loss.backward()
        return loss

    first = float(optimizer.step(closure).detach())
    for _ in range(50):
        last = float(optimizer.step(closure).detach())
    assert last < first


@ANY_ASSIGNMENT
def test_learning_rate_schedulers_and_clipping_work(assignment):
    model = model_with(assignment)
    optimizer = make_optimizer(model, 0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    model(torch.arange(5)).square().sum().backward()
    nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[1]["lr"] == ROW_RATE / 2


@ANY_ASSIGNMENT
def test_codes_are_learned_with_the_defaults(assignment):
    torch.manual_seed(0)
    count, dim = 300, 8
    table = torch.randn(20, dim)[torch.randint(20, (count,))] + 0.1 * torch.randn(count, dim)
    layer = KDEmbedding(count, dim, codebook_size=8, code_length=4, composition="product", assignment=assignment)
    optimizer = make_optimizer(layer, lr=0.02)
    for _ in range(400):
        ids = torch.randint(count, (64,))
        optimizer.zero_grad()
        (layer(ids) - table[ids]).square().mean().backward()
        optimizer.step()
    error = float((layer.eval().weight.detach() - table).square().mean() / table.var())
    fixed = KDEmbedding.from_codes(torch.randint(8, (count, 4)), 8, dim, composition="product")
    by_random_codes = _fitted(fixed, table)
    assert error < 0.5 * by_random_codes


def _fitted(layer, table):
    """The relative error with random codes and trained codewords."""
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    for _ in range(400):
        optimizer.zero_grad()
        (layer(torch.arange(len(table))) - table).square().mean().backward()
        optimizer.step()
    return float((layer.weight.detach() - table).square().mean() / table.var())
