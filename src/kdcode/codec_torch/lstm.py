"""LstmModule: the LSTM over codewords, in torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kdcode.codec import CodewordSpec
from kdcode.codec_torch.lstm_scan import LstmScan
from kdcode.codec_torch.module import CodecModule, Weights

_SAMPLED_CODES = 1024


class LstmModule(CodecModule):
    """The paper's LSTM: each codeword is added to every gate, v = (Σ_j h_j) H; gates in the order f, i, o, m."""

    recurrent: nn.Parameter
    bias: nn.Parameter
    basis: nn.Parameter

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """U uniform in ±1/√e, b zero, codewords of variance 1, H scaled so that vectors have variance 1."""
        size = self.spec.codeword_dim
        nn.init.normal_(self.codebook, 0, 1, generator=generator)
        nn.init.uniform_(self.recurrent, -(size**-0.5), size**-0.5, generator=generator)
        nn.init.zeros_(self.bias)
        nn.init.normal_(self.basis, 0, 1, generator=generator)
        # The gates have no closed form for the variance of Σ h_j, so it is measured on random codes.
        draws = (_SAMPLED_CODES, self.spec.code_length)
        codes = torch.randint(self.spec.codebook_size, draws, generator=generator, device=self.codebook.device)
        self.basis.div_(self.compose(codes).std().clamp_min(1e-12))

    @classmethod
    def compose_words(cls, spec: CodewordSpec, weights: Weights, words: Tensor) -> Tensor:
        """(n, D, e) codewords to (n, d) vectors, before row scales."""
        recurrent = weights["recurrent"]
        total: Tensor = LstmScan.apply(words.to(recurrent.dtype), recurrent, weights["bias"])
        return total @ weights["basis"]

    @torch.no_grad()
    def gains(self, words: Tensor) -> Tensor:
        """(D,), measured: one position at a time is moved a little, the same way in every call."""
        generator = torch.Generator().manual_seed(0)
        nudge = 1e-2 * torch.randn(words.shape[0], words.shape[2], generator=generator).to(words)
        before = self(words)
        gains = []
        for position in range(words.shape[1]):
            moved = words.clone()
            moved[:, position] += nudge
            gains.append((self(moved) - before).square().sum() / nudge.square().sum())
        return torch.stack(gains)
