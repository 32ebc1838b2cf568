"""Guidance: composed vectors are pulled towards a given table, or towards one that is trained alongside."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kdcode.errors import OptionError
from kdcode.nn import FullTableGuidance, KDEmbedding, TableGuidance, make_optimizer
from kdcode.nn.assignment import LEARNED

N, DIM = 30, 6
ANY_ASSIGNMENT = pytest.mark.parametrize("assignment", LEARNED)


def layer(assignment="free", **arguments):
    torch.manual_seed(0)
    return KDEmbedding(N, DIM, codebook_size=8, code_length=4, assignment=assignment, **arguments)


def test_the_loss_is_the_mean_squared_distance_where_each_occurrence_counts():
    module, table = layer(), torch.randn(N, DIM)
    ids = torch.tensor([[3, 3, 3], [5, 3, 5]])
    expected = (module(ids) - table[ids]).square().mean()
    torch.testing.assert_close(TableGuidance(module, table)(ids), expected)


def test_weights_count_instead_of_occurrences():
    module, table = layer(), torch.randn(N, DIM)
    weights = torch.zeros(N)
    weights[3], weights[5] = 1.0, 3.0
    distances = (module.weight - table).square().mean(dim=1)
    found = TableGuidance(module, table, weights)(torch.tensor([3, 3, 5, 7]))
    torch.testing.assert_close(found, (distances[3] + 3 * distances[5]) / 4)


@ANY_ASSIGNMENT
def test_codes_learn_a_given_table(assignment):
    module, table = layer(assignment), torch.randn(N, DIM)
    guidance = TableGuidance(module, table)
    optimizer = make_optimizer(module, lr=0.02)
    first = float(guidance(torch.arange(N)).detach())
    for _ in range(200):
        optimizer.zero_grad()
        guidance(torch.randint(N, (20,))).backward()
        optimizer.step()
    module.eval()
    assert float(guidance(torch.arange(N)).detach()) < 0.5 * first


def test_neither_the_layer_nor_the_table_belongs_to_the_guidance():
    guidance = TableGuidance(layer(), torch.randn(N, DIM))
    assert not list(guidance.parameters())
    assert not guidance.state_dict()


@ANY_ASSIGNMENT
def test_a_table_alongside_gets_the_gradients_of_the_task(assignment):
    module = layer(assignment)
    guidance = FullTableGuidance(module, commitment=0.0)
    ids = torch.tensor([[4, 9], [4, 4]])
    vectors, pull = guidance(ids)
    assert vectors.shape == (2, 2, DIM)
    reference = module.weight.detach()
    if assignment == "free":  # batch statistics make the vectors of training others
        torch.testing.assert_close(vectors, reference[ids])
        assert float(pull.detach()) == 0  # it starts as the layer is
    vectors.sum().backward()
    expected = torch.zeros(N, DIM)
    expected[4], expected[9] = 3, 1
    torch.testing.assert_close(guidance.table.weight.grad, expected)
    assert float(module.codec.codebook.grad.abs().sum()) > 0


def test_both_sides_are_pulled():
    module = layer()
    guidance = FullTableGuidance(module, torch.randn(N, DIM), commitment=0.5)
    _, pull = guidance(torch.arange(N))
    distance = (module.weight - guidance.table.weight).square().mean()
    torch.testing.assert_close(pull, 1.5 * distance)
    pull.backward()
    difference = (guidance.table.weight - module.weight).detach()
    torch.testing.assert_close(guidance.table.weight.grad, 0.5 * 2 * difference / (N * DIM))


def test_a_task_trains_with_a_table_alongside():
    torch.manual_seed(0)
    module = layer("query")
    head, labels = nn.Linear(DIM, 3), torch.randint(3, (N,))
    guidance = FullTableGuidance(module)
    optimizer = make_optimizer(nn.ModuleList([module, head, guidance]), lr=0.02)
    losses = []
    for _ in range(200):
        ids = torch.randint(N, (20,))
        vectors, pull = guidance(ids)
        loss = nn.functional.cross_entropy(head(vectors), labels[ids])
        optimizer.zero_grad()
        (loss + 0.1 * pull).backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    module.eval()
    right = (head(module(torch.arange(N))).argmax(dim=1) == labels).float().mean()
    assert losses[-1] < 0.3 * losses[0]
    assert float(right) > 0.9


def test_padding_stays_zero_and_untrained():
    module = layer(padding_idx=2)
    guidance = FullTableGuidance(module)
    vectors, _ = guidance(torch.tensor([2, 3]))
    assert float(vectors[0].detach().abs().sum()) == 0
    vectors.sum().backward()
    assert float(guidance.table.weight.grad[2].abs().sum()) == 0


@pytest.mark.parametrize("kind", [TableGuidance, FullTableGuidance])
def test_shapes_that_do_not_fit_are_refused(kind):
    with pytest.raises(OptionError, match="table must be 30 x 6"):
        kind(layer(), torch.randn(N + 1, DIM))
    for weights in (torch.ones(N + 1), -torch.ones(N), torch.zeros(N)):
        with pytest.raises(OptionError, match="weights must be 30 numbers"):
            kind(layer(), torch.randn(N, DIM), weights)
