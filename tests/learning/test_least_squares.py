from __future__ import annotations

import pytest
import torch

from kdcode.budget import CodeShape
from kdcode.learning import least_squares
from kdcode.learning.composition import make_composition
from kdcode.learning.least_squares import solve_codewords, solve_weights
from kdcode.learning.target import Target
from kdcode.table import VectorTable

ROWS, DIM, SIZE, LENGTH = 200, 6, 5, 3


def setting(composition, width):
    generator = torch.Generator().manual_seed(0)
    target = Target.of(VectorTable(None, torch.randn(ROWS, DIM, generator=generator).numpy()), centred=True)
    codes = torch.randint(SIZE, (ROWS, LENGTH), generator=generator)
    shape = CodeShape(ROWS, DIM, SIZE, LENGTH, width, composition, "float32")
    return target, codes, make_composition(shape, generator=generator)


def sums(codes, words):
    return torch.stack([words[position][codes[:, position]] for position in range(LENGTH)]).sum(dim=0)


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


@pytest.mark.parametrize("formed", [True, False])
def test_rows_count_by_their_weight(formed, monkeypatch):
    if not formed:
        monkeypatch.setattr(least_squares, "_MOST_EQUATIONS", 0)
    target, codes, module = setting("linear", DIM)
    counts = torch.randint(0, 4, (ROWS,), generator=torch.Generator().manual_seed(1))
    words = module.codebook.detach()
    weighted = solve_codewords(target.vectors, codes, words, counts.float())
    repeated = solve_codewords(target.vectors.repeat_interleave(counts, 0), codes.repeat_interleave(counts, 0), words)
    evenly = solve_codewords(target.vectors, codes, words)
    torch.testing.assert_close(sums(codes, weighted), sums(codes, repeated), atol=1e-3, rtol=0)
    assert (sums(codes, weighted) - sums(codes, evenly)).abs().max() > 0.05


@pytest.mark.parametrize("formed", [True, False])
def test_codewords_that_no_row_uses_stay_and_a_solved_codebook_too(formed, monkeypatch):
    if not formed:
        monkeypatch.setattr(least_squares, "_MOST_EQUATIONS", 0)
    target, codes, module = setting("linear", DIM)
    codes[:, 1] = codes[:, 1].clamp_max(SIZE - 2)
    words = module.codebook.detach()
    solved = solve_codewords(target.vectors, codes, words)
    errors = []
    assert torch.equal(solved[1, SIZE - 1], words[1, SIZE - 1])
    for steps in (None, 500):
        again = solve_codewords(target.vectors, codes, solved, steps=steps)
        for one in (solved, again):
            module.codebook.data.copy_(one)
            errors.append(target.error(codes, module))
        assert (again - solved).abs().max() < 0.5
    assert max(errors) - min(errors) < 1e-5


@pytest.mark.parametrize(("formed", "steps"), [(True, None), (True, 200), (False, None)])
def test_shared_codewords_are_solved_together(formed, steps, monkeypatch):
    if not formed:
        monkeypatch.setattr(least_squares, "_MOST_EQUATIONS", 0)
    target, codes, module = setting("linear", DIM)
    start = module.codebook.detach()[:1].expand(module.codebook.shape).contiguous()
    solved = solve_codewords(target.vectors, codes, start, steps=steps, shared=True)
    assert torch.equal(solved, solved[:1].expand_as(solved))
    uses = torch.nn.functional.one_hot(codes, SIZE).sum(dim=1).double()  # how often a row uses each codeword
    best = uses @ torch.linalg.lstsq(uses, target.vectors.double()).solution
    torch.testing.assert_close(sums(codes, solved).double(), best, atol=2e-3, rtol=0)


def test_parts_of_the_table_add_up(monkeypatch):
    target, codes, module = setting("linear", DIM)
    whole = solve_codewords(target.vectors, codes, module.codebook.detach())
    monkeypatch.setattr(least_squares, "_SUM_ROWS", 7)
    parts = solve_codewords(target.vectors, codes, module.codebook.detach())
    torch.testing.assert_close(sums(codes, parts), sums(codes, whole), atol=1e-4, rtol=0)
