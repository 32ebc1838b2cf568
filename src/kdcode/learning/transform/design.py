"""design_codec: a transform codec for a table, from a sample of its rows, and what it will come to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from kdcode.arrays import DoubleArray
from kdcode.codec.transform import Transform
from kdcode.learning.planned_table import PlannedTable
from kdcode.learning.transform.beginning import USUAL_CLASSES, Space, best_beginning
from kdcode.learning.transform.block_size import chosen_rows_per_block
from kdcode.learning.transform.budget import Budget
from kdcode.learning.transform.draft import Draft
from kdcode.learning.transform.fitting import Fit, Outcome
from kdcode.learning.transform.row_lengths import chosen_classes, row_kinds
from kdcode.learning.transform.sampling import table_sample
from kdcode.options import CompressOptions

STATES = {"fast": 64, "normal": 128, "best": 256}
"""States of the trellis, by effort."""
_TRADES = (0.65, 0.5, 0.38, 0.28, 0.21, 0.16)
"""λ in squared steps, what a bit may cost in squared error: the fewer bits a coordinate has, the less."""
_BITS_OF_FIRST_TRADE = (6.0, 3.0, 1.2, 0.7)
"""From how many bits a coordinate on each of them is tried first."""
_WORTH_GOING_ON = 0.002
"""By what share the error has to fall from one λ to the next, for yet another one to be tried."""
_MORE_CLASSES = (8, 32)
"""Numbers of lengths that are tried where rows cannot be made as long as they may be."""
_NEAR_ENOUGH, _TOO_LONG = 0.02, 8.0
"""By what share rows may be shorter than they may be, and how much worse it is if they are longer."""


@dataclass(frozen=True)
class Design:
    """A codec, and what is expected of it.

    Args:
        codec: to encode all rows with.
        relative_error: predicted.
        row_bytes: what all rows may take together, without their index.
        is_full: whether they take about as much; the rows of small tables may not.
        enough_bytes: of everything, with which nothing more is gained: fewer than were asked for where most
            coordinates are zero.
    """

    codec: Transform
    relative_error: float
    row_bytes: int
    is_full: bool
    enough_bytes: int


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


@dataclass(frozen=True, eq=False)
class Trials:
    """What comes of different λ.

    Args:
        fit: of the sample.
        space: what rows become: their rotation and their centroids.
        scales: (n,) that the blocks of the sample are multiplied by, or None.
        budget: what blocks may take.
        own_bytes: what the codec is expected to take, before its tables are known.
    """

    fit: Fit
    space: Space
    scales: DoubleArray | None
    budget: Budget
    own_bytes: int

    def of(self, trade: float, before: Draft | None) -> Trial:
        """What comes of a λ, and how far off the size of the rows is."""
        natural = self.fit.natural(self.budget.bits(self.own_bytes, USUAL_CLASSES), trade, before)
        best, nearest = natural, math.inf
        for classes in (chosen_classes(natural.lengths), *_MORE_CLASSES):
            found = self.fit.with_classes(natural, self.budget.bits(self.own_bytes, classes), classes)
            spec = self.codec(found).spec
            wanted = self.budget.bits(spec.own_bytes, spec.classes)
            found = self.fit.adjusted(found, wanted)
            away = (found.bits / wanted - 1) * (_TOO_LONG if found.bits > wanted else -1)
            if away < nearest:
                best, nearest = found, away
            if nearest <= _NEAR_ENOUGH:
                break
        return Trial(best, natural.draft, nearest)

    def codec(self, found: Outcome) -> Transform:
        """The codec that an outcome is of."""
        kinds = row_kinds(found.draft.lengths, found.lengths, self.scales)
        draft = replace(found.draft, centroids=self.space.centroids)
        return draft.codec(self.space.rotation, kinds, mean_length=found.bits / 8)


def design_codec(
    table: PlannedTable, rows: int, options: CompressOptions, *, spare: float = 0.001, quick: bool = False
) -> Design:
    """A codec for a table of `rows` rows like those of `table`.

    Args:
        table: what is to be compressed, or a sample of it.
        rows: of the final table.
        options: of transform codes: their `row_bytes`, effort and seed, and `rows_per_block` where that is not left to
            the table.
        spare: the share of the bytes of rows that is not aimed at: other rows than those of the sample may take more.
        quick: whether an estimate is enough, from fewer rows and with the λ that is likely.

    Raises:
        OptionError: so few bytes that nothing is left for the rows.
    """
    bytes_per_row, seed = float(options.row_bytes or 0), options.seed
    together = options.rows_per_block or chosen_rows_per_block(table, rows, bytes_per_row, seed)
    together = min(together, len(table))
    budget = Budget(math.floor(rows * bytes_per_row), rows, table.embedding_dim, together, spare)
    sample = table_sample(table, seed, together, few=quick, half=rows > len(table))
    first = sum(8 * bytes_per_row / budget.dim < bits for bits in _BITS_OF_FIRST_TRADE)
    begun = best_beginning(table, sample, budget, (STATES[options.effort], _TRADES[first]), seed)
    budget = begun.budget
    coarser = begun.fit.with_fewer_contexts(begun.natural, budget.blocks)
    scales = None if sample.rows.scales is None else sample.rows.scales[::together]
    trials = Trials(coarser or begun.fit, begun.space, scales, budget, begun.own_bytes)
    before = begun.natural.draft if coarser is None else None
    best = trials.of(_TRADES[first], before) if quick else best_trial(trials.of, first, before)
    codec = trials.codec(best.outcome)
    shared = (codec.spec.own_bytes, codec.spec.classes)
    error = min(1.0, best.outcome.error / max(sample.energy, 1e-300))
    return Design(codec, error, budget.left(*shared), best.is_full, budget.enough(*shared))
