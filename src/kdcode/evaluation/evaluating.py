"""evaluate: everything that is measured between a table and its copy, in two passes over both and some samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, IntArray
from kdcode.evaluation.correlation import drawn_rows, sampled_pairs, similarity_correlation
from kdcode.evaluation.matching import RowPairs, match_rows
from kdcode.evaluation.measures import NEIGHBORS, PERCENTILES, Evaluation, Measures, Sampling, WorstRow
from kdcode.evaluation.neighbors import NeighborOverlap, sampled_rows
from kdcode.evaluation.parts import WholeTable
from kdcode.evaluation.row_losses import ErrorSums, RowLosses, mean_vector, weights_of_pairs, widened
from kdcode.evaluation.settings import EvaluationOptions
from kdcode.evaluation.word_tests import (
    AnalogyTest,
    SimilarityTest,
    analogy_score,
    read_analogies,
    read_similarity,
    similarity_score,
)
from kdcode.inputs import TableSource, as_rows
from kdcode.io import Progress

_SHARES_OF_PASSES = (1.0, 8.0, 1.0)
"""How long the pass for the mean, that over all rows with their neighbours, and that for similarities take."""
_SHARE_OF_A_TEST = 4.0


def evaluate(
    original: TableSource,
    copy: TableSource,
    weights: npt.ArrayLike | None = None,
    *,
    similarity: Iterable[str | PathLike[str] | SimilarityTest] = (),
    analogies: Iterable[str | PathLike[str] | AnalogyTest] = (),
    options: EvaluationOptions | None = None,
    on_progress: Progress | None = None,
) -> Evaluation:
    """Compare a table with its copy: errors, cosines, nearest neighbours, similarities, tests of word vectors.

        found = kdcode.evaluate(table, coded, similarity=["wordsim353.txt"])
        found.relative_error, found.recall_at_10, found.tests[0].drop

    Rows with the same symbol are compared, in whatever order the two tables have them. Symbols that only one of them
    has are left out, and counted in `match`. Tables without symbols are compared row by row. All rows are measured,
    chunk by chunk; neighbours and similarities are those of a sample, among all rows. Nothing is asked of codes, so any
    way to make a table smaller can be measured; `evaluation.code_use` tells of codes.

    Args:
        original: a VectorTable, a CodedTable, or anything else that `kdcode.as_table` takes: an array, a tensor, an
            `nn.Embedding`, a DataFrame, a dict, the path of a file.
        copy: the same.
        weights: (N,) how much each row of the original counts in `weighted`, such as how often it is used; or "rank"
            for 1, 1/2, 1/3, … in the order of rows, as in tables of words by frequency.
        similarity: files of word pairs with scores, or what `evaluation.word_tests.read_similarity` gives for them.
        analogies: files of analogies, or what `evaluation.word_tests.read_analogies` gives for them.
        options: how much is sampled; `EvaluationOptions(seed=1)`.
        on_progress: called with how much is done, and how much there is to do.

    Raises:
        TableError: vectors of different dimensions, no symbol that both have, or, without symbols, different lengths;
            or a test without words that both have.
        FormatError: the file of a test cannot be read.
    """
    chosen = options or EvaluationOptions()
    similar = [test if isinstance(test, SimilarityTest) else read_similarity(test) for test in similarity]
    questions = [test if isinstance(test, AnalogyTest) else read_analogies(test) for test in analogies]
    pairs = match_rows(as_rows(original), as_rows(copy))
    counts = None if weights is None else weights_of_pairs(weights, pairs, WholeTable(len(pairs)))
    steps = _Steps(on_progress, [*_SHARES_OF_PASSES, *[_SHARE_OF_A_TEST] * len(questions)])
    asked = _Asked.of(pairs, counts, chosen)
    seen = _Pass(pairs, counts, asked, steps)
    measures = [seen.measures(each, _correlation(pairs, each, chosen)) for each in _countings(counts)]
    steps.next()
    scores = [similarity_score(pairs, test) for test in similar]
    for test in questions:
        scores.append(analogy_score(pairs, test, chosen.vocabulary, steps.of_one))
        steps.next()
    return Evaluation(
        **vars(measures[0]),
        match=pairs.match,
        sampling=asked.sampling(_pair_count(pairs, chosen), chosen.seed),
        weighted=measures[1] if counts is not None else None,
        worst=_worst(pairs, seen.losses, chosen.worst),
        tests=tuple(scores),
        rows=seen.losses,
    )


class _Steps:
    """Tells how far all work is, from how far each step is."""

    def __init__(self, on_progress: Progress | None, shares: list[float]) -> None:
        self._on_progress, self._shares, self._step = on_progress, shares, 0

    def of_one(self, done: int, total: int) -> None:
        """Report the progress of the step that is being done."""
        if self._on_progress is not None:
            now = sum(self._shares[: self._step]) + self._shares[self._step] * done / max(total, 1)
            self._on_progress(round(1000 * now), round(1000 * sum(self._shares)))

    def next(self) -> None:
        """Go on to the next step."""
        self.of_one(1, 1)
        self._step += 1


@dataclass(frozen=True)
class _Asked:
    """The rows that are asked for their neighbours, and how often each counts.

    Args:
        rows: (q,) in order.
        alike: (q,) how much each counts where all rows are alike; 0 for those that were drawn by their weights alone.
        by_weight: (q,) how much it counts by weight; None without weights.
    """

    rows: IntArray
    alike: DoubleArray
    by_weight: DoubleArray | None

    @classmethod
    def of(cls, pairs: RowPairs, weights: DoubleArray | None, options: EvaluationOptions) -> _Asked:
        """A sample in which all rows have the same chance and, where there are weights, as many drawn by them."""
        plain = sampled_rows(len(pairs), pairs.embedding_dim, options.queries, options.seed)
        if weights is None or len(plain) == len(pairs):
            return cls(plain, np.ones(len(plain)), weights)
        drawn, times = np.unique(
            drawn_rows(len(pairs), len(plain), np.random.default_rng([options.seed, 1]), weights), return_counts=True
        )
        rows = np.union1d(plain, drawn)
        alike, by_weight = np.zeros(len(rows)), np.zeros(len(rows))
        alike[np.searchsorted(rows, plain)] = 1
        by_weight[np.searchsorted(rows, drawn)] = times
        return cls(rows, alike, by_weight)

    def sampling(self, pairs: int, seed: int) -> Sampling:
        """What is said of it."""
        weighted = None if self.by_weight is None else int((self.by_weight > 0).sum())
        return Sampling(int(self.alike.sum()), pairs, seed, weighted)


class _Pass:
    """One pass over both tables: errors, what each row loses, and neighbours."""

    def __init__(self, pairs: RowPairs, weights: DoubleArray | None, asked: _Asked, steps: _Steps) -> None:
        whole = WholeTable(len(pairs))
        self._asked = asked
        self._sums = [ErrorSums(mean_vector(pairs, counts, whole)) for counts in _countings(weights)]
        steps.next()
        self._neighbors = NeighborOverlap(pairs, whole, asked.rows, max(NEIGHBORS))
        self.losses = RowLosses.room(len(pairs))
        for rows in pairs.slices():
            true_rows, near_rows = pairs.vectors(0, rows), pairs.vectors(1, rows)
            true = widened(true_rows)
            losses = RowLosses.of(true, widened(near_rows))
            for sums, counts in zip(self._sums, _countings(weights), strict=True):
                sums.add(true, losses, None if counts is None else counts[rows])
            self.losses.put(rows, losses)
            self._neighbors.add(rows.start, true_rows, near_rows)
            steps.of_one(rows.stop, len(pairs))
        self._shares = {k: self._neighbors.shares(k) for k in NEIGHBORS}
        steps.next()

    def measures(self, weights: DoubleArray | None, rank_correlation: float) -> Measures:
        """What was measured, with rows counted by (n,) weights or all alike."""
        whole, losses = WholeTable(len(self.losses.cosines)), self.losses
        counted = self._asked.alike if weights is None or self._asked.by_weight is None else self._asked.by_weight
        kept = losses.lengths > 0
        return Measures(
            relative_error=self._sums[0 if weights is None else 1].relative_error(whole),
            mean_cosine=_mean(losses.cosines, weights),
            cosine_percentiles=_percentiles(losses.cosines, weights),
            norm_error=_mean(losses.norm_errors, None if weights is None else weights[kept]),
            **{f"recall_at_{k}": _mean(self._shares[k], counted) for k in NEIGHBORS},
            rank_correlation=rank_correlation,
        )


def _countings(weights: DoubleArray | None) -> list[DoubleArray | None]:
    """The ways in which rows are counted."""
    return [None] if weights is None else [None, weights]


def _mean(values: DoubleArray, weights: DoubleArray | None) -> float:
    """The mean by weight or not; 0 of no values, or where all weights are zero."""
    if weights is None:
        return float(values.mean()) if len(values) else 0.0
    total, most = float(weights.sum()), float(values.max(initial=0))
    return most - float((most - values) @ weights) / total if total else 0.0  # exact where all values are the same


def _percentiles(values: DoubleArray, weights: DoubleArray | None) -> dict[int, float]:
    """The percentiles of values at each of `PERCENTILES`, by rows or by weight."""
    order = np.argsort(values, kind="stable")
    counts = np.ones(len(values)) if weights is None else weights[order]
    sums = np.cumsum(counts)
    places = np.searchsorted(sums, np.array(PERCENTILES) / 100 * sums[-1] * (1 - 1e-12))
    found = values[order[places.clip(max=len(values) - 1)]]
    return dict(zip(PERCENTILES, found.tolist(), strict=True))


def _correlation(pairs: RowPairs, weights: DoubleArray | None, options: EvaluationOptions) -> float:
    random = np.random.default_rng([options.seed, 2 if weights is None else 3])
    return similarity_correlation(pairs, *sampled_pairs(len(pairs), options.pairs, random, weights))


def _pair_count(pairs: RowPairs, options: EvaluationOptions) -> int:
    return min(options.pairs, len(pairs) * (len(pairs) - 1) // 2)


def _worst(pairs: RowPairs, losses: RowLosses, count: int) -> tuple[WorstRow, ...]:
    """The rows with the lowest cosines, of equal ones those that come first."""
    places = np.argsort(losses.cosines.round(10), kind="stable")[:count]
    numbers = places if pairs.original_rows is None else pairs.original_rows[places]
    names = pairs.tables[0].symbols_at(numbers)
    errors = losses.relative_errors
    return tuple(
        WorstRow(
            symbol,
            int(number),
            *(float(values[place]) for values in (losses.cosines, errors, losses.lengths, losses.copy_lengths)),
        )
        for symbol, number, place in zip(names, numbers, places, strict=True)
    )
