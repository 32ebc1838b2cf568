"""What a whole run would come to, from a short probe: a very short run of the additive learner on a sample of rows.

Where a probe ends at error p, a whole run ends near p to a power that depends on the effort and on the length of the
code, hardly on the table. Error grows with the number of rows, since codewords fit many rows less closely than few: a
second probe on half the sample tells how fast. What rounding adds follows from the codewords. `FITTED` has the numbers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from kdcode.codec import CodecSpec
from kdcode.learning.additive.annealing import SCHEDULES, Round, Schedule
from kdcode.learning.additive.learner import AdditiveLearner
from kdcode.learning.planning.search_space import positions_in_sum, work_of
from kdcode.learning.run import Run
from kdcode.learning.starts import random_start, warm_start
from kdcode.learning.training_table import TrainingTable
from kdcode.options import CompressOptions
from kdcode.table import VectorTable


@dataclass(frozen=True)
class Fitted:
    """Constants of the prediction, set by hand when plans were written; the runs behind that were not recorded.

    What is recorded is how they did since: benchmarks/results/equal_bytes.json has the predicted and the reached error
    of 17 runs (GloVe with 50,000 and 100,000 rows of 100 dimensions and MiniLM's 30,522 x 384 token table, 10 to 80
    times smaller, fast and normal effort), which differ by less than 6%. The effort `best` is in none of them.

    Args:
        power: by effort, the power of a probe's error for long sums, and what each position of the sum takes off it;
            an error of 0.3 becomes 0.23 with eight positions and normal effort.
        few_positions: what one position takes off the power, two half of it, and so on: there is less to search.
        per_e_fold: what is added to the power for each factor e that the probe's error is below `small_error`.
        small_error: see `per_e_fold`.
        least_power: the power is never less for long sums.
        rotated_power: of short sums with a rotation that has time to be learned; without one a probe has it all.
        saturation: how many times e the rows may grow before error hardly grows with them.
    """

    power: dict[str, tuple[float, float]]
    few_positions: float
    per_e_fold: float
    small_error: float
    least_power: float
    rotated_power: float
    saturation: float


FITTED = Fitted(
    power={"fast": (1.15, 0.003), "normal": (1.26, 0.0018), "best": (1.30, 0.0015)},
    few_positions=0.16,
    per_e_fold=0.045,
    small_error=0.2,
    least_power=1.05,
    rotated_power=1.02,
    saturation=2.0,
)

_SAMPLE_ROWS = {"fast": 15_000, "normal": 30_000, "best": 30_000}
_SAMPLE_WORK = 1 << 31
"""Additions of a visit to all positions of the sample; fewer rows are probed where each takes more."""
_FEWEST_ROWS = 4000
_PROBE = Schedule(rounds=4)
_SHORT_PROBE = Schedule(warm=2)
"""From k-means, which is nearly all there is to learn where few positions are added, or none."""
_SHORT_SUM = 3


class Prediction(NamedTuple):
    """What a whole run on all rows is expected to come to."""

    relative_error: float
    seconds: float


class Predictor:
    """Predicts errors and times of settings for one table; each is probed once.

    Args:
        table: what is to be compressed.
        seed: of the sample.
        device: where to probe.
    """

    def __init__(self, table: VectorTable, seed: int, device: torch.device | str) -> None:
        self.table = table
        self.device = device
        self.order = np.random.default_rng(seed).permutation(len(table))
        self._known: dict[CompressOptions, Prediction] = {}

    def predict(self, options: CompressOptions) -> Prediction:
        """The error and the time of a run with these options."""
        if options not in self._known:
            self._known[options] = self._predict(options)
        return self._known[options]

    def _predict(self, options: CompressOptions) -> Prediction:
        effort = options.effort
        rows = min(_SAMPLE_ROWS[effort], max(_FEWEST_ROWS, _SAMPLE_WORK // work_of(options)), len(self.table))
        started = time.monotonic()
        error, rounding = self._probe(self.order[:rows], options)
        seconds = time.monotonic() - started
        if rows < len(self.table):
            smaller, _ = self._probe(self.order[: rows // 2], options)
            error = _grown(options, smaller, error, len(self.table) / rows)
        error = min(1.0, error) ** _power(options, error)
        spec = options.spec(self.table.embedding_dim)
        times = _work_in(SCHEDULES[effort].plan(spec)) / _work_in(_schedule(options).plan(spec))
        return Prediction(error + rounding, seconds * times * len(self.table) / rows)

    def _probe(self, rows: np.ndarray[Any, Any], options: CompressOptions) -> tuple[float, float]:
        """The error on some rows, and what rounding the codewords would add to it."""
        rows = np.sort(rows)
        weights = None if self.table.weights is None else self.table.weights[rows]
        training = TrainingTable.of(VectorTable(None, self.table.matrix[rows], weights), options, self.device)
        spec = options.spec(self.table.embedding_dim)
        make_start = warm_start if _is_short(options) else random_start
        start = make_start(training, spec, options.seed)
        learner = AdditiveLearner(training, start, _schedule(options), options.seed)
        error = learner.run(Run(0)).error
        return error, _rounding_error(learner, training, spec)


def _is_short(options: CompressOptions) -> bool:
    return positions_in_sum(options) <= _SHORT_SUM


def _schedule(options: CompressOptions) -> Schedule:
    return _SHORT_PROBE if _is_short(options) else _PROBE


def _rounding_error(learner: AdditiveLearner, training: TrainingTable, spec: CodecSpec) -> float:
    """What int8 adds to the relative error: a twelfth of a squared step in every coordinate, by position."""
    if spec.codebook_dtype != "int8":
        return 0.0
    steps = learner.module.codebook.detach().abs().amax(dim=(1, 2)) / 127
    return training.relative(float(steps.square().sum()) / 12 * spec.codeword_dim * len(training))


def _grown(options: CompressOptions, half: float, whole: float, times: float) -> float:
    """The error on several times the rows of a sample, from that on half of it and on the whole of it.

    k-means fits its rows more closely by a share that falls as 1/N, and short sums are like it; long ones take longer.
    """
    if not 0 < half < whole:
        return whole
    if _is_short(options):
        return whole + (whole - half) * (1 - 1 / times)
    further = math.log(times) / FITTED.saturation
    return float(whole * math.exp(math.log(whole / half, 2) * FITTED.saturation * -math.expm1(-further)))


def _power(options: CompressOptions, error: float) -> float:
    """The power of a probe's error that a whole run ends near."""
    if _is_short(options):
        return FITTED.rotated_power if options.rotation and options.effort != "fast" else 1.0
    in_sum = positions_in_sum(options)
    power, per_position = FITTED.power[options.effort]
    power -= per_position * in_sum + FITTED.few_positions / in_sum
    smaller = max(0.0, math.log(FITTED.small_error / max(error, 1e-12)))
    return max(FITTED.least_power, power + FITTED.per_e_fold * smaller)


def _work_in(rounds: Sequence[Round]) -> int:
    """How much is done in rounds: a codebook update takes about as long as two sweeps, and so does a beam of four."""
    return sum(len(planned.temperatures) + 2 + planned.beam // 2 for planned in rounds)
