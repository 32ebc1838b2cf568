"""LOSSES: how far composed vectors are from those of a table, row by row. Options name them by these keys."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

Loss = Callable[[Tensor, Tensor], Tensor]


def squared_distances(composed: Tensor, vectors: Tensor) -> Tensor:
    """(n,) squared distances between (n, d) vectors."""
    return (composed - vectors).square().sum(dim=1)


def cosine_losses(composed: Tensor, vectors: Tensor) -> Tensor:
    """(n,): 2‖v‖² (1 − cosine), the squared distance once both are as long as the table's; 0 for a row of zeros."""
    return 2 * vectors.square().sum(dim=1) * (1 - F.cosine_similarity(composed, vectors, dim=1))


LOSSES: dict[str, Loss] = {"squared": squared_distances, "cosine": cosine_losses}
