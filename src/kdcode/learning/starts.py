"""Where learning starts: at random as in the paper, or from residual k-means."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kdcode.budget import CodeShape
from kdcode.learning.composition import (
    CompositionModule,
    LinearComposition,
    LSTMComposition,
    SideBySideComposition,
    make_composition,
)
from kdcode.learning.kmeans import residual_kmeans
from kdcode.learning.least_squares import solve_codewords
from kdcode.learning.randomness import generator_for
from kdcode.learning.straight_through import lookup, swap_costs
from kdcode.learning.target import CHUNK_ROWS, Target

_LSTM_SIGNAL = 0.1
"""Root mean square of codewords in an LSTM that starts as a linear composition; small, so that gates stay linear."""


_PRINCIPAL_ROWS = 100_000
"""Rows that are enough to tell a table's principal directions."""
_WARM_SHARPNESS = 0.1
_WARM_MARGIN = 0.1


class Start(NamedTuple):
    """(N, D) codes, of any integer type, and a composition for them, in standardised units.

    `settled` codes are good ones already: learning goes on from them gently.
    """

    codes: Tensor
    composition: CompositionModule
    settled: bool = False


def random_start(target: Target, shape: CodeShape, seed: int) -> Start:
    """Codes drawn evenly and fresh codewords."""
    device = target.vectors.device
    generator = generator_for(seed, "start")
    codes = torch.randint(shape.codebook_size, (len(target), shape.code_length), generator=generator).to(device)
    composition = make_composition(shape, generator=generator)
    if isinstance(composition, LSTMComposition):
        words = torch.randn(composition.codebook.shape, generator=generator) * shape.code_length**-0.5
        mean = target.vectors.mean(dim=0).cpu() / shape.code_length  # an LSTM has no other place for the mean
        _linear_as_lstm(composition, words @ _random_basis(shape, generator) + mean)
    composition = composition.to(device)
    if isinstance(composition, SideBySideComposition):
        _turn_to_blocks(target, composition)
    if shape.shared:
        with torch.no_grad():
            composition.codebook.copy_(composition.codebook[:1].expand_as(composition.codebook))
    return Start(codes, composition)


def warm_start(target: Target, shape: CodeShape, seed: int) -> Start:
    """Residual k-means, block by block where sums stand side by side."""
    generator = generator_for(seed, "start")
    composition = make_composition(shape, generator=generator).to(target.vectors.device)
    if isinstance(composition, SideBySideComposition):
        _turn_to_blocks(target, composition)
        return Start(_kmeans_by_block(target, composition, generator), composition)
    find = _shared_kmeans if shape.shared else residual_kmeans
    codes, words = find(target.vectors, shape.code_length, shape.codebook_size, generator, target.weights)
    if isinstance(composition, LSTMComposition):
        _linear_as_lstm(composition, words)
    elif isinstance(composition, LinearComposition):
        _fit_codewords(composition, words)
    return Start(codes, composition)


def lstm_start(codes: Tensor, words: Tensor, shape: CodeShape, seed: int) -> Start:
    """An LSTM that composes nearly what the sums of (D, K, d) codewords do, for learned (N, D) codes."""
    composition = make_composition(shape, generator=generator_for(seed, "lstm")).to(words.device)
    if isinstance(composition, LSTMComposition):
        _linear_as_lstm(composition, words)
    return Start(codes, composition, settled=True)


STARTS = {"random": random_start, "warm": warm_start}
"""The one table of starts; options name them by these keys."""


def first_logits(target: Target, start: Start, name: str, seed: int) -> Tensor:
    """(N, D, K) logits to start from.

    Near zero for a random start, whose codes mean nothing yet. For a warm one the start's codes have the largest
    logits, and a codeword's logit falls with what the loss would rise by if it were
    put in the place of the one in use, by the same second-order model that `straight_through` uses.
    """
    shape, codes = start.composition.shape, start.codes.long()
    generator = generator_for(seed, "logits")
    logits = torch.empty(len(codes), shape.code_length, shape.codebook_size).normal_(0, 0.01, generator=generator)
    logits = logits.to(codes.device)
    if name == "random" and not start.settled:
        return logits
    gains: Tensor | None = None
    for first in range(0, len(codes), CHUNK_ROWS):
        rows = slice(first, first + CHUNK_ROWS)
        words = lookup(codes[rows], start.composition.codebook.detach()).requires_grad_()
        squared = (start.composition(words) - target.vectors[rows]).square().sum()
        (slope,) = torch.autograd.grad(squared, words)
        if gains is None:
            gains = start.composition.gains(words.detach()[:256])
        rise = swap_costs(slope, codes[rows], start.composition.codebook.detach(), gains)
        logits[rows] = -_WARM_SHARPNESS * rise.clamp_min(0)
    return logits.scatter_(2, codes[:, :, None], _WARM_MARGIN)


