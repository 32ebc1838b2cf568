"""Bases of additive codes: principal directions to begin with, and the best rotation for given codes."""

from __future__ import annotations

import torch
from torch import Tensor

from kdcode.arrays import CHUNK_ROWS
from kdcode.codec_torch import BlockSumModule
from kdcode.learning.linalg.principal import complete_basis, principal_directions
from kdcode.learning.training_table import TrainingTable

_SAMPLED_ROWS = 100_000
"""Rows that are enough to tell a table's principal directions."""
_LEAST_VARIANCE = 1e-9
"""Share of the largest variance that a direction is taken to have at least."""


@torch.no_grad()
def principal_basis(vectors: Tensor, module: BlockSumModule) -> None:
    """Start a basis from the strongest principal directions, shared out so that no block has more variance than others.

    With equal bits the error is smallest where the products of the blocks' variances are equal: the eigenvalue
    allocation of OPQ (Ge et al., 2013).
    """
    if module.basis is None:
        return
    variances, directions = principal_directions(sampled(vectors))
    directions = complete_basis(directions, min(module.basis.shape))
    variances = variances[: len(module.basis)].clamp_min(max(_LEAST_VARIANCE * float(variances[0]), 1e-30))
    # Relative to the smallest, so that no logarithm is negative: a block that was given one more is never less full.
    logs = (variances / variances[-1]).log().tolist() + [0.0] * (directions.shape[1] - len(variances))
    blocks = module.spec.blocks
    columns: list[list[int]] = [[] for _ in blocks]
    filled = [0.0] * len(blocks)
    for place, log in enumerate(logs):
        free = [number for number, block in enumerate(blocks) if len(columns[number]) < block.width]
        chosen = min(free, key=lambda number: filled[number])
        columns[chosen].append(place)
        filled[chosen] += log
    order = torch.tensor([place for row in columns for place in row], device=directions.device)
    module.basis.zero_()[: len(order)] = directions[:, order].t()


@torch.no_grad()
def procrustes(training: TrainingTable, codes: Tensor, module: BlockSumModule) -> None:
    """Take the orthonormal basis that is the best for codes and codewords as they are (orthogonal Procrustes)."""
    if module.basis is None:
        return
    covariance = torch.zeros_like(module.basis)
    for start in range(0, len(codes), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        sums = module.coordinates(module.compose(codes[part]))
        if training.weights is not None:
            sums *= training.weights[part, None]
        covariance += sums.t() @ training.vectors[part]
    left, _, right = torch.linalg.svd(covariance, full_matrices=False)
    module.basis.copy_(left @ right)


def sampled(vectors: Tensor) -> Tensor:
    """Rows at even distances, enough for covariances."""
    return vectors[:: -(-len(vectors) // _SAMPLED_ROWS)]
