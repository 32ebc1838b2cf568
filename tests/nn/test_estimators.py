"""Gradient estimators against the literal Algorithm 1 with one-hot matrices."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kdcode import options
from kdcode.nn.estimators import ESTIMATORS, gumbel, soft, straight_through, swap_costs

ROWS, LENGTH, SIZE, WIDTH = 7, 3, 5, 4


def parts(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(ROWS, LENGTH, SIZE, generator=generator, dtype=dtype, requires_grad=True)
    codebook = torch.randn(LENGTH, SIZE, WIDTH, generator=generator, dtype=dtype, requires_grad=True)
    return logits, codebook


def literal_algorithm_1(logits, codebook, temperature):
    """The paper's lines, one by one."""
    zeta = torch.softmax(logits / temperature, dim=-1)
    one_hot = torch.nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[-1]).to(logits.dtype)
    o = (one_hot - zeta).detach() + zeta
    return torch.einsum("njk,jke->nje", o, codebook)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])  # float32 rounds
def test_values_and_gradients_are_those_of_algorithm_1(temperature, dtype, tolerance):
    logits, codebook = parts(dtype)
    weights = torch.randn(ROWS, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1), dtype=dtype)
    ours = straight_through(logits, codebook, temperature).words
    ours_grads = torch.autograd.grad((ours * weights).square().sum(), (logits, codebook))
    paper = literal_algorithm_1(logits, codebook, temperature)
    paper_grads = torch.autograd.grad((paper * weights).square().sum(), (logits, codebook))
    torch.testing.assert_close(ours, paper, rtol=1e-6, atol=1e-6)
    for our_grad, paper_grad in zip(ours_grads, paper_grads, strict=True):
        torch.testing.assert_close(our_grad, paper_grad, rtol=tolerance, atol=min(tolerance, 1e-6))


def test_the_forward_pass_makes_nothing_of_the_size_of_a_one_hot_matrix():
    rows, length, size, width = 50, 4, 200, 3

    class Sizes(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and not func.is_view:
                self.largest = max(self.largest, out.numel())
            return out

    logits, codebook = torch.randn(rows, length, size), torch.randn(length, size, width)
    with Sizes() as sizes:
        straight_through(logits, codebook, 1.0)
    assert 0 < sizes.largest <= rows * length * width
    with Sizes() as literal:
        literal_algorithm_1(logits, codebook, 1.0)
    assert literal.largest >= rows * length * size  # the measure sees what it should


def test_curvature_adds_the_second_order_term_of_every_swap():
    logits, codebook = parts()
    curvature = torch.tensor([0.5, 0.0, 2.0], dtype=torch.float64)
    chosen = straight_through(logits, codebook, 1.5, curvature=curvature)
    weights = torch.randn(ROWS, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (grad,) = torch.autograd.grad((chosen.words * weights).sum(), logits)
    zeta = torch.softmax(logits.detach() / 1.5, dim=-1)
    for row in range(ROWS):
        for position in range(LENGTH):
            used = codebook[position, chosen.codes[row, position]].detach()
            cost = torch.tensor(
                [
                    float(weights[row, position] @ word + curvature[position] * (word - used).square().sum())
                    for word in codebook[position].detach()
                ],
                dtype=torch.float64,
            )
            share = zeta[row, position]
            expected = share * (cost - share @ cost) / 1.5
            torch.testing.assert_close(grad[row, position], expected, rtol=1e-6, atol=1e-8)


def test_curvature_is_the_same_for_few_and_for_many_codewords():
    codebook = torch.randn(2, 40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits = torch.randn(60, 2, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    grads = []
    for batch in (logits, logits[:10]):  # more rows than codewords, and fewer: two ways of computing distances
        leaf = batch.clone().requires_grad_()
        words = straight_through(leaf, codebook, 1.0, curvature=torch.ones(2, dtype=torch.float64)).words
        grads.append(torch.autograd.grad(words.sum(), leaf)[0])
    torch.testing.assert_close(grads[0][:10], grads[1])


def test_temperature_changes_gradients_but_no_values():
    logits, codebook = parts()
    warm, cold = (straight_through(logits, codebook, t) for t in (1.0, 0.1))
    assert torch.equal(warm.words, cold.words)
    grads = [torch.autograd.grad(out.words.square().sum(), logits)[0] for out in (warm, cold)]
    assert not torch.allclose(*grads)


def test_soft_is_the_mean_under_the_softmax_with_its_exact_gradient():
    logits, codebook = parts()
    words, codes = soft(logits, codebook, 0.7)
    expected = torch.einsum("njk,jke->nje", torch.softmax(logits / 0.7, -1), codebook)
    torch.testing.assert_close(words, expected)
    assert torch.equal(codes, logits.argmax(-1))
    assert torch.autograd.gradcheck(lambda a, b: soft(a, b, 0.7).words, (logits, codebook))


def test_soft_becomes_hard_as_the_temperature_falls():
    logits, codebook = parts()
    torch.testing.assert_close(soft(logits, codebook, 1e-4).words, straight_through(logits, codebook, 1.0).words)


def test_gumbel_draws_codes_in_proportion_to_exp_logits():
    logits = torch.tensor([2.0, 0.0, 1.0]).repeat(20_000, 1, 1)
    codes = gumbel(logits, torch.zeros(1, 3, 1), 1.0, generator=torch.Generator().manual_seed(0)).codes
    shares = torch.bincount(codes.flatten(), minlength=3) / len(codes)
    torch.testing.assert_close(shares, torch.softmax(torch.tensor([2.0, 0.0, 1.0]), 0), atol=0.02, rtol=0)


def test_gumbel_repeats_itself_for_a_seed():
    logits, codebook = parts()
    draws = [gumbel(logits, codebook, 1.0, generator=torch.Generator().manual_seed(seed)).codes for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_swap_costs_are_the_true_rise_of_a_quadratic_loss():
    codebook = torch.randn(LENGTH, SIZE, WIDTH, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    codes = torch.randint(SIZE, (ROWS, LENGTH), generator=torch.Generator().manual_seed(3))
    wanted = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(4), dtype=torch.float64)

    def losses(chosen):
        sums = sum(codebook[position][chosen[:, position]] for position in range(LENGTH))
        return (sums - wanted).square().sum(dim=1)

    words = torch.stack([codebook[position][codes[:, position]] for position in range(LENGTH)], dim=1)
    slope = 2 * (words.sum(dim=1) - wanted)[:, None].expand(-1, LENGTH, -1)
    rise = swap_costs(slope, codes, codebook, torch.ones(LENGTH, dtype=torch.float64))
    for position in range(LENGTH):
        for value in range(SIZE):
            swapped = codes.clone()
            swapped[:, position] = value
            expected = losses(swapped) - losses(codes)
            torch.testing.assert_close(rise[:, position, value], expected, rtol=1e-6, atol=1e-6)


def test_every_estimator_of_the_options_is_written():
    assert set(ESTIMATORS) == set(options.ESTIMATORS)
