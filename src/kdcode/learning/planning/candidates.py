"""The search for settings that keep to a limit: from a likely codebook size to larger and smaller ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from kdcode.codec import CodecSpec, SizeLimit, Sizes
from kdcode.codec.spec import TRANSFORM
from kdcode.errors import MissingExtraError, OptionError
from kdcode.learning.planned_table import FinalTable, PlannedTable
from kdcode.learning.planning.predictor import Predictor
from kdcode.learning.planning.search_space import (
    PRODUCT_SHARE,
    SUM_SHARE,
    begin_with,
    enough_groups,
    fuller_codes,
    longest_codes,
    product_ladder,
    rotation_is_cheap,
    sum_ladder,
    work_of,
)
from kdcode.learning.progress import OnCandidate
from kdcode.learning.transform.design import Design, Designer
from kdcode.options import CompressOptions

PLANNED = (
    *("codebook_size", "code_length", "composition", "codeword_dim", "groups", "rotation", "codebook_dtype"),
    "row_bytes",
)
"""The options that a plan chooses."""

_PROBES = {"fast": (4, 3), "normal": (5, 3), "best": (6, 5)}
"""By effort, how many codes without sums, and how many sums, are probed at most."""
_QUICK_PROBES = (2, 1)
_NO_NEED_OF_CODEWORDS = 0.15
"""The error of transform codes up to which codewords are not needed, unless rows lie in clusters: there they have
always been far behind."""
_SHORT_ROWS = 8
"""Bytes of rows below which codewords are always tried: rows of transform codes are of whole bytes."""
_NO_NEED_OF_PRODUCTS = 0.5
"""The error of transform codes up to which codes without sums are not tried: only sums may still be better."""
_FAR_BEHIND = 1.25
"""Times the error of codes without sums from which no other sums are expected to do better."""
_MOST_WORK = {"fast": 1 << 14, "normal": 1 << 22, "best": 1 << 22}
"""By effort, additions of a sweep over a row from which sums take so long that codes without sums do better."""
_MOST_CODEWORDS = {"fast": 512, "normal": 1024, "best": 1024}
"""By effort, the largest codebooks of codes without sums: k-means takes as much longer as there are more codewords."""


@dataclass(frozen=True)
class Candidate:
    """A setting that is small enough.

    Args:
        options: to compress with.
        sizes: the bytes of each part, exactly.
        ratio: how many times smaller than float32 vectors, symbols left out.
        relative_error: predicted, of `compress`.
        unseen_error: predicted, of rows that are not in the table, with the codec that `learn_codebook` learns from it.
        seconds: predicted, on this machine, of `compress`.
        design: of transform codes, what learning begins with.
    """

    options: CompressOptions
    sizes: Sizes
    ratio: float
    relative_error: float
    unseen_error: float
    seconds: float
    design: Design | None = field(default=None, compare=False, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Flat JSON values."""
        own = self.options.as_dict()
        return {
            **{name: own.get(name) for name in PLANNED},
            "effort": self.options.effort,
            **self.sizes.as_dict(),
            "ratio_embedding": round(self.ratio, 2),
            "relative_error": round(self.relative_error, 4),
            "unseen_error": round(self.unseen_error, 4),
            "seconds": round(self.seconds, 1),
        }


