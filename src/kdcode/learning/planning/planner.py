"""plan: settings that keep to a size or an error, each with its exact bytes and its predicted error and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kdcode.codec import SizeLimit, Sizes
from kdcode.errors import OptionError
from kdcode.learning.checkpoint import Checkpoint
from kdcode.learning.planning.predictor import Predictor
from kdcode.learning.planning.search_space import (
    FIRST_SIZE,
    LARGER_SIZES,
    MOST_WORK,
    PRODUCT_SIZES,
    SMALLER_SIZES,
    enough_groups,
    other_shapes,
    other_sizes,
    positions_in_sum,
    product_codes,
    short_sums,
    work_of,
)
from kdcode.learning.run import run_identity
from kdcode.option_fields import check_fields, option
from kdcode.options import CompressOptions
from kdcode.table import VectorTable

_FAR_BEHIND = 1.3
"""Times the error of product codes, from which no other size or shape of sums is expected to do better."""
_LONGEST = 512
"""Positions of a code that are ever proposed."""
_LARGEST_RATIO = 512.0
_BISECTIONS = 6

PLANNED = ("codebook_size", "code_length", "composition", "codeword_dim", "groups", "rotation", "codebook_dtype")
"""The options that a plan chooses."""

OnCandidate = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Goal:
    """How small, or how good; exactly one of the three is given.

    Args:
        size: like 20x (times smaller than float32 vectors), 500KB (of the file), or bytes.
        bits: of a code at most, with the scale of its row.
        max_error: the relative squared error not to be exceeded; the smallest table is sought.
    """

    size: str | int | None = None
    bits: int | None = option(None, "Bits of a code at most.", low=1)
    max_error: float | None = option(None, "Relative error not to be exceeded.", low=0, high=1)

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.size, self.bits, self.max_error)) != 1:
            raise OptionError("a plan needs one of size, bits and max_error")
        check_fields(self)

    @property
    def limit(self) -> SizeLimit:
        """The limit that a size or a number of bits sets."""
        return SizeLimit.parse(self.size) if self.size is not None else SizeLimit(bits=self.bits)


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
            **{name: getattr(self.options, name) for name in PLANNED},
            "effort": self.options.effort,
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
    """Find settings for a table that keep to a size, or to an error, from short probes on a sample of its rows.

    Args:
        table: what is to be compressed.
        size: like 20x (times smaller than float32 vectors), 500KB (of the file), or bytes.
        bits: of a code, in place of a size.
        max_error: the relative squared error not to be exceeded, in place of a size; the smallest table is sought.
        options: what the plan leaves alone: effort, seed and the rest.
        on_candidate: called before each probe with how many are done, how many there will be, and its name.
        device: where to probe.

    Raises:
        OptionError: not exactly one of size, bits and max_error, or one that cannot be reached.
    """
    goal = Goal(size, bits, max_error)
    search = _Search(table, options or CompressOptions(), on_candidate, device)
    if goal.max_error is None:
        return Plan(goal.limit, tuple(search.within(goal.limit)))
    return _smallest_within(search, goal.max_error)


def planned_options(
    table: VectorTable,
    options: CompressOptions,
    goal: Goal,
    *,
    checkpoint: Checkpoint | None = None,
    on_candidate: OnCandidate | None = None,
    device: torch.device | str = "cpu",
) -> CompressOptions:
    """The options that a plan recommends; taken from a checkpoint where it has them, and kept in it.

    Raises:
        CheckpointError: the checkpoint belongs to another table, other options or another goal.
    """
    identity = "" if checkpoint is None else run_identity(table, options.as_dict(), vars(goal))
    planned = None if checkpoint is None else checkpoint.load_plan(identity)
    if planned is None:
        found = plan(table, **vars(goal), options=options, on_candidate=on_candidate, device=device)
        planned = {name: getattr(found.recommended.options, name) for name in PLANNED}
        if checkpoint is not None:
            checkpoint.save_plan(identity, planned)
    return options.changed(**planned)


def _smallest_within(search: _Search, max_error: float) -> Plan:
    """Bisect the ratios, on a logarithmic scale, for the largest whose best candidate keeps to the error."""
    found: Plan | None = None
    low, high = 2.0, _LARGEST_RATIO
    for _ in range(_BISECTIONS):
        times = round((low * high) ** 0.5, 1)
        try:
            tried = Plan(SizeLimit(times=times), tuple(search.within(SizeLimit(times=times), quick=True)))
        except OptionError:  # too small for this table
            high = times
            continue
        if tried.recommended.relative_error <= max_error:
            found, low = tried, times
        else:
            high = times
    if found is None:
        raise OptionError(f"max_error {max_error}: no setting that is at least twice as small comes that near")
    return found


class _Search:
    """The search for settings of one table."""

    def __init__(
        self,
        table: VectorTable,
        options: CompressOptions,
        on_candidate: OnCandidate | None,
        device: torch.device | str,
    ) -> None:
        if options.composition == "lstm":
            raise OptionError("a plan chooses the composition among sums of codewords, and leaves 'lstm' out")
        if options.learning.name != "additive":
            raise OptionError(
                f"learner must be additive for a plan, whose predictions are for it, got {options.learning.name!r}"
            )
        self.options = options.changed(**{name: getattr(CompressOptions, name) for name in PLANNED})
        self.table, self.on_candidate = table, on_candidate
        self.may_rotate = len(table) >= table.embedding_dim
        self.predictor = Predictor(table, options.seed, device)

    def within(self, limit: SizeLimit, *, quick: bool = False) -> list[Candidate]:
        """Candidates that keep to a limit, the best first.

        Sums of small codebooks and product codes tell whether sums are worth a look at other shapes and sizes, which
        take the longest. Last come other sizes of the best.
        """
        dim = self.table.embedding_dim
        tried = self._probe(limit, [{"codebook_size": FIRST_SIZE}], [])
        tried = tried or self._probe(limit, [{"codebook_size": size} for size in SMALLER_SIZES], [])
        if not tried:
            raise OptionError(f"size {limit}: too small for this table, even with codes of one bit")
        larger = [{"codebook_size": size} for size in LARGER_SIZES]
        sums = tried[0]
        tried = self._probe(limit, product_codes(PRODUCT_SIZES), tried)
        if quick:
            return self._probe(limit, larger, tried)
        tried = self._probe(limit, short_sums([one.options for one in tried], dim), tried)
        if sums.relative_error < _FAR_BEHIND * tried[0].relative_error:
            tried = self._probe(limit, larger, tried)
            for settings in (other_shapes, other_sizes):
                best_sum = next((one for one in tried if positions_in_sum(one.options) > 1), sums)
                tried = self._probe(limit, settings(best_sum.options, dim), tried)
        return self._probe(limit, other_sizes(tried[0].options, dim), tried)

    def _probe(
        self, limit: SizeLimit, settings: Sequence[dict[str, Any]], tried: Sequence[Candidate]
    ) -> list[Candidate]:
        """Candidates that were tried and those of more settings, the best first."""
        new = [options for options in self._longest(limit, settings) if options not in {one.options for one in tried}]
        of = len(tried) + len(new)
        found = [*tried, *(self._candidate(options, len(tried) + done, of) for done, options in enumerate(new))]
        return sorted(found, key=lambda candidate: candidate.relative_error)

    def _longest(self, limit: SizeLimit, settings: Sequence[dict[str, Any]]) -> Iterator[CompressOptions]:
        """For each setting the options with the longest code that the limit allows, where it allows any."""
        dim = self.table.embedding_dim
        for changes in settings:
            if not self.may_rotate and (changes.get("rotation") or changes.get("codeword_dim")):
                continue  # a basis takes more numbers than the table has
            options = self.options.changed(**{"codebook_dtype": "int8", **changes})
            shortest = options.groups or 1
            low, high = shortest - 1, dim if options.composition == "product" else _LONGEST
            while low < high:
                middle = (low + high + 1) // 2
                fits = self._fits(limit, options.changed(code_length=middle))
                low, high = (middle, high) if fits else (low, middle - 1)
            if low < shortest:
                continue
            longest = options.changed(code_length=low)
            if options.composition == "linear" and work_of(longest) > MOST_WORK:
                yield from self._longest(limit, [enough_groups(longest, dim)])
            elif options.codeword_dim in (None, longest.spec(dim).codeword_dim):
                yield longest  # else the projection is folded into codewords, and this is no other setting

    def _fits(self, limit: SizeLimit, options: CompressOptions) -> bool:
        spec = options.spec(self.table.embedding_dim)
        count = len(self.table)
        return limit.allows(spec.sizes(count, self.table.packed_symbols.nbytes), spec.ratio(count), spec.bits)

    def _candidate(self, options: CompressOptions, done: int, of: int) -> Candidate:
        if self.on_candidate is not None:
            self.on_candidate(done, of, f"K={options.codebook_size}, D={options.code_length}")
        error, seconds = self.predictor.predict(options)
        spec = options.spec(self.table.embedding_dim)
        sizes = spec.sizes(len(self.table), self.table.packed_symbols.nbytes)
        return Candidate(options, sizes, spec.ratio(len(self.table)), min(1.0, error), seconds)
