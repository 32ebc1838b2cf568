"""Vectors to codes, for a codebook that is already there; numpy only.

Compositions that are sums over positions are searched with a beam over the positions and then refined one position
at a time; where sums stand side by side, each by itself, and a block of one position exactly. The LSTM is searched with
a beam over prefixes and refined by trying codewords.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from kdcode.composition import Block, Composition, Linear, Lstm, SideBySide
from kdcode.errors import OptionError
from kdcode.table import FloatArray

CodeArray = npt.NDArray[np.int64]

_CHUNK_FLOATS, _LSTM_CHUNK_FLOATS = 1 << 19, 1 << 23
"""Floats that the largest intermediate array of a chunk may hold: sums stay near the processor, an LSTM has so many
small steps that more rows at once are better."""
_BUNDLE = 16
"""Costs of which only the least is compared at first."""


def encode(
    vectors: FloatArray, codebook: FloatArray, composition: Composition, *, beam: int = 8, sweeps: int = 4
) -> CodeArray:
    """Codes whose composed vectors are near the given ones in squared distance.

    Args:
        vectors: (n, d) float32.
        codebook: (D, K, e) codewords.
        composition: how codewords become vectors.
        beam: partial codes kept per vector while positions are chosen one after another.
        sweeps: passes that reconsider one position at a time afterwards.

    Returns:
        (n, D) codes.
    """
    if beam < 1 or sweeps < 0:
        raise OptionError(f"beam must be at least 1 and sweeps at least 0, got {beam} and {sweeps}")
    search = _searcher(codebook, composition, beam, sweeps)
    length, size, width = codebook.shape
    if isinstance(composition, Lstm):
        rows = max(1, _LSTM_CHUNK_FLOATS // (beam * max(size * width, vectors.shape[1])))
    else:
        rows = max(1, _CHUNK_FLOATS // (beam * max(size, vectors.shape[1])))
    codes = np.empty((len(vectors), length), dtype=np.int64)
    for start in range(0, len(vectors), rows):
        codes[start : start + rows] = search(vectors[start : start + rows])
    return codes


def _searcher(
    codebook: FloatArray, composition: Composition, beam: int, sweeps: int
) -> Callable[[FloatArray], CodeArray]:
    if isinstance(composition, SideBySide):
        blocks = composition.blocks(*codebook.shape[::2])
        return lambda vectors: _encode_blocks(composition.unturned(vectors), codebook, blocks, beam, sweeps)
    if isinstance(composition, Lstm):
        return lambda vectors: _encode_lstm(vectors, codebook, composition, beam, sweeps)
    if isinstance(composition, Linear):
        words = composition.folded(codebook)
        return lambda vectors: _encode_sum(vectors, words, beam, sweeps)
    raise OptionError(f"no code search is written for {type(composition).__name__}")


def _encode_blocks(
    vectors: FloatArray, codebook: FloatArray, blocks: Sequence[Block], beam: int, sweeps: int
) -> CodeArray:
    codes = np.empty((len(vectors), len(codebook)), dtype=np.int64)
    for block in blocks:
        words, part = codebook[block.positions, :, : block.width], vectors[:, block.columns]
        if block.length == 1:
            codes[:, block.positions] = (_squared_norms(words[0]) - 2 * part @ words[0].T).argmin(axis=1)[:, None]
        else:
            codes[:, block.positions] = _encode_sum(part, words, beam, sweeps)
    return codes


def _encode_sum(vectors: FloatArray, words: FloatArray, beam: int, sweeps: int) -> CodeArray:
    # Centred codebooks make a partial sum comparable with the vector: the positions not yet chosen are expected to
    # add nothing. The most energetic positions are chosen first, the order that residual codebooks have by themselves.
    means = words.mean(axis=1, keepdims=True)
    centred = words - means
    order = np.argsort(-_squared_norms(centred).mean(axis=1), kind="stable")
    codes = _beam_over_sum(vectors - means.sum(axis=(0, 1)), centred[order], beam)
    codes[:, order] = codes.copy()
    return _refine_sum(vectors, words, codes, sweeps)


def _beam_over_sum(vectors: FloatArray, words: FloatArray, beam: int) -> CodeArray:
    """Choose positions first to last, keeping the `beam` best partial codes of every row. Returns (n, D)."""
    rows, (length, size, _) = len(vectors), words.shape
    residual, cost = vectors, np.zeros((rows, 1), dtype=np.float32)  # (n·b, d) and (n, b)
    codes = np.zeros((rows, length), dtype=np.int64)  # (n·b, D)
    for position, choices in enumerate(words):
        costs = residual @ (-2 * choices.T)  # (n·b, K): one product of matrices, not one for each row
        costs += _squared_norms(choices)
        costs += cost.reshape(-1, 1)
        kept = cost.shape[1]
        parent, chosen, cost = _best(costs.reshape(rows, kept, size), beam)
        parents, chosen = (parent + kept * np.arange(rows)[:, None]).reshape(-1), chosen.reshape(-1)
        residual = residual.take(parents, axis=0)
        residual -= choices.take(chosen, axis=0)
        codes = codes.take(parents, axis=0)
        codes[:, position] = chosen
    return _first_of(codes.reshape(rows, -1, length), cost)


def _refine_sum(vectors: FloatArray, words: FloatArray, codes: CodeArray, sweeps: int) -> CodeArray:
    """Reconsider one position at a time until nothing changes; never makes a row worse."""
    residual = vectors - Linear(vectors.shape[1]).compose(codes, words)
    norms = _squared_norms(words)
    for _ in range(sweeps):
        changed = False
        for position, choices in enumerate(words):
            open_residual = residual + choices[codes[:, position]]
            best = (norms[position] - 2 * open_residual @ choices.T).argmin(axis=1)
            changed = changed or bool((best != codes[:, position]).any())
            codes[:, position] = best
            residual = open_residual - choices[best]
        if not changed:
            break
    return codes


def _encode_lstm(vectors: FloatArray, codebook: FloatArray, lstm: Lstm, beam: int, sweeps: int) -> CodeArray:
    codes = _beam_over_lstm(vectors, codebook, lstm, beam)
    error = _squared_norms(vectors - lstm.compose(codes, codebook))
    for _ in range(min(sweeps, 1)):  # a sweep composes every codeword at every position: one is what it is worth
        for position in range(len(codebook)):
            for candidate in range(codebook.shape[1]):
                trial = codes.copy()
                trial[:, position] = candidate
                trial_error = _squared_norms(vectors - lstm.compose(trial, codebook))
                better = trial_error < error
                codes[better] = trial[better]
                error = np.minimum(error, trial_error)
    return codes


def _beam_over_lstm(vectors: FloatArray, codebook: FloatArray, lstm: Lstm, beam: int) -> CodeArray:
    rows, size, width = len(vectors), codebook.shape[1], codebook.shape[2]
    hidden = np.zeros((rows, 1, width), dtype=np.float32)
    memory, total = hidden, hidden
    codes = np.zeros((rows, 1, len(codebook)), dtype=np.int64)
    to_come = _mean_to_come(codebook, lstm)
    for position, words in enumerate(codebook):
        new_hidden, new_memory = lstm.step(words[None, None], hidden[:, :, None], memory[:, :, None])  # (n, b, K, e)
        new_total = total[:, :, None] + new_hidden
        composed = np.asarray((new_total + to_come[position]) @ lstm.projection, dtype=np.float32)
        parent, chosen, cost = _best(_squared_norms(vectors[:, None, None, :] - composed), beam)
        flat = parent * size + chosen
        hidden, memory, total = (
            np.take_along_axis(state.reshape(rows, -1, width), flat[:, :, None], axis=1)
            for state in (new_hidden, new_memory, new_total)
        )
        codes = np.take_along_axis(codes, parent[:, :, None], axis=1)
        codes[:, :, position] = chosen
    return _first_of(codes, cost)


def _mean_to_come(codebook: FloatArray, lstm: Lstm) -> FloatArray:
    """(D, e): what the positions after each one add to Σ h on average, over a fixed sample of codes.

    With it a prefix is comparable with the whole vector, as centred codebooks make it for sums.
    """
    length, size, width = codebook.shape
    codes = np.random.default_rng(0).integers(0, size, size=(1024, length))
    hidden = memory = np.zeros((len(codes), width), dtype=np.float32)
    means = np.zeros((length + 1, width), dtype=np.float32)
    for position, words in enumerate(codebook):
        hidden, memory = lstm.step(words[codes[:, position]], hidden, memory)
        means[position] = hidden.mean(axis=0)
    return means[::-1].cumsum(axis=0)[::-1][1:]


def _best(cost: FloatArray, beam: int) -> tuple[CodeArray, CodeArray, FloatArray]:
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


def _first_of(codes: CodeArray, cost: FloatArray) -> CodeArray:
    """The (n, D) cheapest of (n, beam, D) codes."""
    cheapest = cost.argmin(axis=1)[:, None, None]
    return np.take_along_axis(codes, cheapest, axis=1)[:, 0]


def _squared_norms(vectors: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("...i,...i->...", vectors, vectors), dtype=np.float32)
