"""Where learning starts: at random as in the paper, from residual k-means, or from codes that were learned."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.codec import CodewordSpec
from kdcode.codec_torch import BlockSumModule, LstmModule, make_module
from kdcode.codec_torch.lookup import code_dtype
from kdcode.codec_torch.parallel import parallel_chunks
from kdcode.codec_torch.randomness import generator_for
from kdcode.learning.additive.basis import coordinates, principal_basis
from kdcode.learning.linalg.principal import complete_basis, principal_directions
from kdcode.learning.linalg.residual_kmeans import BlockSample, residual_codes, residual_codewords, residual_kmeans
from kdcode.learning.solution import Start
from kdcode.learning.training_table import TrainingTable

_LSTM_SIGNAL = 0.1
"""Root mean square of codewords in an LSTM that starts as a linear composition; small, so that gates stay linear."""


def random_start(training: TrainingTable, spec: CodewordSpec, seed: int) -> Start:
    """Codes drawn evenly and fresh codewords."""
    device = training.vectors.device
    generator = generator_for(seed, "start")
    length = spec.code_length
    codes = _drawn_codes(training, spec, generator)
    module = make_module(spec, generator=generator)
    if isinstance(module, LstmModule):
        shape = (spec.code_length, spec.codebook_size, spec.embedding_dim)
        words = torch.randn(shape, generator=generator) * spec.code_length**-0.5
        _linear_as_lstm(module, words + _mean(training).cpu() / length)  # an LSTM has no other place for the mean
    module = module.to(device)
    if isinstance(module, BlockSumModule) and spec.is_rotated:
        principal_basis(training, module)
    return Start(codes, module, "random")


def fresh_start(training: TrainingTable, spec: CodewordSpec, seed: int) -> Start:
    """Codes drawn evenly and a fresh module, with nothing known of the table."""
    generator = generator_for(seed, "start")
    codes = _drawn_codes(training, spec, generator)
    return Start(codes, make_module(spec, generator=generator).to(codes.device), "random")


def _drawn_codes(training: TrainingTable, spec: CodewordSpec, generator: torch.Generator) -> Tensor:
    """(N, D) codes drawn evenly."""
    size, length = spec.codebook_size, spec.code_length
    codes = training.share.drawn(lambda rows: torch.randint(size, (rows, length), generator=generator))
    return codes.to(training.vectors.device)


@torch.no_grad()
def warm_start(training: TrainingTable, spec: CodewordSpec, seed: int) -> Start:
    """Residual k-means, block by block."""
    generator = generator_for(seed, "start")
    module = make_module(spec, generator=generator).to(training.vectors.device)
    vectors, size = training.vectors, spec.codebook_size
    if not isinstance(module, BlockSumModule):
        found = residual_kmeans(vectors, spec.code_length, size, generator, training.weights, training.share)
        return lstm_start(*found, spec, seed)._replace(origin="warm")
    principal_basis(training, module)
    vectors = coordinates(vectors, module)
    codes = torch.empty(len(vectors), spec.code_length, dtype=code_dtype(size), device=vectors.device)
    codebook = module.codebook.detach()
    _learn_blocks(training, vectors, module, seed)

    def choose(number: int) -> None:
        block = spec.blocks[number]
        part = vectors[:, block.columns] if spec.groups == 1 else vectors[:, block.columns].contiguous()
        codes[:, block.positions] = residual_codes(part, codebook[block.positions, :, : block.width].contiguous())

    parallel_chunks(choose, range(spec.groups), vectors.device)
    return Start(codes, module, "warm")


def _learn_blocks(training: TrainingTable, vectors: Tensor, module: BlockSumModule, seed: int) -> None:
    """Set the codewords of all blocks by residual k-means on samples of (N, inner_dim) coordinates.

    Ranks share the blocks among them: each learns from rows of all, and hands on what it found.
    """
    spec, ranks, size = module.spec, training.ranks, module.spec.codebook_size
    codebook = module.codebook.detach()
    if not ranks.is_alone:
        codebook.zero_()
    samples: dict[int, BlockSample] = {}

    def sample(number: int) -> BlockSample:
        columns, drawn = spec.blocks[number].columns, generator_for(seed, "k-means", number)
        return BlockSample.of(vectors[:, columns], training.weights, size, training.share, drawn)

    def learn(number: int) -> None:
        block = spec.blocks[number]
        found = sample(number) if ranks.is_alone else samples.pop(number)
        codebook[block.positions, :, : block.width] = residual_codewords(found, block.length, size)

    # Ranks talk from one thread; each keeps the samples of the blocks that it learns.
    for number in range(0 if ranks.is_alone else spec.groups):
        found = sample(number)
        if number % ranks.size == ranks.rank:
            samples[number] = found
    parallel_chunks(learn, range(ranks.rank, spec.groups, ranks.size), vectors.device)
    if not ranks.is_alone:
        codebook.copy_(ranks.all_sum(codebook.clone()))


def _mean(training: TrainingTable) -> Tensor:
    """(d,) the mean of all ranks' rows."""
    if training.ranks.is_alone:
        return training.vectors.mean(dim=0)
    return training.ranks.all_sum(training.vectors.sum(dim=0)) / training.share.total


def lstm_start(codes: Tensor, words: Tensor, spec: CodewordSpec, seed: int) -> Start:
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
