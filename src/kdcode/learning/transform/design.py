"""design_codec: a transform codec for a table, from a sample of its rows, and what it will come to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.transform import Transform
from kdcode.codec.transform.row_index import index_bytes
from kdcode.errors import OptionError
from kdcode.learning.planned_table import PlannedTable
from kdcode.learning.transform.fitting import Draft, Fit, Outcome, chosen_classes
from kdcode.learning.transform.level_statistics import LevelStatistics
from kdcode.learning.transform.rotation import chosen_rotation

STATES = {"fast": 8, "normal": 16, "best": 32}
"""States of the trellis, by effort."""
_MOST_NUMBERS = 1 << 26
"""Numbers of the rows that the rotation is found from, at most."""
_SAMPLE_NUMBERS = 1 << 20
_SAMPLE_ROWS = (1024, 8192)
"""Rows that are coded again and again: at least, and at most; in between what makes so many numbers."""
_TABLE_BYTES = 1500
"""What the tables of levels are expected to take, before they are known."""
_TRADES = (0.65, 0.5, 0.38, 0.28, 0.21, 0.16)
"""λ in squared steps, what a bit may cost in squared error: the fewer bits a coordinate has, the less."""
_BITS_OF_FIRST_TRADE = (4.0, 1.8, 1.2, 0.7)
"""From how many bits a coordinate on each of them is tried first."""
_WORTH_GOING_ON = 0.002
"""By what share the error has to fall from one λ to the next, for yet another one to be tried."""
_MORE_CLASSES = (8, 32)
"""Numbers of lengths that are tried where rows cannot be made as long as they may be."""
_NEAR_ENOUGH, _TOO_LONG = 0.02, 8.0
"""By what share rows may be shorter than they may be, and how much worse it is if they are longer."""
_EXTREMES = 32
"""How many of the longest rows are looked at, so that a row may be as long as they need."""
_LEAST_BITS, _MOST_BITS = 1.0, 12
"""Bits of a row at least, and of a coordinate at most: float32 numbers have no more that tell rows apart."""
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Design:
    """A codec, and what is expected of it.

    Args:
        codec: to encode all rows with.
        relative_error: predicted.
        row_bytes: what all rows may take together, without their index.
        is_full: whether they take about as much; the rows of small tables may not.
    """

    codec: Transform
    relative_error: float
    row_bytes: int
    is_full: bool


@dataclass(frozen=True)
class Trial:
    """What came of a λ.

    Args:
        outcome: of the sample.
        natural: the draft of rows of any length that it began with.
        away: how far the size of the rows is from what they may take.
    """

    outcome: Outcome
    natural: Draft
    away: float

    @property
    def is_full(self) -> bool:
        """Whether rows take about as much as they may."""
        return self.away <= _NEAR_ENOUGH

    def is_better_than(self, other: Trial) -> bool:
        """Whether it is worth to go on this way."""
        if self.is_full != other.is_full:
            return self.is_full
        return self.outcome.error < (1 - _WORTH_GOING_ON) * other.outcome.error


def best_trial(tried: Callable[[float, Draft | None], Trial], first: int, before: Draft | None) -> Trial:
    """The best of a walk over the λ, from the first one on as long as it gets better."""
    best = tried(_TRADES[first], before)
    for way in (1, -1):
        at = first + way
        while 0 <= at < len(_TRADES):
            found = tried(_TRADES[at], best.natural)
            if not found.is_better_than(best):
                break
            best, at = found, at + way
        if at != first + way:  # it got better on this way, so that the other one leads down
            break
    return best


def design_codec(
    table: PlannedTable, rows: int, bytes_per_row: float, effort: str, seed: int = 0, *, spare: float = 0.001
) -> Design:
    """A codec for a table of `rows` rows like those of `table`.

    Args:
        table: what is to be compressed, or a sample of it.
        rows: of the final table.
        bytes_per_row: what it may take for each row, everything counted.
        effort: fast, normal or best.
        seed: of the samples.
        spare: the share of the bytes of rows that is not aimed at: other rows than those of the sample may take more.

    Raises:
        OptionError: so few bytes that nothing is left for the rows.
    """
    dim, total = table.embedding_dim, math.floor(rows * bytes_per_row)
    mean, covariance, sample, weights = _moments(table, seed)
    rotation = chosen_rotation(mean, covariance, rows, 8.0 * bytes_per_row)
    extremes = table.vectors_at(np.sort(np.argsort(table.norms)[-_EXTREMES:]))
    statistics = LevelStatistics(share=len(sample) / rows)
    fit = Fit(rotation.rotated(sample), rotation.rotated(extremes), STATES[effort], weights, statistics)

    def bits_for(own_bytes: int, classes: int) -> float:
        left = total - own_bytes - index_bytes(rows, classes)
        if left < _LEAST_BITS * rows / 8:
            raise OptionError(
                f"size: {total:,} bytes leave none for {rows:,} rows of transform codes of {dim} dimensions"
            )
        return float(min((1 - spare) * 8.0 * left / rows, _MOST_BITS * dim))

    own = rotation.nbytes + dim + _TABLE_BYTES

    def tried(trade: float, before: Draft | None) -> Trial:
        """What comes of a λ, and how far off the size of the rows is."""
        natural = fit.natural(bits_for(own, 16), trade, before)
        best, nearest = natural, math.inf
        for classes in (chosen_classes(natural.lengths), *_MORE_CLASSES):
            found = fit.with_classes(natural, bits_for(own, classes), classes)
            wanted = bits_for(found.draft.codec(rotation).spec.own_bytes, len(found.draft.lengths))
            found = fit.adjusted(found, wanted)
            away = (found.bits / wanted - 1) * (_TOO_LONG if found.bits > wanted else -1)
            if away < nearest:
                best, nearest = found, away
            if nearest <= _NEAR_ENOUGH:
                break
        return Trial(best, natural.draft, nearest)

    first = sum(8 * bytes_per_row / dim < bits for bits in _BITS_OF_FIRST_TRADE)
    natural = fit.natural(bits_for(own, 16), _TRADES[first])
    coarser = fit.with_fewer_contexts(natural, rows)
    fit = coarser or fit
    trial = best_trial(tried, first, natural.draft if coarser is None else None)
    found = trial.outcome
    codec = found.draft.codec(rotation, mean_length=found.bits / 8)
    room = total - codec.spec.own_bytes - index_bytes(rows, codec.spec.classes)
    variance = fit.weighted(np.square(sample - mean, dtype=np.float64).sum(axis=1))
    error = found.error / max(variance, 1e-300)
    return Design(codec, min(1.0, error), room, is_full=trial.is_full)


def _moments(table: PlannedTable, seed: int) -> tuple[DoubleArray, DoubleArray, FloatArray, DoubleArray | None]:
    """(d,) mean and (d, d) covariance of many rows, and (n, d) vectors of some with their weights, 1 on average."""
    count, dim = len(table), table.embedding_dim
    drawn = np.random.default_rng(seed).permutation(count)
    few = min(count, max(_SAMPLE_ROWS[0], min(_SAMPLE_ROWS[1], _SAMPLE_NUMBERS // dim)))
    many = min(count, max(few, _MOST_NUMBERS // dim))
    rows = np.sort(drawn[:many])
    vectors = table.vectors_at(rows)
    mean = vectors.mean(axis=0, dtype=np.float64)
    scatter = np.zeros((dim, dim))
    for start in range(0, many, _ROWS_AT_ONCE):
        centred = vectors[start : start + _ROWS_AT_ONCE] - mean
        scatter += centred.T @ centred
    sampled = np.sort(_of_all_lengths(table.norms, few, seed))
    own = None if table.weights is None else table.weights[sampled].astype(np.float64)
    if own is not None:
        own = own / own.mean() if own.any() else None
    return mean, scatter / many, table.vectors_at(sampled), own


def _of_all_lengths(norms: DoubleArray, count: int, seed: int) -> IntArray:
    """(count,) rows with every so-manyth length of the (N,) lengths of all: the bytes of rows follow their length."""
    order = np.argsort(norms, kind="stable")
    places = (np.arange(count) + np.random.default_rng(seed).random()) * (len(norms) / count)
    return np.asarray(order[places.astype(np.int64)])
