"""The first logits of Algorithm 1."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kdcode.arrays import CHUNK_ROWS
from kdcode.codec_torch.lookup import lookup
from kdcode.learning.gradient.tensors import TensorStart, TensorTable
from kdcode.nn.estimators import swap_costs
from kdcode.randomness import random_for

_SHARPNESS = 0.1
_MARGIN = 0.1


def first_logits(training: TensorTable, start: TensorStart, seed: int) -> Tensor:
    """(N, D, K) logits to start from.

    Near zero for a random start, whose codes mean nothing yet. For others the start's codes have the largest logits,
    and a codeword's logit falls with what the loss would rise by if it took the place of the one in use, by the same
    second-order model that the straight-through estimator uses.
    """
    spec, codes = start.module.spec, start.codes.long()
    random, shape = random_for(seed, "logits"), (spec.code_length, spec.codebook_size)
    drawn = training.share.drawn(lambda rows: random.standard_normal((rows, *shape), dtype=np.float32))
    logits = torch.from_numpy(drawn).mul_(0.01).to(codes.device)
    if start.origin == "random":
        return logits
    codebook = start.module.codebook.detach()
    gains: Tensor | None = None
    for first in range(0, len(codes), CHUNK_ROWS):
        rows = slice(first, first + CHUNK_ROWS)
        words = lookup(codes[rows], codebook).requires_grad_()
        squared = (start.module(words) - training.vectors[rows]).square().sum()
        (slope,) = torch.autograd.grad(squared, words)
        if gains is None:
            gains = start.module.gains(words.detach()[:256]).clone()
            training.ranks.agree([gains])
        rise = swap_costs(slope, codes[rows], codebook, gains)
        logits[rows] = -_SHARPNESS * rise.clamp_min(0)
    return logits.scatter_(2, codes[:, :, None], _MARGIN)
