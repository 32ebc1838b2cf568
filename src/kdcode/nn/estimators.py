"""Gradient estimators: one codeword per position is chosen, and gradients still reach the logits (Algorithm 1).

The three estimators share one signature and are picked from `ESTIMATORS` by name. None of them forms a one-hot matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.codec_torch.lookup import flat_codes, lookup


class Selection(NamedTuple):
    """The codewords chosen for n symbols, (n, D, e), and the codes they came from, (n, D)."""

    words: Tensor
    codes: Tensor


class _StraightThroughLookup(torch.autograd.Function):
    """Forward: W^j[argmax_k logits]. Backward: as if the output had been softmax(logits / T) · W^j.

    With o = one_hot(argmax) and ζ = softmax(logits / T), Algorithm 1 uses stop_gradient(o − ζ) + ζ. Its value is o, so
    the forward pass is a lookup and codewords get their gradient through o; its derivative is that of ζ, so
    logits get (ζ ∘ (g − ⟨ζ, g⟩)) / T, where g_k is the gradient with respect to o_k: ⟨output gradient, W^j_k⟩.

    Differs from the paper: g is a straight line through the loss at the codeword c in use, so far codewords look better
    than they are and codes jump back and forth. A curvature h_j adds h_j ‖W^j_k − W^j_c‖² to g_k, the loss's
    second-order term. None leaves Algorithm 1 as it is.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        logits: Tensor,
        codebook: Tensor,
        temperature: float,
        curvature: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        codes = logits.argmax(dim=-1)
        ctx.save_for_backward(logits, codebook, codes, curvature)
        ctx.temperature = temperature
        ctx.mark_non_differentiable(codes)
        return lookup(codes, codebook), codes

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        logits, codebook, codes, curvature = ctx.saved_tensors
        grad_words = grads[0]
        grad_logits = grad_codebook = None
        if ctx.needs_input_grad[0]:
            grad_choice = _choice_gradients(grad_words, codebook)
            if curvature is not None:
                grad_choice = grad_choice + _squared_distances(codes, codebook) * curvature[:, None]
            soft = torch.softmax(logits / ctx.temperature, dim=-1)
            inner = (soft * grad_choice).sum(dim=-1, keepdim=True)
            grad_logits = soft.mul_(grad_choice - inner).div_(ctx.temperature).to(logits.dtype)
        if ctx.needs_input_grad[1]:
            flat = torch.zeros_like(codebook).flatten(0, 1)
            flat.index_add_(0, flat_codes(codes, codebook.shape[1]).flatten(), grad_words.flatten(0, 1).to(flat.dtype))
            grad_codebook = flat.view_as(codebook)
        return grad_logits, grad_codebook, None, None


def straight_through(
    logits: Tensor,
    codebook: Tensor,
    temperature: float,
    *,
    generator: torch.Generator | None = None,
    curvature: Tensor | None = None,
) -> Selection:
    """The codeword of the largest logit forward, the tempered softmax's gradient backward.

    Args:
        logits: (n, D, K).
        codebook: (D, K, e).
        temperature: T, above 0; only gradients depend on it.
        generator: not used; this estimator is not random.
        curvature: (D,) second derivatives of the loss along codewords, or None for the paper's Algorithm 1.
    """
    return Selection(*_StraightThroughLookup.apply(logits, codebook, temperature, curvature))


def soft(logits: Tensor, codebook: Tensor, temperature: float, **_unused: Any) -> Selection:  # noqa: ANN401
    """The mean of all codewords under softmax(logits / T): the relaxation with no straight-through step.

    Arguments as for `straight_through`; there is no curvature to add, since the derivative is exact. The codes are
    those of the largest logits, which the mean approaches as T falls.
    """
    weights = torch.softmax(logits / temperature, dim=-1)
    words = torch.bmm(weights.transpose(0, 1), codebook).transpose(0, 1)
    return Selection(words, logits.argmax(dim=-1))


def gumbel(
    logits: Tensor,
    codebook: Tensor,
    temperature: float,
    *,
    generator: torch.Generator | None = None,
    curvature: Tensor | None = None,
) -> Selection:
    """`straight_through` on logits with Gumbel noise: codes are drawn in proportion to exp(logits).

    Arguments as for `straight_through`; `generator` draws the noise.
    """
    return straight_through(logits + gumbel_noise(logits, generator), codebook, temperature, curvature=curvature)


ESTIMATORS: dict[str, Callable[..., Selection]] = {"straight-through": straight_through, "soft": soft, "gumbel": gumbel}
"""The one table of estimators, with the arguments of `straight_through`; options name them by these keys."""


def gumbel_noise(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """Noise of the shape of `logits`: the largest logit with its noise is a draw in proportion to exp(logits)."""
    uniform = torch.rand(logits.shape, generator=generator, dtype=logits.dtype, device=logits.device)
    return -torch.log(-torch.log(uniform.clamp(1e-10, 1 - 1e-7)))


def swap_costs(slope: Tensor, codes: Tensor, codebook: Tensor, curvature: Tensor) -> Tensor:
    """(n, D, K) rise of a loss when one codeword takes the place of another, to second order.

    Args:
        slope: (n, D, e) gradient of the loss with respect to the codewords in use.
        codes: (n, D) which those are.
        codebook: (D, K, e).
        curvature: (D,) second derivatives of the loss along codewords.
    """
    slopes = _choice_gradients(slope, codebook)
    rise = slopes - slopes.gather(2, codes[:, :, None])
    return rise + _squared_distances(codes, codebook) * curvature[:, None]


def _choice_gradients(grad_words: Tensor, codebook: Tensor) -> Tensor:
    """(n, D, K) gradients with respect to the choice: einsum("nje,jke->njk") as the batched product it is."""
    return torch.bmm(grad_words.transpose(0, 1), codebook.transpose(1, 2)).transpose(0, 1)


def _squared_distances(codes: Tensor, codebook: Tensor) -> Tensor:
    """(n, D, K) squared distances of every codeword from the one in use."""
    size = codebook.shape[1]
    if size <= len(codes):  # all pairs of codewords are fewer than rows times codewords
        pairs = torch.cdist(codebook, codebook, compute_mode="use_mm_for_euclid_dist").square()
        return F.embedding(flat_codes(codes, size), pairs.flatten(0, 1))
    words = lookup(codes, codebook).transpose(0, 1).contiguous()
    return torch.cdist(words, codebook, compute_mode="use_mm_for_euclid_dist").square().transpose(0, 1)
