"""Compact codes as LightRNN has them: N = K² words, D = 2, every pair (row, column) used by exactly one word.

A word's vector is the sum of a row's and a column's codeword, v = a_r + b_c. Codewords and slots are fitted by turns,
as in LightRNN: the codewords by least squares, the slots by a matching of words and slots of least total cost.

Differs from LightRNN: there the cost of a word in a slot is the language model's loss, here it is the squared distance
‖v − (a_r + b_c)‖² to a given vector, so that codes can be learned from a table as KD codes are. With every slot used
once the sum of ‖v‖² and that of ‖a_r + b_c‖² do not depend on the matching, so least cost is the largest sum of
v·a_r + v·b_c: two (N, K) tables of scores stand for the (N, N) costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from kdcode.learning.row_share import RowShare
from kdcode.learning.starts import BlockSample, residual_codewords

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CANDIDATES = 20
"""Places that a word may be matched to, beside the one it has. 20 gave the exact matching in every case compared."""
_SMOOTHING = 0.05
_PRICE_ROUNDS = 100
_CHUNK_FLOATS = 1 << 23


@dataclass(frozen=True)
class Scores:
    """What a word gains in a slot: `row[i, r] + column[i, c]`.

    Args:
        row: (N, K) products of vectors and row codewords.
        column: (N, K) products of vectors and column codewords.
    """

    row: Floats
    column: Floats

    @classmethod
    def of(cls, vectors: Floats, codewords: Floats) -> Scores:
        """The scores of (N, d) vectors under (2, K, d) codewords."""
        return cls(vectors @ codewords[0].T, vectors @ codewords[1].T)

    @property
    def size(self) -> int:
        """K."""
        return self.row.shape[1]

    def table(self, words: slice | Ints, prices: Floats | float = 0.0) -> Floats:
        """(n, K²): the score of some words in every slot, less the slot's price; slot r·K + c is (r, c)."""
        both = self.row[words][:, :, None] + self.column[words][:, None, :]
        return (both - prices).reshape(len(both), -1)

    def total(self, slots: Ints) -> float:
        """The sum over all words, each in its slot."""
        words = np.arange(len(slots))
        return float((self.row[words, slots // self.size] + self.column[words, slots % self.size]).sum())

    def chunks(self) -> list[slice]:
        """Words in pieces whose tables are of bounded size."""
        count = max(1, _CHUNK_FLOATS // self.size**2)
        return [slice(first, first + count) for first in range(0, len(self.row), count)]


Match = Callable[[Scores, Ints], Ints]
"""From scores and the (N,) slots of now to new slots, each used once."""


def match_dense(scores: Scores, _slots: Ints) -> Ints:
    """The best matching, from all N² scores."""
    return linear_sum_assignment(scores.table(slice(None)), maximize=True)[1].astype(np.int64)


def match_priced(scores: Scores, slots: Ints, candidates: int = CANDIDATES) -> Ints:
    """The best matching among the slots that are best for each word at fair prices, and the one it has.

    Without prices all words want the same few slots. The present slots are among the choices, so a full matching
    always exists and is never worse than the present one.
    """
    return _match_sparse(scores, slots, candidates, fair_prices(scores))


def match_nearest(scores: Scores, slots: Ints, candidates: int = CANDIDATES) -> Ints:
    """As `match_priced`, among the slots of best score: for comparison."""
    return _match_sparse(scores, slots, candidates, np.zeros((scores.size, scores.size)))


def match_lines(scores: Scores, slots: Ints) -> Ints:
    """Words of a row change columns, then words of a column change rows; each step is exact, both together are not."""
    rows, columns = slots // scores.size, slots % scores.size
    columns = _within_lines(scores.column, rows, columns)
    return _within_lines(scores.row, columns, rows) * scores.size + columns


def _within_lines(scores: Floats, lines: Ints, others: Ints) -> Ints:
    moved = others.copy()
    for line in range(scores.shape[1]):
        words = np.flatnonzero(lines == line)
        moved[words] = linear_sum_assignment(scores[words], maximize=True)[1]
    return moved


def fair_prices(scores: Scores) -> Floats:
    """(K, K) prices of mean 0 at which every slot is wanted about once.

    Those of the matching smoothed by entropy, found by Sinkhorn's iteration. A score is a sum of a row's and a
    column's part, so its exponential is a product, and N x K² exponentials are two matrices of N x K.
    """
    scale = _SMOOTHING * float(np.hypot(scores.row.std(), scores.column.std()))
    row = np.exp((scores.row - scores.row.max(axis=1, keepdims=True)) / scale)
    column = np.exp((scores.column - scores.column.max(axis=1, keepdims=True)) / scale)
    smallest = np.finfo(np.float64).tiny
    weights = np.ones((scores.size, scores.size))
    for _ in range(_PRICE_ROUNDS):
        words = 1 / np.maximum(((row @ weights) * column).sum(axis=1), smallest)
        weights = 1 / np.maximum((row * words[:, None]).T @ column, smallest)
        weights /= np.exp(np.log(weights).mean())  # any constant could be added to all prices
    return -scale * np.log(weights)


def best_total(scores: Scores) -> float:
    """A total that no matching can exceed: at any prices, what each word would have in its favourite slot."""
    prices = fair_prices(scores)
    # All prices would be paid once, and their sum is 0.
    return sum(float(scores.table(part, prices).max(axis=1).sum()) for part in scores.chunks())


def _match_sparse(scores: Scores, slots: Ints, candidates: int, prices: Floats) -> Ints:
    candidates = min(candidates, len(slots))
    columns, costs = [], []
    for part in scores.chunks():
        table = scores.table(part, prices)
        present = slots[part, None]
        best = np.argpartition(-table, candidates - 1, axis=1)[:, :candidates]
        # Where the present slot is not among the best it takes the last position, that of the worst of them.
        best = np.where((best == present).any(axis=1, keepdims=True), best, np.hstack([best[:, :-1], present]))
        columns.append(best)
        costs.append(-np.take_along_axis(table, best, axis=1))
    cost = np.concatenate(costs)
    ends = np.arange(len(slots) + 1) * candidates
    # Prices and a constant change the cost of every full matching by the same amount; zeros would not be edges.
    edges = (cost - cost.min() + 1).ravel()
    graph = csr_array((edges, np.concatenate(columns).ravel(), ends), shape=(len(slots), len(slots)))
    return min_weight_full_bipartite_matching(graph)[1].astype(np.int64)


def fit_codewords(vectors: Floats, slots: Ints, size: int) -> Floats:
    """(2, K, d) codewords of least squared error: means of rows, and what means of columns add to the mean of all.

    Rows and columns cross each other evenly when every slot is used once, so both can be solved alone.
    """
    rows, columns = np.zeros((2, size, vectors.shape[1]))
    np.add.at(rows, slots // size, vectors)
    np.add.at(columns, slots % size, vectors)
    return np.stack([rows / size, columns / size - vectors.mean(axis=0)])


def compose(slots: Ints, codewords: Floats) -> Floats:
    """(N, d): the sum of a word's row and column codeword."""
    size = codewords.shape[1]
    return codewords[0, slots // size] + codewords[1, slots % size]


def cost_excess(vectors: Floats, codewords: Floats, total: float, best: float) -> float:
    """By what share the squared error of a matching exceeds that of a better one, given their totals of scores."""
    every_slot = compose(np.arange(len(vectors)), codewords)
    constant = float(np.square(vectors).sum() + np.square(every_slot).sum())
    return (constant - 2 * total) / (constant - 2 * best) - 1


@dataclass(frozen=True)
class CompactCode:
    """Places of N = K² words and their codewords.

    Args:
        slots: (N,), a permutation; slot r·K + c is (r, c).
        codewords: (2, K, d).
        rounds: one record for each turn of matching and fitting.
    """

    slots: Ints
    codewords: Floats
    rounds: list[dict[str, Any]]

    @property
    def codes(self) -> Ints:
        """(N, 2) rows and columns."""
        size = self.codewords.shape[1]
        return np.stack([self.slots // size, self.slots % size], axis=1)


def learn_compact_code(
    vectors: Floats,
    *,
    seed: int,
    start: str = "warm",
    match: Match = match_priced,
    tolerance: float = 1e-4,
    on_round: Callable[[dict[str, Any]], None] = lambda _record: None,
) -> CompactCode:
    """Places and codewords by turns, until the relative error falls by less than `tolerance`.

    Args:
        vectors: (N, d), N a square.
        seed: of the start.
        start: random slots, or codewords of residual k-means ("warm").
        match: how words are matched with slots.
        tolerance: in units of the relative error.
        on_round: called with the record of every round.

    Raises:
        ValueError: N is no square.
        RuntimeError: a matching used a slot twice.
    """
    size = round(len(vectors) ** 0.5)
    if size**2 != len(vectors):
        raise ValueError(f"a compact code of two positions needs a square number of words, got {len(vectors)}")
    slots, codewords = first_guess(vectors, size, seed=seed, start=start)
    variance = float(np.square(vectors - vectors.mean(axis=0)).sum())
    rounds: list[dict[str, Any]] = []
    error = float("inf")
    while True:
        before, started = error, time.process_time()
        slots = match(Scores.of(vectors, codewords), slots)
        check_slots(slots)
        codewords = fit_codewords(vectors, slots, size)
        error = float(np.square(vectors - compose(slots, codewords)).sum()) / variance
        rounds.append({"relative_error": error, "processor_seconds": time.process_time() - started})
        on_round(rounds[-1])
        if before - error < tolerance:
            return CompactCode(slots, codewords, rounds)


def first_guess(vectors: Floats, size: int, *, seed: int, start: str) -> tuple[Ints, Floats]:
    """Random (N,) slots, and (2, K, d) codewords fitted to them, or of residual k-means where the start is warm."""
    slots = np.random.default_rng(seed).permutation(len(vectors))
    if start == "random":
        return slots, fit_codewords(vectors, slots, size)
    rows, random = vectors.astype(np.float32), np.random.default_rng(seed)
    sample = BlockSample.of(rows, None, size, RowShare.whole(len(rows)), random)
    codewords = torch.from_numpy(residual_codewords(sample, 2, size))
    return slots, codewords.double().numpy()


def check_slots(slots: Ints) -> None:
    """Refuse slots that are not each used exactly once."""
    uses = np.bincount(slots, minlength=len(slots))
    if len(uses) != len(slots) or (uses != 1).any():
        raise RuntimeError(f"{int((uses != 1).sum())} slots of a compact code are not used exactly once")
