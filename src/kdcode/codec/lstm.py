"""Lstm: the paper's other composition, an LSTM over the codewords of a code, and its code search."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.codec import CodeArray
from kdcode.codec.codewords import CodewordCodec
from kdcode.codec.spec import LSTM
from kdcode.threads import parallel_chunks

_CHUNK_FLOATS = 1 << 23
"""Floats that the largest intermediate array of a chunk may hold: with many small steps, more rows are better."""
_SAMPLED_CODES = 1024
_MOST_SAMPLED = 1 << 22
_MOST_STEPS = 1 << 24
"""Steps of the LSTM that a sweep may take; only codes of hundreds of positions need more."""
_BUNDLE = 16
"""Costs of which only the least is compared at first."""
_GATE_PARTS = ("codebook", "recurrent", "bias")


Step = tuple[CodeArray, CodeArray]
"""For each of (n, beam) partial codes, the place of the one that it continues, and the codeword that it adds."""


class Lstm(CodewordCodec):
    """An LSTM over the codewords, each added to every gate directly; v = (Σ_j h_j) H (section 2 of the paper).

    The weights are U = `recurrent` (4, e, e) and b = `bias` (4, e), gates in the paper's order f, i, o, m,
    and H = `basis`.
    """

    kind: ClassVar[str] = LSTM
    scaled_weight: ClassVar[str] = "basis"

    def _total(self, codes: IntArray) -> FloatArray:
        """(n, D) or (n, columns) codes to the (n, e) sums of their h."""
        hidden = np.zeros((len(codes), self.spec.codeword_dim), dtype=self.dtype)
        memory = np.zeros_like(hidden)
        total = np.zeros_like(hidden)
        for position, words in enumerate(self.codebook):
            hidden, memory = self._step(words.take(codes[:, position], axis=0), hidden, memory)
            total += hidden
        return total

    def score_tables(self, queries: DoubleArray) -> None:
        """None: h_j depends on all codewords before it, so nothing adds up over positions."""
        return None

    @cached_property
    def _gates(self) -> list[tuple[FloatArray, FloatArray]]:
        """The (e, e) matrix and the (e,) bias of each gate, as float32."""
        recurrent, bias = (np.asarray(self.stored[name], dtype=np.float32) for name in ("recurrent", "bias"))
        return list(zip(recurrent, bias, strict=True))

    def _step(self, word: FloatArray, hidden: FloatArray, memory: FloatArray) -> tuple[FloatArray, FloatArray]:
        """One position: codewords (…, e) with the h and m before it, which broadcast, to the h and m after it."""
        forget, write, output, candidate = (word + (hidden @ weight.T + bias) for weight, bias in self._gates)
        memory = _sigmoid(forget) * memory + _sigmoid(write) * np.tanh(candidate)
        return _sigmoid(output) * np.tanh(memory), memory

    def _reach(self) -> float:
        width, most = self.spec.codeword_dim, {name: float(self._quantized(name).largest.max()) for name in _GATE_PARTS}
        gates = most["codebook"] + width * most["recurrent"] + most["bias"]  # the numbers of h are at most 1
        level = float(self.stored["scale_levels"][-1]) if self.spec.scale_bits else 1.0
        return max(gates, self.spec.code_length * max(self._sum_of_largest("basis"), 1.0) * max(level, 1.0))

    def search_codes(self, vectors: FloatArray, beam: int, sweeps: int) -> CodeArray:
        """(n, D) codes of (n, d) vectors, before row scales."""
        spec, codes = self.spec, np.empty((len(vectors), self.spec.code_length), dtype=np.int64)
        at_once = max(1, _CHUNK_FLOATS // (beam * max(spec.codebook_size * spec.codeword_dim, spec.embedding_dim)))

        def search(start: int) -> None:
            codes[start : start + at_once] = self._search(vectors[start : start + at_once], beam, sweeps)

        parallel_chunks(search, range(0, len(vectors), at_once))
        return codes

    def _search(self, vectors: FloatArray, beam: int, sweeps: int) -> CodeArray:
        wanted, basis = self.reduced(vectors), self.reduced_basis[1]
        codes = self._beam_search(wanted, beam)
        error = squared_norms(wanted - self._total(codes) @ basis)
        steps = self.spec.code_length**2 * self.spec.codebook_size  # every codeword at every position is composed:
        for _ in range(min(sweeps, 1) if steps <= _MOST_STEPS else 0):  # one sweep is what that is worth
            for position in range(self.spec.code_length):
                for candidate in range(self.spec.codebook_size):
                    trial = codes.copy()
                    trial[:, position] = candidate
                    trial_error = squared_norms(wanted - self._total(trial) @ basis)
                    better = trial_error < error
                    codes[better] = trial[better]
                    error = np.minimum(error, trial_error)
        return codes

    def _beam_search(self, vectors: FloatArray, beam: int) -> CodeArray:
        """(n, D) codes of (n, k) vectors in the coordinates of the reduced basis."""
        basis = self.reduced_basis[1]
        rows, (_, size, width) = len(vectors), self.codebook.shape
        hidden = np.zeros((rows, 1, width), dtype=self.dtype)
        memory, total = hidden, hidden
        steps: list[Step] = []
        to_come = self._mean_to_come()
        for position, words in enumerate(self.codebook):
            costs = np.empty((rows, hidden.shape[1], size), dtype=np.float32)
            at_once = max(1, _CHUNK_FLOATS // (hidden[..., 0].size * width))
            for some in (slice(start, start + at_once) for start in range(0, size, at_once)):
                # (n, b, some, e) states after every choice
                after, _ = self._step(words[some], hidden[:, :, None], memory[:, :, None])
                composed = (total[:, :, None] + after + to_come[position]) @ basis
                costs[:, :, some] = squared_norms(vectors[:, None, None, :] - composed)
            parent, chosen, cost = smallest_costs(costs, beam)
            hidden, memory, total = (
                np.take_along_axis(state, parent[:, :, None], axis=1) for state in (hidden, memory, total)
            )
            hidden, memory = self._step(words[chosen], hidden, memory)
            total = total + hidden
            steps.append((parent, chosen))
        return traced_codes(steps, cost)

    def _mean_to_come(self) -> FloatArray:
        """(D, e): what the positions after each one add to Σ h on average, over a fixed sample of codes.

        With it a prefix is comparable with the whole vector, as centred codewords make it for sums.
        """
        length, size, width = self.codebook.shape
        sampled = max(1, min(_SAMPLED_CODES, _MOST_SAMPLED // length))
        codes = np.random.default_rng(0).integers(0, size, size=(sampled, length))
        hidden = memory = np.zeros((len(codes), width), dtype=self.dtype)
        means = np.zeros((length + 1, width), dtype=self.dtype)
        for position, words in enumerate(self.codebook):
            hidden, memory = self._step(words[codes[:, position]], hidden, memory)
            means[position] = hidden.mean(axis=0)
        return means[::-1].cumsum(axis=0)[::-1][1:]


def _sigmoid(values: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (np.tanh(0.5 * values) + 1), dtype=values.dtype)  # tanh cannot overflow


def smallest_costs(cost: FloatArray, beam: int) -> tuple[CodeArray, CodeArray, FloatArray]:
    """The `beam` smallest of (n, b, K) costs per row: their b index, K index and cost, each (n, beam)."""
    rows, _, size = cost.shape
    flat = cost.reshape(rows, -1)
    keep, bundles = min(beam, flat.shape[1]), flat.shape[1] // _BUNDLE
    if bundles <= keep or flat.shape[1] % _BUNDLE:
        index = np.argpartition(flat, keep - 1, axis=1)[:, :keep]
    else:  # the smallest costs are in the bundles whose least costs are smallest
        least = flat.reshape(rows, _BUNDLE, bundles).min(axis=1)
        likely = np.argpartition(least, keep - 1, axis=1)[:, :keep]
        places = (likely[:, :, None] + bundles * np.arange(_BUNDLE)).reshape(rows, -1)
        among = np.argpartition(np.take_along_axis(flat, places, axis=1), keep - 1, axis=1)[:, :keep]
        index = np.take_along_axis(places, among, axis=1)
    return index // size, index % size, np.take_along_axis(flat, index, axis=1)


def traced_codes(steps: list[Step], cost: FloatArray) -> CodeArray:
    """(n, D) codes: from the cheapest of (n, beam) ends back along the partial codes that each step continued."""
    codes = np.empty((len(cost), len(steps)), dtype=np.int64)
    place = cost.argmin(axis=1)[:, None]
    for position in reversed(range(len(steps))):
        parent, chosen = steps[position]
        codes[:, position] = np.take_along_axis(chosen, place, axis=1)[:, 0]
        place = np.take_along_axis(parent, place, axis=1)
    return codes


def squared_norms(vectors: FloatArray) -> FloatArray:
    """(…) squared lengths of (…, d) vectors."""
    return np.asarray(np.einsum("...i,...i->...", vectors, vectors), dtype=np.float32)
