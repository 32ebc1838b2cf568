"""A transform codec for a size, and the error to expect: all from samples of the rows.

The space and λ are found with a quarter of the sample, the step, the lengths of rows and the tables with all of it.
"""

from __future__ import annotations

import math
import time
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray
from kdcode.codec.transform import Transform, TransformSpec
from kdcode.learning.planned_table import SPARE, PlannedTable
from kdcode.learning.transform.clusters import ClusterSearch
from kdcode.learning.transform.coding import BlocksOfTable
from kdcode.learning.transform.fitting import Fit, Outcome
from kdcode.learning.transform.quantizer import Quantizer
from kdcode.learning.transform.row_lengths import Budget, chosen_classes, row_kinds
from kdcode.learning.transform.sampling import ByDirection, ScaledRows, TableSample, chosen_rows_per_block, table_sample
from kdcode.learning.transform.space import USUAL_CLASSES, FittedSpace, Space, best_space, grid_space
from kdcode.options import CompressOptions
from kdcode.threads import default_threads

STATES = {"fast": 64, "normal": 128, "best": 256}
"""States of the trellis, by effort."""
TRADES = (0.65, 0.5, 0.38, 0.28, 0.21, 0.16)
"""λ in squared steps, what a bit may cost in squared error: the fewer bits a coordinate has, the less."""
_BITS_OF_FIRST_TRADE = (6.0, 3.0, 1.2, 0.7)
"""From how many bits a coordinate on each of them is tried first."""
_WORTH_GOING_ON = 0.002
"""By what share the error has to fall from one λ to the next, for yet another one to be tried."""
_MORE_CLASSES = (8, 32)
"""Numbers of lengths that are tried where rows cannot be made as long as they may be."""
_NEAR_ENOUGH, _TOO_LONG = 0.02, 8.0
"""By what share rows may be shorter than they may be, and how much worse it is if they are longer."""
_MEASURED = 2.0
"""How many times as long as coding the rows of a table it takes to code and to measure them."""


