"""Which K, D and number format for a size: a glimpse of each candidate on a sample, and what it will come to.

Bytes are exact. A glimpse is a very short run of the additive learner on rows of the table. Where it ends at error g,
a whole run ends near g to a power that depends on the effort and on the length of the code, hardly on the table
(`_POWER`). Error grows with the number of rows, since codewords fit many rows less closely than few: a second glimpse
on half the sample tells how fast. What rounding adds follows from the codewords.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from kdcode.budget import SizeLimit, Sizes
from kdcode.errors import OptionError
from kdcode.learning.additive import EFFORTS, AdditiveLearner, Effort, Round
from kdcode.learning.candidates import (
    FIRST_SIZE,
    LARGER_SIZES,
    MOST_WORK,
    PRODUCT_SIZES,
    SMALLER_SIZES,
    grouped_enough,
    other_shapes,
    other_sizes,
    positions_in_sum,
    short_sums,
    without_sums,
    work_of,
)
from kdcode.learning.lengths import learned_from
from kdcode.learning.run import Run
from kdcode.learning.starts import random_start, warm_start
from kdcode.learning.target import Target, can_shift
from kdcode.options import CompressOptions
from kdcode.symbols import StoredSymbols
from kdcode.table import RowNumbers, VectorTable

_SAMPLE_ROWS = {"fast": 15_000, "normal": 30_000, "best": 30_000}
_SAMPLE_WORK = 1 << 31
"""Additions of a visit to all positions of the sample; fewer rows are looked at where each takes more."""
_FEWEST_ROWS = 4000
_GLIMPSE = Effort(cooling=4)
_SHORT_GLIMPSE = Effort(warm=2)
"""From k-means, which is nearly all there is to learn where few positions are added, or none."""
_SHORT_SUM = 3
_POWER = {"fast": (1.15, 0.003), "normal": (1.26, 0.0018), "best": (1.30, 0.0015)}
"""The power and how much lower it is for each position of a sum; 0.3 becomes 0.23 with eight and normal effort."""
_HIGHER, _SMALL_ERROR = 0.045, 0.2
"""How much higher the power is for each time that the glimpse's error is e times smaller than a small one."""
_FEW_POSITIONS = 0.16
"""How much lower the power is with one position, by half of that with two, and so on: there is less to search."""
_LEAST_POWER = 1.05
_TURNED_POWER = 1.02
"""The power of short sums whose rotation has time to turn; without one, a glimpse has it all."""
_SATURATION = 2.0
"""How many times e the rows may grow before error hardly grows with them."""
_FAR_BEHIND = 1.3
"""Times the error of codes without sums, from which no other size or shape of sums is expected to do better."""
_LONGEST = 512
"""Positions of a code that are ever proposed."""

PLANNED = (
    "codebook_size",
    "code_length",
    "composition",
    "codeword_dim",
    "groups",
    "rotation",
    "shared_codebook",
    "numbers",
)
"""The options that a plan chooses."""

