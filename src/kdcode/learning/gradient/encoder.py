"""A network from vectors to codes, learned with Gumbel-softmax (Shu and Nakayama, 2017).

"Compressing Word Embeddings via Deep Compositional Code Learning". Codes are no free parameters here but what a small
network makes of a vector, so that vectors which were not in the table have codes too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kdcode.arrays import CHUNK_ROWS, checked_vectors
from kdcode.codec.row_scales import directions
from kdcode.learning.gradient.tensors import TensorTable, generator_for


class Encoder(nn.Module):
    """Vectors to codes: log softplus(tanh(x W + b) W' + b') is the logit of each codeword, the largest one the code.

    The hidden layer has D·K/2 units. A fresh encoder knows nothing yet; `learn_encoder` gives back a learned one.

    Args:
        embedding_dim: d.
        code_length: D.
        codebook_size: K.
        generator: draws the first weights.
        normalises: whether the network was learned from directions, so that `codes` makes vectors 1 long first.
    """

    shift: Tensor
    scale: Tensor

    def __init__(
        self,
        embedding_dim: int,
        code_length: int,
        codebook_size: int,
        *,
        generator: torch.Generator | None = None,
        normalises: bool = False,
    ) -> None:
        super().__init__()
        self.normalises = normalises
        self.embedding_dim, self.code_length, self.codebook_size = embedding_dim, code_length, codebook_size
        values = code_length * codebook_size
        self.hidden = _weights(embedding_dim, values // 2, generator)
        self.hidden_bias = nn.Parameter(torch.zeros(values // 2))
        self.output = _weights(values // 2, values, generator)
        self.output_bias = nn.Parameter(torch.zeros(values))
        self.register_buffer("shift", torch.zeros(embedding_dim))
        self.register_buffer("scale", torch.ones(()))

    def forward(self, vectors: Tensor) -> Tensor:
        """(n, d) vectors, as the table has them, to (n, D, K) logits."""
        return self.logits((vectors - self.shift) / self.scale)

    def logits(self, standardised: Tensor) -> Tensor:
        """(n, d) vectors with mean 0 and spread 1, as they are learned from, to (n, D, K) logits."""
        values = torch.tanh(standardised @ self.hidden + self.hidden_bias) @ self.output + self.output_bias
        # What is added keeps the logarithm finite where softplus rounds to zero.
        return torch.log(F.softplus(values) + 1e-8).view(-1, self.code_length, self.codebook_size)

    @torch.no_grad()
    def codes(self, vectors: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The D positions of the codes of (d,) or (n, d) vectors, of the table or not."""
        array = checked_vectors(vectors, self.embedding_dim)
        rows = np.atleast_2d(directions(array) if self.normalises else array).astype(np.float32)
        parts = torch.from_numpy(rows).to(self.hidden.device).split(CHUNK_ROWS)
        codes = torch.cat([self(part).argmax(dim=-1) for part in parts])
        return codes.cpu().numpy().reshape(*array.shape[:-1], self.code_length)

    def extra_repr(self) -> str:
        """D, K and d for printing."""
        return f"embedding_dim={self.embedding_dim}, code_length={self.code_length}, codebook_size={self.codebook_size}"


def fresh_encoder(training: TensorTable, code_length: int, codebook_size: int, seed: int) -> Encoder:
    """An encoder to learn for a training table; it takes vectors in the table's own units."""
    table = training.table
    encoder = Encoder(
        training.vectors.shape[1],
        code_length,
        codebook_size,
        generator=generator_for(seed, "encoder"),
        normalises=table.row_length is not None,
    )
    length = table.row_length or 1.0  # of the rows that shift and scale are of; the network gets directions
    encoder.shift.copy_(torch.from_numpy(table.shift) / length)
    encoder.scale.fill_((table.scale or 1.0) / length)
    return encoder.to(training.vectors.device)


def _weights(inputs: int, outputs: int, generator: torch.Generator | None) -> nn.Parameter:
    """(inputs, outputs) of variance 1/inputs: values of inputs with variance 1 have variance 1 too."""
    return nn.Parameter(torch.empty(inputs, outputs).normal_(0, inputs**-0.5, generator=generator))
