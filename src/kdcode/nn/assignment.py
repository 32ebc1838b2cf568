"""Assignments: the map from a symbol to its code (the paper's phi), learnable or fixed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kdcode.codec_torch.lookup import code_dtype
from kdcode.errors import OptionError


class FreeAssignment(nn.Module):
    """A logit for every symbol, position and codeword; the code is the largest at each position (section 3).

    Args:
        num_embeddings: N.
        code_length: D.
        codebook_size: K.
        device: where the logits live.
        generator: draws the first logits, which are near zero.
    """

    logits: nn.Parameter

    def __init__(
        self,
        num_embeddings: int,
        code_length: int,
        codebook_size: int,
        *,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        logits = torch.empty(num_embeddings, code_length, codebook_size, device=device)
        self.logits = nn.Parameter(logits.normal_(0, 0.01, generator=generator))
        self.num_embeddings, self.code_length, self.codebook_size = num_embeddings, code_length, codebook_size

    def forward(self, ids: Tensor) -> Tensor:
        """(n,) symbols to their (n, D, K) logits."""
        return self.logits.index_select(0, ids)  # refuses negative ids, as nn.Embedding does

    def codes(self, ids: Tensor) -> Tensor:
        """(n,) symbols to their (n, D) codes."""
        return self.logits.detach().index_select(0, ids).argmax(dim=-1)

    def extra_repr(self) -> str:
        """N, D and K for printing."""
        return _shape(self)


class FixedAssignment(nn.Module):
    """Codes found already, kept as a buffer of the smallest integer type that torch can index from.

    Args:
        codes: (N, D) integers in [0, K); with one more column, of levels, where rows have scales.
        codebook_size: K.
        code_length: D; the number of columns where left out.
    """

    stored: Tensor

    def __init__(self, codes: Tensor, codebook_size: int, code_length: int | None = None) -> None:
        super().__init__()
        if codes.dim() != 2 or codes.is_floating_point():
            raise OptionError(f"codes are integers of shape (N, D), got {codes.dtype} of shape {tuple(codes.shape)}")
        self.num_embeddings, self.codebook_size = len(codes), codebook_size
        self.code_length = codes.shape[1] if code_length is None else code_length
        values = codes[:, : self.code_length]
        if values.numel() and (int(values.min()) < 0 or int(values.max()) >= codebook_size):
            raise OptionError(f"codes must be in [0, {codebook_size}), got [{values.min()}, {values.max()}]")
        self.register_buffer("stored", codes.to(code_dtype(codebook_size)).contiguous())

    def codes(self, ids: Tensor) -> Tensor:
        """(n,) symbols to their codes, (n, D) or with a column for levels."""
        return self.stored.index_select(0, ids).long()

    def extra_repr(self) -> str:
        """N, D and K for printing."""
        return _shape(self)


Assignment = FreeAssignment | FixedAssignment


def _shape(assignment: Assignment) -> str:
    names = ("num_embeddings", "code_length", "codebook_size")
    return ", ".join(f"{name}={getattr(assignment, name)}" for name in names)
