"""Lstm: the paper's other composition, an LSTM over the codewords of a code, and its code search."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.beam_search import cheapest_codes, smallest_costs, squared_norms
from kdcode.codec.codec import CodeArray, Codec
from kdcode.codec.spec import LSTM

_CHUNK_FLOATS = 1 << 23
"""Floats that the largest intermediate array of a chunk may hold: with many small steps, more rows are better."""
_SAMPLED_CODES = 1024


class Lstm(Codec):
    """An LSTM over the codewords, each added to every gate directly; v = (Σ_j h_j) H (section 2 of the paper).

    The weights are U = `recurrent` (4, e, e) and b = `bias` (4, e), gates in the paper's order f, i, o, m,
    and H = `basis`.
    """

    kind: ClassVar[str] = LSTM
    scaled_weight: ClassVar[str] = "basis"

    def compose(self, codes: IntArray) -> FloatArray:
        """(n, D) or (n, columns) codes to (n, d) vectors, before row scales."""
        hidden = np.zeros((len(codes), self.spec.codeword_dim), dtype=np.float32)
        memory = np.zeros_like(hidden)
        total = np.zeros_like(hidden)
        for position, words in enumerate(self.codebook):
            hidden, memory = self._step(words.take(codes[:, position], axis=0), hidden, memory)
            total += hidden
        return self._projected(total)

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

    def _projected(self, total: FloatArray) -> FloatArray:
        return np.asarray(total @ np.asarray(self.basis), dtype=np.float32)

    def _rows_at_once(self, beam: int) -> int:
        spec = self.spec
        return max(1, _CHUNK_FLOATS // (beam * max(spec.codebook_size * spec.codeword_dim, spec.embedding_dim)))

    def _search(self, vectors: FloatArray, beam: int, sweeps: int) -> CodeArray:
        codes = self._beam_search(vectors, beam)
        error = squared_norms(vectors - self.compose(codes))
        for _ in range(min(sweeps, 1)):  # a sweep composes every codeword at every position: one is what it is worth
            for position in range(self.spec.code_length):
                for candidate in range(self.spec.codebook_size):
                    trial = codes.copy()
                    trial[:, position] = candidate
                    trial_error = squared_norms(vectors - self.compose(trial))
                    better = trial_error < error
                    codes[better] = trial[better]
                    error = np.minimum(error, trial_error)
        return codes

    def _beam_search(self, vectors: FloatArray, beam: int) -> CodeArray:
        rows, (length, size, width) = len(vectors), self.codebook.shape
        hidden = np.zeros((rows, 1, width), dtype=np.float32)
        memory, total = hidden, hidden
        codes = np.zeros((rows, 1, length), dtype=np.int64)
        to_come = self._mean_to_come()
        for position, words in enumerate(self.codebook):
            # (n, b, K, e) states after every choice
            new_hidden, new_memory = self._step(words[None, None], hidden[:, :, None], memory[:, :, None])
            new_total = total[:, :, None] + new_hidden
            composed = self._projected(new_total + to_come[position])
            parent, chosen, cost = smallest_costs(squared_norms(vectors[:, None, None, :] - composed), beam)
            flat = parent * size + chosen
            hidden, memory, total = (
                np.take_along_axis(state.reshape(rows, -1, width), flat[:, :, None], axis=1)
                for state in (new_hidden, new_memory, new_total)
            )
            codes = np.take_along_axis(codes, parent[:, :, None], axis=1)
            codes[:, :, position] = chosen
        return cheapest_codes(codes, cost)

    def _mean_to_come(self) -> FloatArray:
        """(D, e): what the positions after each one add to Σ h on average, over a fixed sample of codes.

        With it a prefix is comparable with the whole vector, as centred codewords make it for sums.
        """
        length, size, width = self.codebook.shape
        codes = np.random.default_rng(0).integers(0, size, size=(_SAMPLED_CODES, length))
        hidden = memory = np.zeros((len(codes), width), dtype=np.float32)
        means = np.zeros((length + 1, width), dtype=np.float32)
        for position, words in enumerate(self.codebook):
            hidden, memory = self._step(words[codes[:, position]], hidden, memory)
            means[position] = hidden.mean(axis=0)
        return means[::-1].cumsum(axis=0)[::-1][1:]


def _sigmoid(values: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (np.tanh(0.5 * values) + 1), dtype=np.float32)  # tanh cannot overflow
