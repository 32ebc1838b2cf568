"""The best weights for given codes: exactly for linear and product codes, by L-BFGS where there is no closed form."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.composition import spans
from kdcode.learning.composition import CompositionModule, LinearComposition, ProductComposition
from kdcode.learning.straight_through import flat_codes
from kdcode.learning.target import CHUNK_ROWS, Target

_LBFGS_ITERATIONS = 15


def solve_weights(target: Target, codes: Tensor, composition: CompositionModule) -> None:
    """Improve codewords and composition, in place, for fixed (N, D) codes."""
    if isinstance(composition, ProductComposition):
        _span_means(target, codes, composition)
    elif isinstance(composition, LinearComposition) and composition.projection is None:
        with torch.no_grad():
            composition.codebook.copy_(_conjugate_gradient(target.vectors, codes, composition.codebook.detach()))
    else:
        _lbfgs(target, codes, composition)


def _lbfgs(target: Target, codes: Tensor, composition: CompositionModule) -> None:
    """Full-batch quasi-Newton steps on all weights, gradients added up over chunks of rows."""
    optimizer = torch.optim.LBFGS(
        composition.parameters(), max_iter=_LBFGS_ITERATIONS, history_size=10, line_search_fn="strong_wolfe"
    )

    def loss() -> float:
        optimizer.zero_grad()
        total = 0.0
        for vectors, part in zip(target.vectors.split(CHUNK_ROWS), codes.split(CHUNK_ROWS), strict=True):
            squared = (composition.compose(part) - vectors).square().sum() / target.vectors.numel()
            squared.backward()
            total += float(squared.detach())
        return total

    optimizer.step(loss)
    optimizer.zero_grad()


@torch.no_grad()
def _span_means(target: Target, codes: Tensor, composition: ProductComposition) -> None:
    size = composition.shape.codebook_size
    for position, span in enumerate(spans(composition.shape.embedding_dim, composition.shape.code_length)):
        part = target.vectors[:, span]
        used = torch.bincount(codes[:, position], minlength=size)
        sums = part.new_zeros(size, part.shape[1]).index_add_(0, codes[:, position], part)
        kept = composition.codebook[position, :, : part.shape[1]]
        kept.copy_(torch.where(used[:, None] > 0, sums / used.clamp_min(1)[:, None], kept))


def _conjugate_gradient(vectors: Tensor, codes: Tensor, codebook: Tensor, iterations: int = 50) -> Tensor:
    """Minimise ‖A W − X‖² over W (D·K, d) from where it is, where row i of A has ones at the code of row i.

    A is never formed, so any K and D will do; columns are independent problems with step sizes of their own.
    """
    flat = flat_codes(codes, codebook.shape[1])
    words = codebook.flatten(0, 1).clone()

    def apply(weights: Tensor) -> Tensor:
        return F.embedding_bag(flat, weights, mode="sum")

    def apply_transposed(rows: Tensor) -> Tensor:
        out = torch.zeros_like(words)
        for position in range(flat.shape[1]):
            out.index_add_(0, flat[:, position], rows)
        return out

    residual = vectors - apply(words)
    gradient = apply_transposed(residual)
    direction = gradient.clone()
    power = gradient.square().sum(dim=0)
    first = power.sum()
    for _ in range(iterations):
        if power.sum() <= 1e-10 * first or first == 0:
            break
        moved = apply(direction)
        step = power / moved.square().sum(dim=0).clamp_min(1e-30)
        words += step * direction
        residual -= step * moved
        gradient = apply_transposed(residual)
        new_power = gradient.square().sum(dim=0)
        direction = gradient + (new_power / power.clamp_min(1e-30)) * direction
        power = new_power
    return words.view_as(codebook)