class Trial(NamedTuple):
    """What became of some rows under a codec.

    Args:
        rows: (n, d).
        copies: (n, d) what they are decoded to.
        encoding: seconds for each row, on one thread.
        decoding: the same.
    """

    rows: FloatArray
    copies: FloatArray
    encoding: float
    decoding: float

    @classmethod
    def of(cls, codec: Transform, rows: ScaledRows) -> Trial:
        """Encode rows, and decode them again."""
        vectors, count = rows.vectors, len(rows.vectors)
        codec.encode_blocks(vectors[: codec.spec.rows_per_block])  # prepares the codec
        started = time.perf_counter()
        blocks = BlocksOfTable.blank(codec, vectors, rows.weights)
        blocks.packed[:] = blocks.code(np.arange(len(blocks.packed)))
        encoded = time.perf_counter()
        copies = codec.decoder(blocks.rows).decode(np.arange(count))
        ended = time.perf_counter()
        return cls(vectors, copies, (encoded - started) * default_threads() / count, (ended - encoded) / count)

    @property
    def relative_error(self) -> float:
        """Squared error over variance, with all rows alike."""
        rows = self.rows.astype(np.float64)
        squared, variance = np.square(rows - self.copies).sum(), np.square(rows - rows.mean(axis=0)).sum()
        return min(1.0, float(squared / max(variance, 1e-300)))


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
        is_clustered: whether rows lie in clusters, of which codewords may say more.
        seconds: predicted, on this machine, of all work on the table.
        trial: what became of the sample; not kept in checkpoints.
    """

    codec: Transform
    relative_error: float
    row_bytes: int
    is_full: bool
    enough_bytes: int
    is_clustered: bool
    seconds: float
    trial: Trial | None = None

    def as_values(self) -> dict[str, Any]:
        """The design as JSON values."""
        tensors = {name: b64encode(tensor.tobytes()).decode() for name, tensor in self.codec.stored.items()}
        return {**vars(self), "codec": None, "trial": None, "spec": asdict(self.codec.spec), "tensors": tensors}

    @classmethod
    def of_values(cls, values: dict[str, Any]) -> Design:
        """The design that such values are of."""
        own = {name: value for name, value in values.items() if name not in ("spec", "tensors")}
        spec = TransformSpec(**values["spec"])
        tensors = {
            name: np.frombuffer(b64decode(values["tensors"][name]), dtype=dtype).reshape(shape)
            for name, (dtype, shape) in spec.tensor_layout().items()
        }
        return cls(**{**own, "codec": Transform(spec, tensors)})


class Designer:
    """Makes codecs for one table, of any size; what does not depend on the size is found once.

    Args:
        table: what is to be compressed, or a sample of it.
        rows: of the final table.
        options: effort and seed, and `rows_per_block` where that is not left to the table.
    """

    def __init__(self, table: PlannedTable, rows: int, options: CompressOptions) -> None:
        self.table: PlannedTable = table if options.loss == "squared" else ByDirection(table)
        self.rows, self.options = rows, options
        self._samples: dict[int, TableSample] = {}
        self._searches: dict[int, ClusterSearch] = {}

    def design(self, row_bytes: float, *, spare: float = SPARE, quick: bool = False) -> Design:
        """A codec whose table takes a given number of bytes for each row, everything counted.

        Args:
            row_bytes: of a row.
            spare: the share of the bytes of rows that is not aimed at.
            quick: whether an estimate is enough, from a quarter of the sample.

        Raises:
            OptionError: so few bytes that nothing is left for the rows.
        """
        started = time.monotonic()
        together = self._rows_per_block(row_bytes)
        sample = self._sample(together)
        some = sample.fewer()
        dim = self.table.embedding_dim
        budget = Budget(math.floor(self.rows * row_bytes), self.rows, dim, together, spare)
        first = sum(8 * row_bytes / dim < bits for bits in _BITS_OF_FIRST_TRADE)
        states, search = STATES[self.options.effort], self._searches[together]
        found = best_space(self.table, some, budget, (states, TRADES[first]), search)
        found = grid_space(some, budget, with_best_trade(found, first))
        fit = found.fit
        if not quick and some is not sample:
            fit = found.space.fit(sample, states, found.budget).with_octaves(fit.statistics.octaves)
            some = sample
        scales = None if some.rows.scales is None else some.rows.scales[::together]
        lengths = LengthSearch(fit, found.space, scales, found.budget, found.own_bytes)
        best = lengths.of(found.natural.quantizer)
        codec = lengths.codec(best.outcome)
        shared = (codec.spec.own_bytes, codec.spec.classes)
        error = min(1.0, best.outcome.error / max(some.energy, 1e-300))
        enough = found.budget.enough(*shared)
        left = found.budget.left(*shared) - (found.budget.total - enough)
        trial = Trial.of(codec, some.rows)
        if self.options.loss != "squared":
            error = trial.relative_error
        seconds = time.monotonic() - started + _MEASURED * self.rows * trial.encoding / default_threads()
        return Design(codec, error, left, best.is_full, enough, search.is_clustered, seconds, trial)

    def _rows_per_block(self, row_bytes: float) -> int:
        asked = self.options.rows_per_block
        return min(asked or chosen_rows_per_block(self.table, self.rows, row_bytes, self.options.seed), len(self.table))

    def _sample(self, together: int) -> TableSample:
        if together not in self._samples:
            sample = table_sample(self.table, self.options.seed, together, half=self.rows > len(self.table))
            self._samples[together] = sample
            self._searches[together] = ClusterSearch(self.table, sample, self.rows, self.options.seed)
        return self._samples[together]


def design_codec(
    table: PlannedTable, rows: int, options: CompressOptions, *, spare: float = SPARE, quick: bool = False
) -> Design:
    """A codec for a table of `rows` rows like those of `table`; see `Designer`.

    Raises:
        OptionError: so few bytes that nothing is left for the rows.
    """
    return Designer(table, rows, options).design(float(options.row_bytes or 0), spare=spare, quick=quick)


def with_best_trade(found: FittedSpace, first: int) -> FittedSpace:
    """The same with the best λ, by a walk from the first one on as long as it gets better."""
    bits, fit = found.bits, found.fit
    coarser = fit.with_fewer_contexts(found.natural, found.budget.blocks)
    best = found.natural
    if coarser is not None:
        fit, best = coarser, coarser.natural(bits, TRADES[first])
    for way in (1, -1):
        at = first + way
        while 0 <= at < len(TRADES):
            tried = fit.natural(bits, TRADES[at], best.quantizer)
            if not is_better(tried, best, bits):
                break
            best, at = tried, at + way
        if at != first + way:  # it got better on this way, so that the other one leads down
            break
    return replace(found, fit=fit, natural=best)


def is_better(one: Outcome, other: Outcome, bits: float) -> bool:
    """Whether this outcome is worth another round after the one before, at a number of bits for each block."""
    full, was_full = (abs(outcome.bits - bits) <= _NEAR_ENOUGH * bits for outcome in (one, other))
    if full != was_full:
        return full
    errors = [outcome.cost(bits) if full else outcome.error for outcome in (one, other)]
    return errors[0] < (1 - _WORTH_GOING_ON) * errors[1]


@dataclass(frozen=True)
class SizedRows:
    """What came of rows of a few lengths.

    Args:
        outcome: of the sample.
        away: how far the size of the rows is from what they may take.
    """

    outcome: Outcome
    away: float

    @property
    def is_full(self) -> bool:
        """Whether rows take about as much as they may."""
        return self.away <= _NEAR_ENOUGH


@dataclass(frozen=True, eq=False)
class LengthSearch:
    """The search for the lengths that rows have, and for the tables that go with them.

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

    def of(self, begin: Quantizer) -> SizedRows:
        """What comes of a quantizer for rows of any length."""
        natural = self.fit.natural(self.budget.bits(self.own_bytes, USUAL_CLASSES), begin.trade, begin)
        best, nearest = natural, math.inf
        for classes in (chosen_classes(natural.lengths), *_MORE_CLASSES):
            found = self.fit.with_classes(natural, self.budget.bits(self.own_bytes, classes), classes)
            spec = self.codec(found).spec
            wanted = self.budget.bits(spec.own_bytes, spec.classes)
            found = self.fit.adjusted(found, wanted)
            away = (found.bits / wanted - 1) * (_TOO_LONG if found.bits > wanted else -1)
            if self.fit.grid is not None and found.bits <= wanted:
                away = 0.0  # what is left would be of no use
            if away < nearest:
                best, nearest = found, away
            if nearest <= _NEAR_ENOUGH:
                break
        return SizedRows(best, nearest)

    def codec(self, found: Outcome) -> Transform:
        """The codec that an outcome is of."""
        kinds = row_kinds(found.quantizer.lengths, found.lengths, self.scales)
        quantizer = replace(found.quantizer, centroids=self.space.centroids)
        return quantizer.codec(self.space.rotation, kinds, mean_length=found.bits / 8)