OnCandidate = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Candidate:
    """A setting that is small enough.

    Args:
        options: to compress with.
        sizes: the bytes of each part, exactly.
        ratio: how many times smaller than float32 vectors, symbols left out.
        relative_error: predicted.
        seconds: predicted, on this machine.
    """

    options: CompressOptions
    sizes: Sizes
    ratio: float
    relative_error: float
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Flat JSON values."""
        return {
            **{name: getattr(self.options, name) for name in (*PLANNED, "effort")},
            **self.sizes.as_dict(),
            "ratio_embedding": round(self.ratio, 2),
            "relative_error": round(self.relative_error, 4),
            "seconds": round(self.seconds, 1),
        }


@dataclass(frozen=True)
class Plan:
    """Candidates with the lowest predicted error first; the first one is recommended."""

    limit: SizeLimit
    candidates: tuple[Candidate, ...]

    @property
    def recommended(self) -> Candidate:
        """The candidate with the lowest predicted error."""
        return self.candidates[0]


def plan(
    table: VectorTable,
    size: str | int | None = None,
    *,
    bits: int | None = None,
    max_error: float | None = None,
    options: CompressOptions | None = None,
    on_candidate: OnCandidate | None = None,
    device: torch.device | str = "cpu",
) -> Plan:
    """Find settings for a table that keep to a size, or to an error, from a quick look at a sample of its rows.

    Args:
        table: what is to be compressed.
        size: like 20x (times smaller than float32 vectors), 500KB (of the file), or bytes.
        bits: of a code, in place of a size.
        max_error: the relative squared error not to be passed, in place of a size; the smallest table is sought.
        options: what the plan leaves alone: effort, seed and the rest.
        on_candidate: called before each glimpse with how many are done, how many there will be, and its name.
        device: where to look.

    Raises:
        OptionError: not exactly one of size, bits and max_error, or one that cannot be reached.
    """
    if sum(given is not None for given in (size, bits, max_error)) != 1:
        raise OptionError("a plan needs one of size, bits and max_error")
    glimpses = _Glimpses(table, options or CompressOptions(), on_candidate, device)
    if max_error is not None:
        return _smallest_within(glimpses, max_error)
    limit = SizeLimit.parse(size) if size is not None else SizeLimit.of_bits(bits or 0)
    return Plan(limit, tuple(glimpses.within(limit)))


def _smallest_within(glimpses: _Glimpses, max_error: float) -> Plan:
    """Halve the range of ratios in which the best candidate passes the error."""
    if not 0 < max_error < 1:
        raise OptionError(f"max_error must be between 0 and 1, got {max_error}")
    found: Plan | None = None
    low, high = 2.0, 512.0
    for _ in range(5):
        times = round((low * high) ** 0.5, 1)
        try:
            tried = Plan(SizeLimit(times=times), tuple(glimpses.within(SizeLimit(times=times), quick=True)))
        except OptionError:
            high = times
            continue
        if tried.recommended.relative_error <= max_error:
            found, low = tried, times
        else:
            high = times
    if found is None:
        raise OptionError(f"max_error {max_error}: no setting that is at least twice as small comes that near")
    return found


class _Glimpses:
    """Short runs on a sample, each done once."""

    def __init__(
        self,
        table: VectorTable,
        options: CompressOptions,
        on_candidate: OnCandidate | None,
        device: torch.device | str,
    ) -> None:
        if options.composition == "lstm":
            raise OptionError("a plan chooses the composition among those that add codewords, and leaves 'lstm' out")
        if options.learner not in (None, "additive"):
            raise OptionError(
                f"learner must be additive for a plan, whose predictions are for it, got {options.learner!r}"
            )
        options = options.changed(**{name: getattr(CompressOptions, name) for name in PLANNED})
        self.table, self.options, self.on_candidate, self.device = table, options, on_candidate, device
        self.source = learned_from(table, options)
        no_symbols = isinstance(table.symbols, RowNumbers)
        self.symbol_bytes = 0 if no_symbols else StoredSymbols.build(table.symbols).nbytes
        draw = np.random.default_rng(options.seed)
        self.order = draw.permutation(len(table))
        self.seen: dict[CompressOptions, tuple[float, float]] = {}

    def within(self, limit: SizeLimit, *, quick: bool = False) -> list[Candidate]:
        """Candidates that keep to a limit, the best first.

        Sums of small codebooks and codes without sums tell whether sums are worth a look at other shapes and sizes,
        which take the longest. Last come other sizes of the best.
        """
        dim = self.table.embedding_dim
        tried = self._look_at(limit, [{"codebook_size": FIRST_SIZE}], [])
        tried = tried or self._look_at(limit, [{"codebook_size": size} for size in SMALLER_SIZES], [])
        if not tried:
            raise OptionError(f"size {limit}: too small for this table, even with codes of one bit")
        larger = [{"codebook_size": size} for size in LARGER_SIZES]
        if quick:
            return self._look_at(limit, larger, tried)
        sums = tried[0]
        tried = self._look_at(limit, without_sums(PRODUCT_SIZES), tried)
        tried = self._look_at(limit, short_sums([one.options for one in tried], dim), tried)
        if sums.relative_error < _FAR_BEHIND * tried[0].relative_error:
            tried = self._look_at(limit, larger, tried)
            for settings in (other_shapes, other_sizes):
                best_sum = next((one for one in tried if positions_in_sum(one.options) > 1), sums)
                tried = self._look_at(limit, settings(best_sum.options, dim), tried)
        return self._look_at(limit, other_sizes(tried[0].options, dim), tried)

    def _look_at(
        self, limit: SizeLimit, settings: Sequence[dict[str, Any]], tried: Sequence[Candidate]
    ) -> list[Candidate]:
        """Candidates that were tried and those of more settings, the best first."""
        new = [options for options in self._longest(limit, settings) if options not in {one.options for one in tried}]
        of = len(tried) + len(new)
        found = [*tried, *(self._candidate(options, len(tried) + done, of) for done, options in enumerate(new))]
        return sorted(found, key=lambda candidate: candidate.relative_error)

    def _longest(self, limit: SizeLimit, settings: Sequence[dict[str, Any]]) -> Iterator[CompressOptions]:
        """For each setting the options with the longest code that the limit allows, where it allows any."""
        for changes in settings:
            options = self.options.changed(numbers="int8").changed(**changes)
            shortest = options.groups or 1
            low, high = shortest - 1, self.table.embedding_dim if options.composition == "product" else _LONGEST
            while low < high:
                middle = (low + high + 1) // 2
                shape = options.changed(code_length=middle).code_shape(len(self.table), self.table.embedding_dim)
                low, high = (middle, high) if limit.allows(shape, self.symbol_bytes) else (low, middle - 1)
            if low < shortest:
                continue
            longest = options.changed(code_length=low)
            if options.composition == "linear" and work_of(longest) > MOST_WORK:
                yield from self._longest(limit, [grouped_enough(longest, self.table.embedding_dim)])
                continue
            width = longest.code_shape(len(self.table), self.table.embedding_dim).codeword_dim
            if options.codeword_dim in (None, width):  # else H is folded into codewords, and this is no other setting
                yield longest

    def _candidate(self, options: CompressOptions, done: int, of: int) -> Candidate:
        if self.on_candidate is not None:
            self.on_candidate(done, of, f"K={options.codebook_size}, D={options.code_length}")
        if options not in self.seen:
            self.seen[options] = self._look(options)
        error, seconds = self.seen[options]
        shape = options.code_shape(len(self.table), self.table.embedding_dim)
        sizes = shape.sizes(self.symbol_bytes)
        ratio = sizes.ratio(len(self.table), self.table.embedding_dim)
        return Candidate(options, sizes, ratio, min(1.0, error), seconds)

    def _look(self, options: CompressOptions) -> tuple[float, float]:
        """What a whole run on all rows would come to: error and seconds."""
        work = work_of(options)
        count = min(_SAMPLE_ROWS[options.effort], max(_FEWEST_ROWS, _SAMPLE_WORK // work), len(self.table))
        started = time.monotonic()
        error, rounding = self._glimpse(self.order[:count], options)
        seconds = time.monotonic() - started
        if count < len(self.table):
            smaller, _ = self._glimpse(self.order[: count // 2], options)
            error = _grown(options, smaller, error, len(self.table) / count)
        error = min(1.0, error) ** _power(options, error)
        glimpse = _SHORT_GLIMPSE if positions_in_sum(options) <= _SHORT_SUM else _GLIMPSE
        shape = options.code_shape(len(self.table), self.table.embedding_dim)
        times = _work_in(EFFORTS[options.effort].rounds(shape)) / _work_in(glimpse.rounds(shape))
        return error + rounding, seconds * times * len(self.table) / count

    def _glimpse(self, rows: np.ndarray[Any, Any], options: CompressOptions) -> tuple[float, float]:
        """The error on some rows, and what rounding the codewords would add to it."""
        rows = np.sort(rows)
        weights = None if self.source.weights is None else self.source.weights[rows]
        sample = VectorTable(None, self.source.matrix[rows], weights)
        shape = replace(options.code_shape(len(self.table), self.table.embedding_dim), num_embeddings=len(rows))
        target = Target.of(sample, centred=can_shift(shape), device=self.device)
        short = positions_in_sum(options) <= _SHORT_SUM
        start = (warm_start if short else random_start)(target, shape, options.seed)
        learner = AdditiveLearner(target, start, options, _SHORT_GLIMPSE if short else _GLIMPSE)
        error = learner.run(Run(0)).error
        if options.numbers != "int8":
            return error, 0.0
        steps = learner.composition.codebook.detach().abs().amax(dim=(1, 2)) / 127
        noise = float(steps.square().sum()) / 12 * shape.codeword_dim * len(rows)
        return error, noise / target.variance if target.variance else 0.0


def _grown(options: CompressOptions, half: float, whole: float, times: float) -> float:
    """The error on several times the rows of a sample, from that on half of it and on the whole of it.

    k-means fits its rows more closely by a share that falls as 1/N, and short sums are like it; long ones take longer.
    """
    if not 0 < half < whole:
        return whole
    if positions_in_sum(options) <= _SHORT_SUM:
        return whole + (whole - half) * (1 - 1 / times)
    further = math.log(times) / _SATURATION
    return float(whole * math.exp(math.log(whole / half, 2) * _SATURATION * -math.expm1(-further)))


def _work_in(rounds: Sequence[Round]) -> int:
    """How much is done in rounds: a solve takes about as long as two sweeps, and so does a beam of four."""
    return sum(len(planned.temperatures) + 2 + planned.beam // 2 for planned in rounds)


def _power(options: CompressOptions, glimpse: float) -> float:
    """Of what error a glimpse ended with, the power that a whole run ends near."""
    in_sum = positions_in_sum(options)
    if in_sum <= _SHORT_SUM:
        return _TURNED_POWER if options.rotation and options.effort != "fast" else 1.0
    power, less = _POWER[options.effort]
    power -= less * in_sum + _FEW_POSITIONS / in_sum
    return max(_LEAST_POWER, power + _HIGHER * max(0.0, math.log(_SMALL_ERROR / max(glimpse, 1e-12))))