class CandidateSearch:
    """The search for settings of one table.

    Args:
        table: what is to be compressed.
        options: what the search leaves alone: effort, seed and the rest.
        predictor: of errors and times.
        on_candidate: called before each probe with how many are done, how many there may be, and a name.
        final: what the codec is for, where the table is but a sample; the best is then what is best for other rows.
    """

    def __init__(
        self,
        table: PlannedTable,
        options: CompressOptions,
        predictor: Predictor,
        on_candidate: OnCandidate | None,
        final: FinalTable | None = None,
    ) -> None:
        if options.composition == "lstm":
            raise OptionError("a plan chooses the composition among sums of codewords, and leaves 'lstm' out")
        if options.learning.name != "additive":
            raise OptionError(
                f"learner must be additive for a plan, whose predictions are for it, got {options.learning.name!r}"
            )
        self._rows_per_block = options.rows_per_block
        kept = options.changed(rows_per_block=None)
        self.options = kept.changed(**{name: getattr(CompressOptions, name) for name in PLANNED})
        self.table, self.predictor, self.on_candidate = table, predictor, on_candidate
        self.final = final or FinalTable.like(table, len(table))
        self._designer = Designer(table, self.final.rows, options)
        self._error = attrgetter("relative_error" if final is None else "unseen_error")
        self.done = self.most = 0
        self._searches = 1

    def within(
        self, limit: SizeLimit, *, quick: bool = False, thorough: bool = False, searches: int = 1
    ) -> list[Candidate]:
        """Candidates that keep to a limit, the best first.

        Args:
            limit: how small.
            quick: whether fewer are probed, and transform codes estimated from fewer rows.
            thorough: whether codewords are probed even where there is no need of them.
            searches: how many there will be, this one among them; for the number of probes that is told.

        Raises:
            OptionError: nothing is small enough.
        """
        self._searches = searches
        found = [] if self.options.codewords else self._transform(limit, quick=quick)
        error = self._error(found[0]) if found else 1.0
        needed = not found or self._may_be_worse(found[0])
        if error <= _NO_NEED_OF_CODEWORDS and not needed and not thorough:
            return found
        try:
            quick = quick or (thorough and not needed)
            found += self._codewords(limit, error, quick=quick, products=needed or thorough)
        except MissingExtraError as missing:
            if not found:
                raise
            warnings.warn(f"codewords are left out of this plan: {missing}", stacklevel=2)
        if not found:
            raise OptionError(self._why_nothing(limit))
        found.sort(key=self._error)
        return found

    def _may_be_worse(self, transform: Candidate) -> bool:
        """Whether codewords may be better than transform codes, however little these lose."""
        is_clustered = transform.design is not None and transform.design.is_clustered
        return float(transform.options.row_bytes or 0) < _SHORT_ROWS or is_clustered

    def _transform(self, limit: SizeLimit, *, quick: bool) -> list[Candidate]:
        """Transform codes, where they can be: rows of so few bits that most coordinates are zero need codewords."""
        dim, rows = self.table.embedding_dim, self.final.rows
        most = limit.most_embedding(rows, dim, self.final.symbol_bytes)
        if most is None or 8 * most < rows or self.options.scale_bits:
            return []
        self._tell("transform")
        try:
            design = self._designer.design(most / rows, spare=self.final.spare, quick=quick)
        except OptionError:  # nothing is left for rows
            return []
        if not design.is_full:
            return []
        most = min(most, design.enough_bytes)
        options = self.options.changed(
            composition=TRANSFORM, row_bytes=most / rows, rows_per_block=self._rows_per_block
        )
        own = design.codec.spec.own_bytes
        sizes = Sizes(most - own, 0, own, self.final.symbol_bytes)
        errors = (design.relative_error, design.relative_error)
        return [Candidate(options, sizes, sizes.ratio(rows, dim), *errors, design.seconds, design)]

    def _codewords(self, limit: SizeLimit, error: float, *, quick: bool, products: bool) -> list[Candidate]:
        """Codes with codewords; without sums only where these are asked for, or transform codes lose much."""
        most_products, most_sums = _QUICK_PROBES if quick else _PROBES[self.options.effort]
        self.most = max(self.most, self._searches * (2 * most_products + most_sums + 1))
        found: list[Candidate] = []
        if products or error > _NO_NEED_OF_PRODUCTS:
            found = self._products(limit, most_products)
        best = min([error, *map(self._error, found)])
        return found + self._sums(limit, most_sums, _FAR_BEHIND * best)

    def _products(self, limit: SizeLimit, probes: int) -> list[Candidate]:
        """Codes without sums: rotated ones, and where a rotation is dear others too."""
        found: list[Candidate] = []
        if len(self.table) >= self.table.embedding_dim:  # else a rotation takes more numbers than the table has
            found = self._climb(self._ladder(limit, self._products_of(rotation=True)), PRODUCT_SHARE, probes)
        best = min(found, key=self._error, default=None)
        if best is None or not rotation_is_cheap(best.options, self.table.embedding_dim, self.final.rows):
            hopeless = 1.0 if best is None else self._error(best)
            ladder = self._ladder(limit, self._products_of(rotation=False))
            found += self._climb(ladder, PRODUCT_SHARE, probes, hopeless)
        return found

    def _products_of(self, *, rotation: bool) -> list[dict[str, Any]]:
        """The settings of codes without sums, without those that take long where time is short."""
        most = _MOST_CODEWORDS[self.options.effort]
        return [setting for setting in product_ladder(rotation) if setting["codebook_size"] <= most]

    def _sums(self, limit: SizeLimit, probes: int, hopeless: float) -> list[Candidate]:
        """Sums, in as few groups as can be searched."""
        dim = self.table.embedding_dim
        ladder = self._ladder(limit, sum_ladder())
        if not ladder:
            return []
        likely = ladder[self._begin(ladder, SUM_SHARE)]
        if hopeless < 1 and work_of(likely.spec(dim), 1) > _MOST_WORK[self.options.effort]:
            return []
        groups = enough_groups(likely, dim)
        if groups > 1:
            ladder = self._ladder(limit, sum_ladder(groups))
        found = self._climb(ladder, SUM_SHARE, probes, hopeless)
        best = min(found, key=self._error)
        if groups == 1 and self._error(best) <= hopeless:
            fuller = fuller_codes(best.options, lambda options: self._fits(limit, options))
            probed = [candidate.options for candidate in found]
            found += [self._candidate(options) for options in fuller if options not in probed]
        return found

    def _climb(
        self, ladder: Sequence[CompressOptions], share: float, probes: int, hopeless: float = 1.0
    ) -> list[Candidate]:
        """Probe a likely setting of a ladder, then its neighbours, and on in the direction that is better."""
        if not ladder:
            return []
        place = self._begin(ladder, share)
        found = {place: self._candidate(ladder[place])}
        if self._error(found[place]) > hopeless:
            return [*found.values()]
        for direction in (1, -1):
            at = place
            while len(found) < probes and 0 <= at + direction < len(ladder):
                at += direction
                found[at] = self._candidate(ladder[at])
                if self._error(found[at]) >= self._error(found[at - direction]):
                    break
            if at not in (place, place + direction):
                break  # it went up in this direction, so it goes down in the other
        return [*found.values()]

    def _begin(self, ladder: Sequence[CompressOptions], share: float) -> int:
        return begin_with(ladder, self.table.embedding_dim, self.final.rows, share)

    def _ladder(self, limit: SizeLimit, settings: Sequence[dict[str, Any]]) -> list[CompressOptions]:
        return longest_codes(
            self.options, settings, self.table.embedding_dim, lambda options: self._fits(limit, options)
        )

    def _fits(self, limit: SizeLimit, options: CompressOptions) -> bool:
        spec = options.spec(self.table.embedding_dim)
        return limit.allows(self._sizes(spec), spec.ratio(self.final.rows), spec.bits)

    def _sizes(self, spec: CodecSpec) -> Sizes:
        return spec.sizes(self.final.rows, self.final.symbol_bytes)

    def _candidate(self, options: CompressOptions) -> Candidate:
        self._tell(f"K={options.codebook_size}, D={options.code_length}")
        found = self.predictor.predict(options)
        spec = options.spec(self.table.embedding_dim)
        errors = (found.relative_error, found.unseen_error)
        return Candidate(options, self._sizes(spec), spec.ratio(self.final.rows), *errors, found.seconds)

    def _tell(self, name: str) -> None:
        if self.on_candidate is not None:
            self.on_candidate(self.done, self.most, name)
        self.done += 1

    def _why_nothing(self, limit: SizeLimit) -> str:
        smallest = self.options.changed(codebook_size=2, code_length=1, codebook_dtype="int8")
        spec = smallest.spec(self.table.embedding_dim)
        least = limit.just_met(self._sizes(spec), spec.ratio(self.final.rows), spec.bits)
        return f"size {limit}: too small for this table, even with codes of one bit; the smallest possible is {least}"
