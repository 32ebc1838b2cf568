"""Better codes for sums of given codewords: iterated conditional modes (ICM), or Gibbs sampling at a temperature.

The squared distance between x and a sum of codewords, seen as a function of one position's choice k, is

    ‖w_k‖² − 2 x·w_k + 2 Σ_other w_other·w_k,

up to a constant. The first two terms, the unary terms, are one matrix product per chunk of rows; the pairwise terms are
a sum of table rows, so that a visit to a position costs D·K additions and no multiplication. ICM takes the smallest
(Besag, 1986; for additive codes Babenko and Lempitsky, 2014, and LSQ, Martinez et al., 2016). Gibbs sampling at
temperature T draws the choice with probability ∝ exp(−distance / T), by adding Gumbel noise before the minimum is
taken, so that codes leave the local minima in which ICM stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.codec_torch.lookup import argmin_rows, flat_codes
from kdcode.codec_torch.parallel import parallel_chunks
from kdcode.codec_torch.randomness import generator_for

_MOST_TABLE_FLOATS = 1 << 26
"""Pairwise tables have (D·K)² entries; where that is more (256 MiB), costs come from residuals."""
_CHUNK_FLOATS = 1 << 21
"""D·K costs of a chunk's rows: small enough to stay in a core's cache while positions are visited."""
_SPARE_NOISE = 1 << 16


class SumSearch:
    """The search under one codebook.

    Args:
        words: (D, K, e) codewords whose sums approximate vectors of size e.
        first_row: the number of the first row that is searched for, where these are rows from the middle of a table;
            random numbers are drawn by row.
    """

    def __init__(self, words: Tensor, first_row: int = 0) -> None:
        self.words = words
        self.first_row = first_row
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

    def gibbs_sweeps(
        self, vectors: Tensor, codes: Tensor, temperatures: Sequence[float], *, seed: int, number: int = 0
    ) -> Tensor:
        """Codes after one sweep over all positions, in random order, at each temperature; 0 is a sweep of ICM.

        Args:
            vectors: (N, e) what to approximate.
            codes: (N, D) to begin with.
            temperatures: of each sweep.
            seed: of the order of positions and of the draws.
            number: sets calls with one seed apart.

        Returns:
            (N, D) codes.
        """
        return self._sweeps(vectors, codes, temperatures, seed, number, keep_better=False)

    def icm(self, vectors: Tensor, codes: Tensor, sweeps: int, *, seed: int = 0, number: int = 0) -> Tensor:
        """Codes after sweeps of ICM; a row keeps the code that it began with where the new one is no nearer."""
        return self._sweeps(vectors, codes, [0.0] * sweeps, seed, number, keep_better=True)

    def _sweeps(
        self,
        vectors: Tensor,
        codes: Tensor,
        temperatures: Sequence[float],
        seed: int,
        number: int,
        *,
        keep_better: bool,
    ) -> Tensor:
        rows = max(64, min(4096, _CHUNK_FLOATS // len(self.flat)))
        noise = _GumbelNoise(rows * self.size, seed, number, vectors.device) if any(temperatures) else None
        found = torch.empty_like(codes)

        def search(start: int) -> None:
            part = slice(start, start + rows)
            generator = generator_for(seed, f"search {number}", self.first_row + start)
            state = self._state(vectors[part], codes[part])
            for temperature in temperatures:
                changed = self._sweep(state, temperature, generator, noise)
                if temperature == 0 and not changed:
                    break
            new = state.flat_codes - self._offsets(codes.device)
            if keep_better:
                new = self.nearer(vectors[part], new, codes[part])
            found[part] = new

        parallel_chunks(search, range(0, len(codes), rows), vectors.device)
        return found

    def icm_chunk(self, vectors: Tensor, codes: Tensor, sweeps: int, unary: Tensor) -> Tensor:
        """(n, D) codes of one chunk after sweeps of ICM, with unary terms that are there already."""
        state = self._state(vectors, codes, unary)
        generator = generator_for(0, "search", 0)
        for _ in range(sweeps):
            if not self._sweep(state, 0.0, generator, None):
                break
        return state.flat_codes - self._offsets(codes.device)

    def nearer(self, vectors: Tensor, new: Tensor, old: Tensor) -> Tensor:
        """(n, D): of two codes per row the new one where it is nearer, else the old one."""
        worse = self.distances(vectors, new) >= self.distances(vectors, old)
        return torch.where(worse[:, None], old, new)

    def distances(self, vectors: Tensor, codes: Tensor) -> Tensor:
        """(n,) squared distances between vectors and the sums of their codewords."""
        return (vectors - F.embedding_bag(flat_codes(codes, self.size), self.flat, mode="sum")).square().sum(dim=1)

    def pairwise(self, flat: Tensor, position: int) -> Tensor:
        """(n, K): 2 Σ w·w_k of the codewords of (n, t) flat codes and those of another position."""
        if self.pairs is not None:
            return F.embedding_bag(flat, self.pairs[position], mode="sum")
        return F.embedding_bag(flat, self.flat, mode="sum") @ (2 * self.words[position].t())

    def unary(self, vectors: Tensor) -> Tensor:
        """(n, D, K): ‖w_k‖² − 2 x·w_k."""
        products = torch.addmm(self.norms, vectors, self.flat.t(), alpha=-2)
        return products.view(len(vectors), self.length, self.size)

    def _state(self, vectors: Tensor, codes: Tensor, unary: Tensor | None = None) -> _ChunkState:
        flat = codes + self._offsets(codes.device)
        if self.pairs is None:
            return _ResidualState(self, vectors, flat)
        return _TableState(self.pairs, self.unary(vectors) if unary is None else unary, flat)

    def _sweep(
        self, state: _ChunkState, temperature: float, generator: torch.Generator, noise: _GumbelNoise | None
    ) -> bool:
        """Visit all positions in random order; whether any code changed."""
        changed = False
        for position in torch.randperm(self.length, generator=generator).tolist():
            costs = state.costs(position)
            if temperature > 0 and noise is not None:
                noise.subtract(costs, temperature, generator)
            chosen = argmin_rows(costs) + position * self.size
            changed = changed or temperature > 0 or not torch.equal(chosen, state.flat_codes[:, position])
            state.set(position, chosen)
        return changed

    def _offsets(self, device: torch.device) -> Tensor:
        return self.size * torch.arange(self.length, device=device)


class _ChunkState(Protocol):
    """A chunk of rows while their codes change: flat codes (n, D), as rows of the flat codebook."""

    flat_codes: Tensor

    def costs(self, position: int) -> Tensor:
        """(n, K) distances, up to a constant per row, for each choice at a position; the caller may write on it."""
        ...

    def set(self, position: int, chosen: Tensor) -> None:
        """Take (n,) flat codes at a position."""
        ...


class _TableState:
    """Costs from tables of pairwise terms."""

    def __init__(self, pairs: Tensor, unary: Tensor, flat_codes: Tensor) -> None:
        self.pairs, self.unary, self.flat_codes = pairs, unary, flat_codes

    def costs(self, position: int) -> Tensor:
        return F.embedding_bag(self.flat_codes, self.pairs[position], mode="sum").add_(self.unary[:, position])

    def set(self, position: int, chosen: Tensor) -> None:
        self.flat_codes[:, position] = chosen


class _ResidualState:
    """Costs from residuals, where tables would be too large."""

    def __init__(self, search: SumSearch, vectors: Tensor, flat_codes: Tensor) -> None:
        self.search, self.flat_codes = search, flat_codes
        self.residual = vectors - F.embedding_bag(flat_codes, search.flat, mode="sum")

    def costs(self, position: int) -> Tensor:
        without = self.residual + self.search.flat[self.flat_codes[:, position]]
        norms = self.search.norms.view(self.search.length, -1)[position]
        return torch.addmm(norms, without, self.search.words[position].t(), alpha=-2)

    def set(self, position: int, chosen: Tensor) -> None:
        self.residual += self.search.flat[self.flat_codes[:, position]] - self.search.flat[chosen]
        self.flat_codes[:, position] = chosen


class _GumbelNoise:
    """Gumbel noise drawn once and used from many places: drawing it anew would take longer than all else."""

    def __init__(self, count: int, seed: int, number: int, device: torch.device) -> None:
        draws = torch.rand(count + _SPARE_NOISE, generator=generator_for(seed, "gumbel", number))
        self._values = draws.clamp_(1e-10, 1 - 1e-7).log_().neg_().log_().neg_().to(device)

    def subtract(self, costs: Tensor, temperature: float, generator: torch.Generator) -> None:
        first = int(torch.randint(_SPARE_NOISE, (1,), generator=generator))
        costs.sub_(self._values[first : first + costs.numel()].view_as(costs), alpha=temperature)
