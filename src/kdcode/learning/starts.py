"""Where learning starts: at random as in the paper, from residual k-means, or from codes that were learned."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.codec import CodecSpec
from kdcode.codec_torch import BlockSumModule, LstmModule, make_module
from kdcode.codec_torch.lookup import code_dtype
from kdcode.codec_torch.parallel import parallel_chunks
from kdcode.codec_torch.randomness import generator_for
from kdcode.learning.additive.basis import coordinates, principal_basis
from kdcode.learning.linalg.principal import complete_basis, principal_directions
from kdcode.learning.linalg.residual_kmeans import residual_kmeans
from kdcode.learning.solution import Start
from kdcode.learning.training_table import TrainingTable

_LSTM_SIGNAL = 0.1
"""Root mean square of codewords in an LSTM that starts as a linear composition; small, so that gates stay linear."""


def random_start(training: TrainingTable, spec: CodecSpec, seed: int) -> Start:
    """Codes drawn evenly and fresh codewords."""
    device = training.vectors.device
    generator = generator_for(seed, "start")
    codes = torch.randint(spec.codebook_size, (len(training), spec.code_length), generator=generator).to(device)
    module = make_module(spec, generator=generator)
    if isinstance(module, LstmModule):
        shape = (spec.code_length, spec.codebook_size, spec.embedding_dim)
        words = torch.randn(shape, generator=generator) * spec.code_length**-0.5
        mean = training.vectors.mean(dim=0).cpu() / spec.code_length  # an LSTM has no other place for the mean
        _linear_as_lstm(module, words + mean)
    module = module.to(device)
    if isinstance(module, BlockSumModule) and spec.is_rotated:
        principal_basis(training.vectors, module)
    return Start(codes, module, "random")


@torch.no_grad()
def warm_start(training: TrainingTable, spec: CodecSpec, seed: int) -> Start:
    """Residual k-means, block by block."""
    generator = generator_for(seed, "start")
    module = make_module(spec, generator=generator).to(training.vectors.device)
    vectors, size = training.vectors, spec.codebook_size
    if not isinstance(module, BlockSumModule):
        codes, words = residual_kmeans(vectors, spec.code_length, size, generator, training.weights)
        return lstm_start(codes, words, spec, seed)._replace(origin="warm")
    principal_basis(vectors, module)
    vectors = coordinates(vectors, module)
    codes = torch.empty(len(vectors), spec.code_length, dtype=code_dtype(size), device=vectors.device)

    def begin(number: int) -> None:
        block = spec.blocks[number]
        part = vectors[:, block.columns] if spec.groups == 1 else vectors[:, block.columns].contiguous()
        drawn = generator_for(seed, "k-means", number)
        found, words = residual_kmeans(part, block.length, size, drawn, training.weights)
        codes[:, block.positions] = found
        module.codebook.detach()[block.positions, :, : block.width] = words

    parallel_chunks(begin, range(spec.groups), vectors.device)
    return Start(codes, module, "warm")


def lstm_start(codes: Tensor, words: Tensor, spec: CodecSpec, seed: int) -> Start:
    """An LSTM that composes nearly what the sums of (D, K, d) codewords do, for learned (N, D) codes."""
    module = make_module(spec, generator=generator_for(seed, "lstm")).to(words.device)
    if isinstance(module, LstmModule):
        _linear_as_lstm(module, words)
    return Start(codes, module, "learned")


@torch.no_grad()
def _linear_as_lstm(module: LstmModule, words: Tensor) -> None:
    """Set an LSTM so that it composes nearly what the sum of (D, K, d) codewords does.

    With small codewords w, no bias and U near zero, every gate is 1/2 and both tanh are straight lines, so
    Σ_j h_j = Σ_l a_l w_l with a_l = (1 − 2^−(D−l+1)) / 2 for l = 1 … D. Codewords divided by a_l and scaled down,
    and an H that scales up again, make the LSTM start as the linear composition that it goes on from.
    """
    spec = module.spec
    left = spec.code_length - torch.arange(spec.code_length, dtype=words.dtype, device=words.device)
    weight = (1 - 2.0**-left) / 2
    short, basis = _factor(words, spec.codeword_dim)
    short = short / weight[:, None, None]
    spread = short[:, :, : words.shape[2]].square().mean().sqrt()  # without what codewords were padded with
    shrink = _LSTM_SIGNAL / spread.clamp_min(1e-12)
    module.codebook.copy_(short * shrink)
    module.basis.copy_(basis / shrink)
    module.recurrent.mul_(0.01)
    module.bias.zero_()


def _factor(words: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """(D, K, d) codewords as (D, K, size) codewords times a (size, d) basis, whose columns or rows are orthonormal."""
    dim = words.shape[2]
    if size >= dim:
        return F.pad(words, (0, size - dim)), torch.eye(size, dim, dtype=words.dtype, device=words.device)
    basis = complete_basis(principal_directions(words.flatten(0, 1)).directions, size).t()
    return words @ basis.t(), basis
