"""Codes of vectors under codewords that are added: beam search, then iterated conditional modes (ICM); numpy only.

`kdcode.codec_torch.beam_search` has the torch twin, which is several times quicker for large batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray

CodeArray = npt.NDArray[np.int64]
Step = tuple[CodeArray, CodeArray]
"""For each of (n, beam) partial codes, the place of the one that it continues, and the codeword that it adds."""

_BUNDLE = 16
"""Costs of which only the least is compared at first."""

_FAR = 2.0**40


def encode_sums(vectors: FloatArray, words: FloatArray, beam: int, sweeps: int) -> CodeArray:
    """(n, D) codes of (n, e) vectors under (D, K, e) codewords whose sums approximate them.

    Centred codewords make a partial sum comparable with the vector: the positions not yet chosen are expected to add
    nothing. The positions of most energy are chosen first, the order that residual codebooks have by themselves.
    """
    means = words.mean(axis=1, keepdims=True)
    centred = words - means
    order = np.argsort(-squared_norms(centred).mean(axis=1), kind="stable")
    codes = _beam_search(vectors - means.sum(axis=(0, 1)), centred[order], beam)
    codes[:, order] = codes.copy()
    return _icm(vectors, words, codes, sweeps)


def _beam_search(vectors: FloatArray, words: FloatArray, beam: int) -> CodeArray:
    """Choose positions first to last, keeping the `beam` best partial codes of every row. Returns (n, D)."""
    rows, size = len(vectors), words.shape[1]
    residual, cost = vectors, np.zeros((rows, 1), dtype=np.float32)  # (n·b, e) and (n, b)
    steps: list[Step] = []
    for choices in words:
        costs = residual @ (-2 * choices.T)  # (n·b, K): one product of matrices, not one for each row
        costs += squared_norms(choices)
        costs += cost.reshape(-1, 1)
        kept = cost.shape[1]
        parent, chosen, cost = smallest_costs(costs.reshape(rows, kept, size), beam)
        residual = residual.take((parent + kept * np.arange(rows)[:, None]).reshape(-1), axis=0)
        residual -= choices.take(chosen.reshape(-1), axis=0)
        steps.append((parent, chosen))
    return traced_codes(steps, cost)


def _icm(vectors: FloatArray, words: FloatArray, codes: CodeArray, sweeps: int) -> CodeArray:
    """Reconsider one position at a time, the others held, until nothing changes; never makes a row worse."""
    residual = vectors.copy()
    for position, choices in enumerate(words):
        residual -= choices.take(codes[:, position], axis=0)
    norms = squared_norms(words)
    for _ in range(sweeps):
        changed = False
        for position, choices in enumerate(words):
            without = residual + choices[codes[:, position]]
            best = (norms[position] - 2 * without @ choices.T).argmin(axis=1)
            changed = changed or bool((best != codes[:, position]).any())
            codes[:, position] = best
            residual = without - choices[best]
        if not changed:
            break
    return codes


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


def within_reach(vectors: npt.NDArray[Any]) -> FloatArray:
    """(n, d) vectors to find codes of, in a unit near the largest codeword; those that are far longer are shortened.

    Which codes are nearest to them depends on their direction alone, and squares of their numbers stay in float32.
    """
    most = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
    return np.asarray(vectors * (_FAR / np.maximum(most, _FAR)), dtype=np.float32)
