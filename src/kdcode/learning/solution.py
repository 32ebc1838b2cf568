"""What learners give back, and what they begin with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode.arrays import IntArray
from kdcode.learning.ranks import ALONE, Ranks
from kdcode.learning.sum_model import SumModel, Weights

if TYPE_CHECKING:
    from kdcode.codec_torch import LstmModule
    from kdcode.learning.gradient.encoder import Encoder


class Start(NamedTuple):
    """Where learning starts.

    Args:
        codes: (N, D) of any integer type.
        model: a codec for them, in standardised units.
        origin: "random", "warm" from k-means, or "learned": gradients go on from learned codes gently.
    """

    codes: IntArray
    model: SumModel
    origin: str


class Solution(NamedTuple):
    """(N, D) codes of any integer type, their codec in standardised units, and the network they came from."""

    codes: IntArray
    model: SumModel | LstmModule
    encoder: Encoder | None = None


@dataclass
class Best:
    """The best solution met so far: its relative error, (N, D) codes and the weights of its codec."""

    error: float
    codes: IntArray
    weights: Weights = field(repr=False)

    @classmethod
    def of(cls, error: float, codes: IntArray, model: SumModel) -> Best:
        """The solution as it is now; weights are copied, codes are not."""
        return cls(error, codes, model.state_dict())


def code_dtype(codebook_size: int) -> type[np.uint8] | type[np.int32]:
    """The smallest type that holds codes: a table's codes are kept several times over, and only parts widened."""
    return np.uint8 if codebook_size <= 1 << 8 else np.int32


def used_codewords(codes: IntArray, codebook_size: int, ranks: Ranks = ALONE) -> npt.NDArray[np.int64]:
    """(D, K): how many rows of (N, D) codes, those of all ranks, use each codeword."""
    return ranks.all_sum(np.stack([np.bincount(column, minlength=codebook_size) for column in codes.T]))


def unused_codewords(codes: IntArray, codebook_size: int, ranks: Ranks = ALONE) -> int:
    """How many codewords no row of (N, D) codes uses, on any rank."""
    return int((used_codewords(codes, codebook_size, ranks) == 0).sum())
