"""Gradients of weights that all ranks share, added up over the rows of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from kdcode.learning.ranks import Ranks


@torch.no_grad()
def sum_gradients(weights: Iterable[nn.Parameter], numbers: Sequence[float], ranks: Ranks) -> list[float]:
    """Add gradients up over all ranks, in place, and a few numbers with them; one message takes both.

    Args:
        weights: with the gradients of the rows here; a rank whose rows gave none counts as zero.
        numbers: such as the loss of the rows here.
        ranks: who has the other rows.

    Returns:
        The sums of the numbers.
    """
    if ranks.is_alone:
        return list(numbers)
    learned = [weight for weight in weights if weight.requires_grad]
    gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in learned]
    told = gradients[0].new_tensor(numbers)
    *summed, totals = ranks.all_sums([*gradients, told])
    for weight, gradient in zip(learned, summed, strict=True):
        weight.grad = gradient
    return [float(total) for total in totals.tolist()]
