"""Codewords of codes, and the random generators that draw them."""

from __future__ import annotations

import pytest
import torch
from kdcode.codec_torch.randomness import generator_for

from kdcode.codec_torch.lookup import argmin_rows, code_dtype, flat_codes, lookup


def test_lookup_is_a_gather_per_position():
    codebook = torch.arange(12.0).view(2, 3, 2)
    assert lookup(torch.tensor([[2, 0]]), codebook).tolist() == [[[4.0, 5.0], [6.0, 7.0]]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_flat_codes_are_rows_of_the_flat_codebook(dtype):
    codes = torch.tensor([[1, 0, 199], [0, 199, 3]], dtype=dtype)
    assert flat_codes(codes, 200).tolist() == [[1, 200, 599], [0, 399, 403]]  # more than a byte holds


@pytest.mark.parametrize(("size", "dtype"), [(2, torch.uint8), (256, torch.uint8), (257, torch.int32)])
def test_codes_take_the_smallest_type(size, dtype):
    assert code_dtype(size) == dtype
    assert int(torch.tensor(size - 1).to(dtype)) == size - 1


def test_the_smallest_cost_of_each_row():
    costs = torch.tensor([[3.0, 1.0, 2.0], [-1.0, 5.0, -2.0]], requires_grad=True)
    assert argmin_rows(costs).tolist() == [1, 2]


def test_generators_depend_on_their_arguments_alone():
    draws = {
        arguments: float(torch.rand((), generator=generator_for(*arguments), dtype=torch.float64))
        for arguments in [(0, "a"), (1, "a"), (0, "b"), (0, "a", 1)]
    }
    assert len(set(draws.values())) == 4
    torch.manual_seed(3)
    again = float(torch.rand((), generator=generator_for(0, "a"), dtype=torch.float64))
    assert again == draws[0, "a"]
