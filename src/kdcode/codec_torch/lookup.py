"""Codewords of codes, in torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def code_dtype(codebook_size: int) -> torch.dtype:
    """The smallest type that holds codes: a table's codes are kept several times over, and only parts widened."""
    return torch.uint8 if codebook_size <= 1 << 8 else torch.int32


def flat_codes(codes: Tensor, codebook_size: int) -> Tensor:
    """(n, D) codes as row numbers of the codebook laid out as (D·K, e)."""
    length = codes.shape[1]
    return codes + torch.arange(0, length * codebook_size, codebook_size, device=codes.device)


def lookup(codes: Tensor, codebook: Tensor) -> Tensor:
    """Codewords of codes: (n, D) integers and (D, K, e) to (n, D, e)."""
    return F.embedding(flat_codes(codes, codebook.shape[1]), codebook.flatten(0, 1))


def scale_rows(vectors: Tensor, codes: Tensor, levels: Tensor | None) -> Tensor:
    """(n, d) vectors times the scale of each row, whose level is the last of (n, columns) codes; None has no scales."""
    return vectors if levels is None else vectors * levels[codes[:, -1].long()][:, None]
