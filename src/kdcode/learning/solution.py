"""What learners give back, and what they begin with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from kdcode.codec_torch import CodecModule

if TYPE_CHECKING:
    import torch

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


def unused_codewords(codes: Tensor, codebook_size: int) -> int:
    """How many codewords no row of (N, D) codes uses."""
    used = sum(int((column.bincount(minlength=codebook_size) > 0).sum()) for column in codes.t())
    return codes.shape[1] * codebook_size - used
