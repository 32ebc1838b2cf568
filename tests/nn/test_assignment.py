"""Assignments: codes of symbols, learnable or fixed."""

from __future__ import annotations

import pytest
import torch

from kdcode.errors import OptionError
from kdcode.nn import FixedAssignment, FreeAssignment


def test_free_codes_are_the_largest_logits():
    assignment = FreeAssignment(5, 2, 3)
    with torch.no_grad():
        assignment.logits.zero_()
        assignment.logits[4, 0, 2] = 1
        assignment.logits[4, 1, 1] = 1
    assert assignment.codes(torch.tensor([4])).tolist() == [[2, 1]]
    assert assignment(torch.tensor([1, 1])).shape == (2, 2, 3)
    assert (assignment.num_embeddings, assignment.code_length, assignment.codebook_size) == (5, 2, 3)


@pytest.mark.parametrize("ids", [[-1], [5], [0, -3], [2, 99]])
def test_ids_outside_the_table_are_refused(ids):
    for assignment in (FreeAssignment(5, 2, 3), FixedAssignment(torch.zeros(5, 2, dtype=torch.long), 3)):
        with pytest.raises(IndexError):
            assignment.codes(torch.tensor(ids))
    with pytest.raises(IndexError):
        FreeAssignment(5, 2, 3)(torch.tensor(ids))


def test_free_logits_repeat_for_a_generator():
    first, again = (FreeAssignment(5, 2, 3, generator=torch.Generator().manual_seed(1)).logits for _ in range(2))
    assert torch.equal(first, again)


@pytest.mark.parametrize(("size", "dtype"), [(4, torch.uint8), (256, torch.uint8), (300, torch.int32)])
def test_fixed_codes_are_kept_small_and_given_back(size, dtype):
    codes = torch.tensor([[0, size - 1], [1, 2]])
    assignment = FixedAssignment(codes, size)
    assert assignment.stored.dtype == dtype
    assert torch.equal(assignment.codes(torch.tensor([1, 0])), codes[[1, 0]])
    assert list(assignment.state_dict()) == ["stored"]
    assert (assignment.num_embeddings, assignment.code_length, assignment.codebook_size) == (2, 2, size)


def test_levels_of_row_scales_may_be_larger_than_codes():
    codes = torch.tensor([[1, 0, 200], [0, 1, 7]])
    assignment = FixedAssignment(codes, 2, code_length=2)
    assert (assignment.code_length, assignment.num_embeddings) == (2, 2)
    assert torch.equal(assignment.codes(torch.tensor([0, 1])), codes)


@pytest.mark.parametrize("codes", [torch.tensor([[3]]), torch.tensor([[-1]]), torch.tensor([0]), torch.tensor([[0.0]])])
def test_codes_that_do_not_fit_are_refused(codes):
    with pytest.raises(OptionError):
        FixedAssignment(codes, 3)
