from __future__ import annotations

import pytest
import torch

from kdcode.budget import CodeShape
from kdcode.learning.composition import make_composition
from kdcode.learning.least_squares import solve_weights
from kdcode.learning.target import Target
from kdcode.table import VectorTable

ROWS, DIM, SIZE, LENGTH = 200, 6, 5, 3


def setting(composition, width):
    generator = torch.Generator().manual_seed(0)
    target = Target.of(VectorTable(None, torch.randn(ROWS, DIM, generator=generator).numpy()), centred=True)
    codes = torch.randint(SIZE, (ROWS, LENGTH), generator=generator)
    shape = CodeShape(ROWS, DIM, SIZE, LENGTH, width, composition, "float32")
    return target, codes, make_composition(shape, generator=generator)


def test_linear_codewords_reach_the_exact_least_squares_error():
    target, codes, module = setting("linear", DIM)
    one_hot = torch.nn.functional.one_hot(codes, SIZE).flatten(1).double()
    exact = one_hot @ torch.linalg.lstsq(one_hot, target.vectors.double(), driver="gelsd").solution
    best = float((exact - target.vectors).square().sum()) / target.variance
    assert target.error(codes, module) > 1.5
    solve_weights(target, codes, module)
    assert target.error(codes, module) == pytest.approx(best, rel=1e-4)


def test_product_codewords_become_means_and_unused_ones_stay():
    target, codes, module = setting("product", 2)
    codes[:, 1] = codes[:, 1].clamp_max(SIZE - 2)  # the last codeword of position 1 is not used
    kept = module.codebook[1, SIZE - 1].detach().clone()
    solve_weights(target, codes, module)
    members = target.vectors[codes[:, 1] == 2][:, 2:4]
    torch.testing.assert_close(module.codebook[1, 2].detach(), members.mean(dim=0))
    assert torch.equal(module.codebook[1, SIZE - 1], kept)


@pytest.mark.parametrize(("composition", "width"), [("lstm", 4), ("linear", 4)])
def test_weights_without_a_closed_form_are_improved_too(composition, width):
    target, codes, module = setting(composition, width)
    before = target.error(codes, module)
    solve_weights(target, codes, module)
    assert target.error(codes, module) < 0.7 * before
    assert all(value.grad is None for value in module.parameters())
