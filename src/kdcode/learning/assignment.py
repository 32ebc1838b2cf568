"""Assignments: the map from a symbol to its code (the paper's phi), learnable or fixed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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

    def forward(self, ids: Tensor) -> Tensor:
        """(n,) symbols to their (n, D, K) logits."""
        return self.logits[ids]

    def codes(self, ids: Tensor) -> Tensor:
        """(n,) symbols to their (n, D) codes."""
        return self.logits.detach()[ids].argmax(dim=-1)

    @property
    def num_embeddings(self) -> int:
        """N."""
        return self.logits.shape[0]

    @property
    def code_length(self) -> int:
        """D."""
        return self.logits.shape[1]

    @property
    def codebook_size(self) -> int:
        """K."""
        return self.logits.shape[2]

    def extra_repr(self) -> str:
        """N, D and K for printing."""
        return "num_embeddings={}, code_length={}, codebook_size={}".format(*self.logits.shape)


class FixedAssignment(nn.Module):
    """Codes found already, kept as a buffer of the smallest integer type that torch can index from.

    Args:
        codes: (N, D) integers in [0, K).
        codebook_size: K.
    """

    stored: Tensor

    def __init__(self, codes: Tensor, codebook_size: int) -> None:
        super().__init__()
        if codes.dim() != 2 or codes.is_floating_point():
            raise OptionError(f"codes are integers of shape (N, D), got {codes.dtype} of shape {tuple(codes.shape)}")
        if codes.numel() and (int(codes.min()) < 0 or int(codes.max()) >= codebook_size):
            raise OptionError(f"codes must be in [0, {codebook_size}), got [{codes.min()}, {codes.max()}]")
        small = torch.uint8 if codebook_size <= 256 else torch.int32
        self.codebook_size = codebook_size
        self.register_buffer("stored", codes.to(small).contiguous())

    def codes(self, ids: Tensor) -> Tensor:
        """(n,) symbols to their (n, D) codes."""
        return self.stored[ids].long()

    @property
    def num_embeddings(self) -> int:
        """N."""
        return self.stored.shape[0]

    @property
    def code_length(self) -> int:
        """D."""
        return self.stored.shape[1]

    def extra_repr(self) -> str:
        """N, D and K for printing."""
        rows, length = self.stored.shape
        return f"num_embeddings={rows}, code_length={length}, codebook_size={self.codebook_size}"


Assignment = FreeAssignment | FixedAssignment
