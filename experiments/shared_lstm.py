"""A standard LSTM over codewords that all positions share: a reading of the paper's sizes, not of its equations.

The paper's LSTM adds a codeword to every gate. With K = 50, D = 10 and codewords of 200 numbers that makes 300,800
numbers in the small model and 560,800 in the large one, where its table has 0.37M and 0.63M. A standard LSTM, whose
gates have an input matrix (320,800 numbers), one codebook for all positions (10,000) and H (40,000 or 300,000) have
370,800 and 630,800. The paper does not say that it was so.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_SMALL = 0.1
"""Spread of fresh codewords, which leaves gates half open, as for the other LSTM in `language_model.start_weights`."""


class SharedLstmEmbedding(nn.Module):
    """Fixed codes, one codebook for all positions, an LSTM over the D codewords, and v = (Σ_j h_j) H.

    Args:
        codes: (N, D) integers below K.
        codebook_size: K.
        codeword_dim: e, the size of codewords and of the hidden state.
        embedding_dim: d.
    """

    codes: Tensor

    def __init__(self, codes: Tensor, codebook_size: int, codeword_dim: int, embedding_dim: int) -> None:
        super().__init__()
        self.register_buffer("codes", codes.long())
        self.codebook = nn.Parameter(torch.empty(codebook_size, codeword_dim))
        self.lstm = nn.LSTM(codeword_dim, codeword_dim)
        self.lstm.bias_hh_l0.requires_grad_(requires_grad=False).zero_()  # a gate has one bias, where torch has two
        self.basis = nn.Parameter(torch.empty(codeword_dim, embedding_dim))

    @torch.no_grad()
    def start(self, draw: torch.Generator, std: float) -> None:
        """Draw fresh weights that give vectors of a standard deviation."""
        size = self.codebook.shape[1]
        self.codebook.copy_(_SMALL * torch.randn(self.codebook.shape, generator=draw))
        for weight in (self.lstm.weight_ih_l0, self.lstm.weight_hh_l0):
            weight.copy_((2 * torch.rand(weight.shape, generator=draw) - 1) * size**-0.5)
        self.lstm.bias_ih_l0.zero_()
        self.basis.copy_(torch.randn(self.basis.shape, generator=draw))
        self.basis.mul_(std / self._composed(self.codes).std())

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape to vectors; each distinct one is composed once."""
        rows, place = torch.unique(ids, return_inverse=True)
        return self._composed(self.codes[rows])[place]

    def _composed(self, codes: Tensor) -> Tensor:
        """(n, D) codes to (n, d) vectors."""
        hidden, _ = self.lstm(self.codebook[codes.t()])
        vectors: Tensor = hidden.sum(dim=0) @ self.basis
        return vectors
