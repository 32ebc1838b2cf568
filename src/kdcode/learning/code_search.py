"""Better codes for sums of codewords that are given: one position after another, at a temperature.

The squared distance between x and a sum of codewords, seen as a function of one position's choice k, is

    ‖w_k‖² − 2 x·w_k + 2 Σ_other w_other·w_k,

up to a constant. The first two terms are one matrix product per chunk of rows, the last is a sum of table rows, so
that a visit to a position costs D·K additions and no multiplication. At temperature T the choice is drawn with
probability ∝ exp(−distance / T) instead (Gibbs sampling, by adding Gumbel noise before the minimum is taken): codes
leave the dead ends in which plain descent stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.learning.kmeans import smallest
from kdcode.learning.randomness import generator_for
from kdcode.learning.side_by_side import side_by_side
from kdcode.learning.straight_through import flat_codes

_MOST_TABLE_FLOATS = 1 << 26
"""Pair tables have (D·K)² entries; where that is more (256 MiB), distances come from residuals."""
_CHUNK_FLOATS = 1 << 21
"""D·K distances of a chunk's rows: small enough to stay in a core's cache while positions are visited."""
_SPARE_NOISE = 1 << 16


class SumSearch:
    """The search under one codebook.

    Args:
        words: (D, K, e) codewords whose sums approximate vectors of size e.
    """

    def __init__(self, words: Tensor) -> None:
        self.words = words
        self.length, self.size, _ = words.shape
        self.flat = words.flatten(0, 1)
        self.norms = self.flat.square().sum(dim=1)
        self.pairs = self._pair_tables() if len(self.flat) ** 2 <= _MOST_TABLE_FLOATS else None

    def _pair_tables(self) -> Tensor:
        """(D, D·K, K): 2 w·w_k of every codeword and those of a position; zero within the position itself."""
        tables = torch.matmul(2 * self.flat, self.words.transpose(1, 2))
        for position in range(self.length):
            tables[position, position * self.size : (position + 1) * self.size] = 0
        return tables

    def improve(
        self,
        vectors: Tensor,
        codes: Tensor,
        temperatures: Sequence[float],
        *,
        seed: int,
        number: int = 0,
        keep_better: bool = False,
    ) -> Tensor:
        """Go over all positions once for each temperature.

        Args:
            vectors: (N, e) what to approximate.
            codes: (N, D) to begin with.
            temperatures: of each sweep; 0 takes the nearest choice.
            seed: of the order of positions and of the draws.
            number: sets calls with one seed apart.
            keep_better: give the code back that a row began with, where the new one is no nearer.

        Returns:
            (N, D) codes.
        """
        rows = max(64, min(4096, _CHUNK_FLOATS // len(self.flat)))
        noise = _GumbelNoise(rows * self.size, seed, number, vectors.device) if any(temperatures) else None
        found = torch.empty_like(codes)
        starts = range(0, len(codes), rows)

        def search(start: int) -> None:
            part = slice(start, start + rows)
            generator = generator_for(seed, f"search {number}", start)
            walk = self._walk(vectors[part], codes[part])
            for temperature in temperatures:
                moved = self._sweep(walk, temperature, generator, noise)
                if temperature == 0 and not moved:
                    break
            new = walk.flat_codes - self._offsets(codes.device)
            if keep_better:
                worse = self.distances(vectors[part], new) >= self.distances(vectors[part], codes[part])
                new = torch.where(worse[:, None], codes[part], new)
            found[part] = new

        side_by_side(search, starts, vectors.device)
        return found

    def distances(self, vectors: Tensor, codes: Tensor) -> Tensor:
        """(n,) squared distances between vectors and the sums of their codewords."""
        return (vectors - F.embedding_bag(flat_codes(codes, self.size), self.flat, mode="sum")).square().sum(dim=1)

    def met(self, codes: Tensor, position: int) -> Tensor:
        """(n, K): 2 Σ w·w_k of the codewords of (n, t) flat codes and those of another position."""
        if self.pairs is not None:
            return F.embedding_bag(codes, self.pairs[position], mode="sum")
        return F.embedding_bag(codes, self.flat, mode="sum") @ (2 * self.words[position].t())

    def unary(self, vectors: Tensor) -> Tensor:
        """(n, D, K): ‖w_k‖² − 2 x·w_k."""
        products = torch.addmm(self.norms, vectors, self.flat.t(), alpha=-2)
        return products.view(len(vectors), self.length, self.size)

    def descend(self, vectors: Tensor, codes: Tensor, sweeps: int, unary: Tensor) -> Tensor:
        """(n, D) codes after sweeps without heat over a chunk of rows, whose unary terms are there already."""
        walk = self._walk(vectors, codes, unary)
        generator = generator_for(0, "search", 0)
        for _ in range(sweeps):
            if not self._sweep(walk, 0.0, generator, None):
                break
        return walk.flat_codes - self._offsets(codes.device)

    def _walk(self, vectors: Tensor, codes: Tensor, unary: Tensor | None = None) -> _Walk:
        flat = codes + self._offsets(codes.device)
        if self.pairs is None:
            return _ResidualWalk(self, vectors, flat)
        return _TableWalk(self.pairs, self.unary(vectors) if unary is None else unary, flat)

    def _sweep(self, walk: _Walk, temperature: float, generator: torch.Generator, noise: _GumbelNoise | None) -> bool:
        """Visit all positions in random order; whether any code changed."""
        moved = False
        for position in torch.randperm(self.length, generator=generator).tolist():
            costs = walk.costs(position)
            if temperature > 0 and noise is not None:
                noise.subtract(costs, temperature, generator)
            picked = smallest(costs) + position * self.size
            moved = moved or temperature > 0 or not torch.equal(picked, walk.flat_codes[:, position])
            walk.put(position, picked)
        return moved

    def _offsets(self, device: torch.device) -> Tensor:
        return self.size * torch.arange(self.length, device=device)


class _Walk(Protocol):
    """A chunk of rows on their way: flat codes (n, D), as rows of the flat codebook."""

    flat_codes: Tensor

    def costs(self, position: int) -> Tensor:
        """(n, K) distances, up to a constant per row, for each choice at a position; the caller may write on it."""
        ...

    def put(self, position: int, picked: Tensor) -> None:
        """Take (n,) flat codes at a position."""
        ...


class _TableWalk:
    def __init__(self, pairs: Tensor, unary: Tensor, codes: Tensor) -> None:
        self.pairs, self.unary, self.flat_codes = pairs, unary, codes

    def costs(self, position: int) -> Tensor:
        return F.embedding_bag(self.flat_codes, self.pairs[position], mode="sum").add_(self.unary[:, position])

    def put(self, position: int, picked: Tensor) -> None:
        self.flat_codes[:, position] = picked


class _ResidualWalk:
    def __init__(self, search: SumSearch, vectors: Tensor, codes: Tensor) -> None:
        self.search, self.flat_codes = search, codes
        self.residual = vectors - F.embedding_bag(codes, search.flat, mode="sum")

    def costs(self, position: int) -> Tensor:
        opened = self.residual + self.search.flat[self.flat_codes[:, position]]
        norms = self.search.norms.view(self.search.length, -1)[position]
        return torch.addmm(norms, opened, self.search.words[position].t(), alpha=-2)

    def put(self, position: int, picked: Tensor) -> None:
        self.residual += self.search.flat[self.flat_codes[:, position]] - self.search.flat[picked]
        self.flat_codes[:, position] = picked


class _GumbelNoise:
    """Gumbel noise drawn once and used from many places: drawing it anew would take longer than all else."""

    def __init__(self, count: int, seed: int, number: int, device: torch.device) -> None:
        draws = torch.rand(count + _SPARE_NOISE, generator=generator_for(seed, "gumbel", number))
        self._values = draws.clamp_(1e-10, 1 - 1e-7).log_().neg_().log_().neg_().to(device)

    def subtract(self, costs: Tensor, temperature: float, generator: torch.Generator) -> None:
        first = int(torch.randint(_SPARE_NOISE, (1,), generator=generator))
        costs.sub_(self._values[first : first + costs.numel()].view_as(costs), alpha=temperature)