@torch.no_grad()
def _kmeans_by_block(target: Target, composition: SideBySideComposition, generator: torch.Generator) -> Tensor:
    codes = []
    rotation = composition.rotation
    vectors = target.vectors if rotation is None else target.vectors @ rotation.t()
    for block in composition.blocks:
        part = vectors[:, block.columns].contiguous()
        found, words = residual_kmeans(part, block.length, composition.shape.codebook_size, generator, target.weights)
        composition.codebook[block.positions].zero_()[:, :, : block.width] = words
        codes.append(found)
    return torch.cat(codes, dim=1)


def _shared_kmeans(
    vectors: Tensor, length: int, size: int, generator: torch.Generator, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Residual k-means whose steps have each a part of the K codewords, that all positions then choose from.

    Where there are more positions than codewords to share out, the last ones begin with any.
    """
    steps = min(length, size // 2)
    part = size // steps
    codes = torch.randint(size, (len(vectors), length), generator=generator).to(vectors.device)
    found, few = residual_kmeans(vectors, steps, part, generator, weights)
    codes[:, :steps] = found + part * torch.arange(steps, device=vectors.device)
    words = vectors.new_zeros(size, vectors.shape[1])
    words[: steps * part] = few.flatten(0, 1)
    words = words.expand(length, -1, -1).contiguous()
    return codes, words if steps == length else solve_codewords(vectors, codes, words, weights, shared=True)


@torch.no_grad()
def _turn_to_blocks(target: Target, composition: SideBySideComposition) -> None:
    """Give every block principal directions, strong and weak ones, so that none has more to keep than the others.

    With equal bits the error is smallest where the products of the blocks' variances are equal (Ge et al., 2013, whose
    allocation this is).
    """
    if composition.rotation is None:
        return
    vectors = target.vectors[:: -(-len(target) // _PRINCIPAL_ROWS)]
    variances, directions = torch.linalg.eigh((vectors.t() @ vectors / len(vectors)).double())
    blocks = composition.blocks
    rows: list[list[int]] = [[] for _ in blocks]
    filled = [0.0] * len(blocks)
    for place in range(len(variances) - 1, -1, -1):
        free = [number for number, block in enumerate(blocks) if len(rows[number]) < block.width]
        chosen = min(free, key=lambda number: filled[number])
        rows[chosen].append(place)
        filled[chosen] += math.log(max(float(variances[place]), 1e-12))
    order = torch.tensor([place for row in rows for place in row], device=directions.device)
    composition.rotation.copy_(directions[:, order].t())


@torch.no_grad()
def _fit_codewords(composition: LinearComposition, words: Tensor) -> None:
    """Take over (D, K, d) codewords; where there is an H, as the best codewords and H of rank e."""
    if composition.projection is None:
        composition.codebook.copy_(words)
        return
    short, basis = _factor(words, composition.shape.codeword_dim)
    composition.codebook.copy_(short)
    composition.projection.copy_(basis)


@torch.no_grad()
def _linear_as_lstm(composition: LSTMComposition, words: Tensor) -> None:
    """Set an LSTM so that it composes nearly what the sum of (D, K, d) codewords does.

    With small codewords w, no bias and U near zero, every gate is 1/2 and both tanh are straight lines, so
    Σ_j h_j = Σ_l a_l w_l with a_l = (1 − 2^−(D−l+1)) / 2 for l = 1 … D. Codewords divided by a_l and scaled down,
    and an H that scales up again, make the LSTM start as the linear composition that it goes on from.
    """
    shape = composition.shape
    left = shape.code_length - torch.arange(shape.code_length, dtype=words.dtype, device=words.device)
    weight = (1 - 2.0**-left) / 2
    short, basis = _factor(words, shape.codeword_dim)
    short = short / weight[:, None, None]
    shrink = _LSTM_SIGNAL / short.square().mean().sqrt().clamp_min(1e-12)
    composition.codebook.copy_(short * shrink)
    composition.projection.copy_(basis / shrink)
    composition.recurrent.mul_(0.01)
    composition.bias.zero_()


def _factor(words: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """(D, K, d) codewords as (D, K, e) codewords times an (e, d) basis with orthonormal rows."""
    dim = words.shape[2]
    if size == dim:
        return words, torch.eye(dim, dtype=words.dtype, device=words.device)
    flat = words.flatten(0, 1)
    directions = torch.linalg.svd(flat.t() @ flat).Vh[:size]  # (min(e, d), d), strongest first
    basis = torch.zeros(size, dim, dtype=words.dtype, device=words.device)
    basis[: len(directions)] = directions
    return words @ basis.t(), basis


def _random_basis(shape: CodeShape, generator: torch.Generator) -> Tensor:
    """(e, d) of variance 1/e, or the identity where e = d."""
    if shape.codeword_dim == shape.embedding_dim:
        return torch.eye(shape.embedding_dim)
    return torch.randn(shape.codeword_dim, shape.embedding_dim, generator=generator) / math.sqrt(shape.codeword_dim)
