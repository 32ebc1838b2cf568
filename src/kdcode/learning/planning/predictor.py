"""What a whole run would come to, from a short probe on a sample of the rows.

Codewords fit n rows that they were learned from more closely than a whole table of N rows: by a factor whose logarithm
falls as 1/n. Rows that were not learned from tell it: the logarithm of (error of unseen rows / error of seen rows),
times a share that hardly depends on the table, is what is missing at N = ∞. `FITTED` has the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kdcode.codec import CodewordSpec
from kdcode.learning.planned_table import PlannedTable
from kdcode.options import CompressOptions

if TYPE_CHECKING:
    from kdcode.learning.planning.block_probe import Probed, Sample


@dataclass(frozen=True)
class Fitted:
    """Constants of the prediction, set by hand from some forty whole runs that benchmarks/LOG.md sums up.

    Those runs were not kept. What is kept is how the constants did since: benchmarks/results/plans.json has predicted
    and reached errors of 12 runs. `best` rests on three runs, and sums in groups on three settings.

    Args:
        share: of the gap between the errors of unseen and of seen rows that is missing in the latter: for a sum of few
            positions, and what is added for each factor e of positions.
        product_share, grouped_share: the same for codes without sums, and for sums in groups.
        power: by effort, the power of the error of a fast run of sums that a longer run ends near.
        grouped_power: the same for sums in groups.
        rotated: by effort, the factor by which learning a rotation lowers the error of principal directions.
        unseen_sums: by effort, the factor by which a codebook of sums that is learned for unseen rows lowers their
            error after a fast run; from four runs on 20,000 rows of GloVe (benchmarks/LOG.md).
    """

    share: tuple[float, float]
    product_share: float
    grouped_share: float
    power: dict[str, float]
    grouped_power: dict[str, float]
    rotated: dict[str, float]
    unseen_sums: dict[str, float]


FITTED = Fitted(
    share=(0.5, 0.08),
    product_share=0.5,
    grouped_share=0.8,
    power={"fast": 1.0, "normal": 1.09, "best": 1.14},
    grouped_power={"fast": 1.0, "normal": 1.03, "best": 1.05},
    rotated={"fast": 0.98, "normal": 0.96, "best": 0.95},
    unseen_sums={"fast": 0.93, "normal": 0.9, "best": 0.89},
)

_FEWEST_ROWS, _PRODUCT_ROWS, _MOST_PRODUCT_ROWS = 1500, 8192, 16_384
_FEW_PER_CODEWORD, _MANY_PER_CODEWORD, _ROWS_PER_CENTROID = 4, 8, 16
"""Rows of a probe: for each codeword of a sum, few where it is to be quick, and for each of a code without sums."""
_LEFT_TO_TEST = 20
"""One of so many rows is left to test with, where the table has too few for samples of both kinds."""
_MOST_WORK = 1 << 27
"""Additions of a sweep of a probe over all its rows from which it has few rows."""
_ALL_ROWS_PER_CENTROID = 256
"""Rows per centroid that k-means looks at."""
_PRODUCT_TIMES = 1.75
"""How many times as long as k-means of a probe a fast run of a code without sums takes, row for row."""


class Prediction(NamedTuple):
    """What a whole run on all rows is expected to come to, and rows that are in none.

    Args:
        relative_error: of a run of `compress`.
        unseen_error: of rows that are not in the table, with the codec that `learn_codebook` learns from it.
        seconds: of a run of `compress`.
    """

    relative_error: float
    unseen_error: float
    seconds: float


class Predictor:
    """Predicts errors and times of settings for one table; each is probed once.

    Args:
        table: what is to be compressed.
        known: predictions from before, by name.
        on_new: called with all predictions by name after each new one.
    """

    def __init__(
        self,
        table: PlannedTable,
        known: dict[str, list[float]] | None = None,
        on_new: Callable[[dict[str, list[float]]], None] | None = None,
    ) -> None:
        self.table = table
        self._known = dict(known or {})
        self._on_new = on_new
        self._samples: dict[int, Sample] = {}

    def predict(self, options: CompressOptions) -> Prediction:
        """The error and the time of a run with these options."""
        name = repr(options)
        if name not in self._known:
            self._remember(name, list(self._predict(options)))
        return Prediction(*self._known[name])

    def _remember(self, name: str, numbers: list[float]) -> None:
        self._known[name] = numbers
        if self._on_new is not None:
            self._on_new(self._known)

    def _predict(self, options: CompressOptions) -> Prediction:
        from kdcode.learning.additive.annealing import SCHEDULES  # here, since plans of transform codes probe nothing
        from kdcode.learning.planning.block_probe import probe

        spec = options.spec(self.table.embedding_dim)
        sample = self._sample(probe_rows(spec, len(self.table), options.effort), options)
        found = probe(sample, spec, SCHEDULES["fast"], options.seed)
        error = predicted_error(found, spec, sample.share, options.effort)
        unseen = predicted_unseen_error(found, spec, sample.share, options.effort)
        return Prediction(error, unseen, _seconds(found, spec, sample, options.effort))

    def _sample(self, rows: int, options: CompressOptions) -> Sample:
        from kdcode.learning.planning.block_probe import Sample

        if rows not in self._samples:
            self._samples[rows] = Sample.of(self.table, rows, options)
        return self._samples[rows]


def probe_rows(spec: CodewordSpec, num_embeddings: int, effort: str) -> int:
    """Rows of a probe: enough that no codeword is made of a few rows; some are left to test with."""
    most = max(1, num_embeddings - max(1, num_embeddings // _LEFT_TO_TEST))
    if spec.code_length == spec.groups:  # of two sizes, so that samples are shared
        few = _ROWS_PER_CENTROID * spec.codebook_size <= _PRODUCT_ROWS
        return min(most, _PRODUCT_ROWS if few else _MOST_PRODUCT_ROWS)
    in_sum = -(-spec.code_length // spec.groups)
    codewords = spec.codebook_size * in_sum
    rows = _MANY_PER_CODEWORD * codewords
    if effort == "fast" or rows * in_sum * codewords > _MOST_WORK:
        rows = _FEW_PER_CODEWORD * codewords
    return min(most, max(_FEWEST_ROWS, rows))


def predicted_error(found: Probed, spec: CodewordSpec, share_of_rows: float, effort: str) -> float:
    """The relative error of a whole run, from a probe on a share of the rows."""
    error, in_sum = found.seen, spec.code_length / spec.groups
    if found.unseen is not None and 0 < found.seen < found.unseen:
        error *= math.exp(_share(spec) * math.log(found.unseen / found.seen) * (1 - share_of_rows))
    if in_sum > 1:
        error = float(min(1.0, error)) ** (FITTED.power if spec.groups == 1 else FITTED.grouped_power)[effort]
    if spec.is_rotated:
        error *= FITTED.rotated[effort]
    return float(min(1.0, error + found.rounding))


def predicted_unseen_error(found: Probed, spec: CodewordSpec, share_of_rows: float, effort: str) -> float:
    """The relative error of rows that are not in the table, with codewords that are learned for such rows.

    What the error of unseen rows is above that of infinitely many rows falls as 1/n, like what the error of seen rows
    is below it.
    """
    if not found.seen or found.unseen is None:
        return float(min(1.0, found.seen + found.rounding))
    gap = max(0.0, math.log(found.unseen / found.seen)) if found.unseen else 0.0
    of_all = _share(spec) + (1 - _share(spec)) * share_of_rows
    error = float(min(1.0, found.seen * math.exp(of_all * gap)))
    if spec.code_length > spec.groups:
        error *= FITTED.unseen_sums[effort]
    if spec.is_rotated:
        error *= FITTED.rotated[effort]
    return float(min(1.0, error + found.rounding))


def _share(spec: CodewordSpec) -> float:
    """The share of the gap between unseen and seen rows that is missing in the error of seen ones."""
    if spec.code_length == spec.groups:
        return FITTED.product_share
    if spec.groups > 1:
        return FITTED.grouped_share
    few, per_e_fold = FITTED.share
    return min(1.0, few + per_e_fold * math.log(spec.code_length))


def _seconds(found: Probed, spec: CodewordSpec, sample: Sample, effort: str) -> float:
    """How long a whole run takes: k-means looks at so many rows and no more, rounds at all of them."""
    from kdcode.learning.additive.annealing import SCHEDULES

    rows = len(sample.training)
    most = _ALL_ROWS_PER_CENTROID * spec.codebook_size
    start = found.start_seconds * min(most, rows / sample.share) / min(most, rows)
    whole, fast = (sum(planned.work for planned in SCHEDULES[name].plan(spec)) for name in (effort, "fast"))
    rounds = found.round_seconds * whole / fast / sample.share
    return start + (_PRODUCT_TIMES if spec.code_length == spec.groups else 1) * rounds
