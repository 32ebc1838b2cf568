"""What learners give back, and what they begin with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from kdcode.codec_torch import CodecModule
from kdcode.learning.ranks import ALONE, Ranks

if TYPE_CHECKING:
    from kdcode.learning.gradient.encoder import Encoder


class Start(NamedTuple):
    """Where learning starts.

    Args:
        codes: (N, D) of any integer type.
        module: a codec for them, in standardised units.
        origin: "random", "warm" from k-means, or "learned": gradients go on from learned codes gently.
    """

    codes: Tensor
    module: CodecModule
    origin: str


class Solution(NamedTuple):
    """(N, D) codes of any integer type, their codec in standardised units, and the network they came from."""

    codes: Tensor
    module: CodecModule
    encoder: Encoder | None = None


@dataclass
class Best:
    """The best solution met so far: its relative error, (N, D) codes and the weights of its codec."""

    error: float
    codes: Tensor
    weights: dict[str, Tensor] = field(repr=False)

    @classmethod
    def of(cls, error: float, codes: Tensor, module: CodecModule) -> Best:
        """The solution as it is now; weights are copied, codes are not."""
        return cls(error, codes, copied_weights(module))


def copied_weights(module: torch.nn.Module) -> dict[str, Tensor]:
    """The state of a module, copied."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def used_codewords(codes: Tensor, codebook_size: int, ranks: Ranks = ALONE) -> Tensor:
    """(D, K): how many rows of (N, D) codes, those of all ranks, use each codeword."""
    return ranks.all_sum(torch.stack([column.bincount(minlength=codebook_size) for column in codes.t()]))


def unused_codewords(codes: Tensor, codebook_size: int, ranks: Ranks = ALONE) -> int:
    """How many codewords no row of (N, D) codes uses, on any rank."""
    return int((used_codewords(codes, codebook_size, ranks) == 0).sum())
