"""The end of learning: codes settle, one swap at a time, each taken only where it lowers the row's error."""

from __future__ import annotations

import torch
from torch import Tensor

from kdcode.learning.composition import CompositionModule
from kdcode.learning.straight_through import lookup, swap_costs
from kdcode.learning.target import CHUNK_ROWS, Target


def settle_codes(target: Target, codes: Tensor, composition: CompositionModule) -> Tensor:
    """Swap, in every row, the one codeword whose replacement promises most, where it keeps its promise.

    The promise is the second-order model of `swap_costs`, exact for linear and product compositions; the row is then
    composed with the new code, and the swap undone where the error did not fall.

    Args:
        target: what to approximate.
        codes: (N, D).
        composition: not changed.

    Returns:
        (N, D) codes that are worse in no row.
    """
    codebook = composition.codebook.detach()
    settled = codes.clone()
    gains: Tensor | None = None
    for first in range(0, len(codes), CHUNK_ROWS):
        rows = slice(first, first + CHUNK_ROWS)
        words = lookup(codes[rows], codebook).requires_grad_()
        errors = (composition(words) - target.vectors[rows]).square().sum(dim=1)
        (slope,) = torch.autograd.grad(errors.sum(), words)
        if gains is None:
            gains = composition.gains(words.detach()[:256])
        rise = swap_costs(slope, codes[rows], codebook, gains).flatten(1)
        rise.scatter_(1, _places(codes[rows], codebook.shape[1]), float("inf"))
        place = rise.argmin(dim=1, keepdim=True)
        trial = codes[rows].scatter(1, place // codebook.shape[1], place % codebook.shape[1])
        with torch.no_grad():
            better = (composition.compose(trial) - target.vectors[rows]).square().sum(dim=1) < errors
        settled[rows] = torch.where(better[:, None], trial, codes[rows])
    return settled


def _places(codes: Tensor, size: int) -> Tensor:
    """(n, D) codes as places in (n, D·K)."""
    return codes + size * torch.arange(codes.shape[1], device=codes.device)
