"""Gates: bounds that a copy must keep to, for pipelines that are to stop where too much is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kdcode.errors import GateError, OptionError
from kdcode.evaluation.measures import Evaluation, Measures
from kdcode.option_fields import check_fields, option

_LOW_PERCENTILE = 5


@dataclass(frozen=True)
class Gates:
    """The bounds; those that are None are not looked at. Field names are Python keywords and, with dashes, flags."""

    max_error: float | None = option(None, "Fail if the relative error is higher.", low=0)
    min_cosine: float | None = option(None, "Fail if the mean cosine is lower.", low=-1, high=1)
    min_low_cosine: float | None = option(
        None, "Fail if more than 5% of the rows have a lower cosine to their copy.", low=-1, high=1
    )
    max_norm_error: float | None = option(None, "Fail if the mean relative error of lengths is higher.", low=0)
    min_recall: float | None = option(None, "Fail if the recall of the 10 nearest neighbours is lower.", low=0, high=1)
    min_correlation: float | None = option(
        None, "Fail if the rank correlation of similarities is lower.", low=-1, high=1
    )
    max_drop: float | None = option(
        None, "Fail if a score of --similarity or --analogies drops by more, as 0.01 from 0.64 to 0.63.", low=0
    )
    max_weighted_error: float | None = option(None, "Fail if the relative error by weight is higher.", low=0)
    min_weighted_cosine: float | None = option(None, "Fail if the mean cosine by weight is lower.", low=-1, high=1)
    min_weighted_recall: float | None = option(
        None, "Fail if the recall of the 10 nearest neighbours by weight is lower.", low=0, high=1
    )
    max_missing: int = option(
        0, "Where any of these bounds is set, fail as well if the copy lacks more symbols than this.", low=0
    )

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def are_set(self) -> bool:
        """Whether there is anything to check."""
        return any(getattr(self, item.name) is not None for item in fields(self) if item.name != "max_missing")

    def check_inputs(self, *, has_weights: bool, has_tests: bool) -> None:
        """Refuse bounds for what will not be measured, before anything is.

        Raises:
            OptionError: the bound is named.
        """
        weighted = next((name for name in WEIGHTED if getattr(self, name) is not None), None)
        if weighted is not None and not has_weights:
            raise OptionError(f"{weighted} is a bound for measures by weight; give weights=, of a file or by rank")
        if self.max_drop is not None and not has_tests:
            raise OptionError("max_drop is a bound for scores of word tests; give files with similarity= or analogies=")

    def check(self, found: Evaluation) -> tuple[GateResult, ...]:
        """What comes of every bound that is set, in the order of the fields.

        Raises:
            OptionError: one is for measures by weight or for word tests, and there are none.
        """
        if not self.are_set:
            return ()
        self.check_inputs(has_weights=found.weighted is not None, has_tests=bool(found.tests))
        return tuple(self._results(found))

    def _results(self, found: Evaluation) -> Iterator[GateResult]:
        for name, (measure, of) in GATES.items():
            bound = getattr(self, name)
            if bound is not None:
                yield GateResult(name, measure, of(found), bound)
        for name, (measure, of) in WEIGHTED.items():
            bound = getattr(self, name)
            if bound is not None and found.weighted is not None:
                yield GateResult(name, measure, of(found.weighted), bound)
        if self.max_drop is not None:
            for test in found.tests:
                yield GateResult("max_drop", f"drop of {test.name}", test.drop, self.max_drop)
        yield GateResult("max_missing", "symbols missing", found.match.only_in_original, self.max_missing)


GATES: dict[str, tuple[str, Callable[[Measures], float]]] = {
    "max_error": ("relative error", lambda found: found.relative_error),
    "min_cosine": ("mean cosine", lambda found: found.mean_cosine),
    "min_low_cosine": ("cosine of the lowest 5%", lambda found: found.cosine_percentiles[_LOW_PERCENTILE]),
    "max_norm_error": ("error of lengths", lambda found: found.norm_error),
    "min_recall": ("recall@10", lambda found: found.recall_at_10),
    "min_correlation": ("rank correlation", lambda found: found.rank_correlation),
}
"""What each bound is for, and how it is measured; names say whether it is the least or the most."""

WEIGHTED: dict[str, tuple[str, Callable[[Measures], float]]] = {
    "max_weighted_error": ("relative error by weight", lambda found: found.relative_error),
    "min_weighted_cosine": ("mean cosine by weight", lambda found: found.mean_cosine),
    "min_weighted_recall": ("recall@10 by weight", lambda found: found.recall_at_10),
}
"""The same for measures by weight."""


@dataclass(frozen=True)
class GateResult:
    """What came of one bound.

    Args:
        gate: its name in `Gates`.
        measure: what is measured, in words.
        value: what was found.
        bound: what it may be at the most or at the least.
    """

    gate: str
    measure: str
    value: float
    bound: float

    @property
    def is_least(self) -> bool:
        """Whether the value may be higher than the bound, but not lower."""
        return self.gate.startswith("min_")

    @property
    def passed(self) -> bool:
        """Whether the bound is kept; a value that is no number keeps to none."""
        return self.value >= self.bound if self.is_least else self.value <= self.bound

    def as_dict(self) -> dict[str, Any]:
        """Everything by name, as JSON values."""
        return {**vars(self), "passed": self.passed}

    def __str__(self) -> str:
        words = (
            ("is not below" if self.is_least else "is not above")
            if self.passed
            else ("is below" if self.is_least else "is above")
        )
        return f"{self.measure} {self.value:.6g} {words} {self.bound:g}"


def require(results: Sequence[GateResult]) -> None:
    """Go on only if every gate is passed.

    Raises:
        GateError: some are not; the message lists them with values and bounds.
    """
    failed = [result for result in results if not result.passed]
    if failed:
        listed = "; ".join(f"{result} ({result.gate}=)" for result in failed)
        raise GateError(f"{len(failed)} of {len(results)} gates failed: {listed}")
