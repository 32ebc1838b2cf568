"""What is measured between a table and its copy: the results of `evaluate`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from kdcode.evaluation.matching import RowMatch
from kdcode.evaluation.row_losses import RowLosses
from kdcode.evaluation.word_tests import WordScore

PERCENTILES = (1, 5, 25, 50, 75, 95, 99)
NEIGHBORS = (1, 10, 100)
"""The k of recall@k."""


@dataclass(frozen=True)
class Measures:
    """What is left of a table in its copy, with all rows counted alike or by weight.

    Args:
        relative_error: Σ‖v − v'‖² / Σ‖v − mean‖², 0 for a perfect copy, 1 for the mean alone; see `TableComparison`.
        mean_cosine: mean cosine between a row and its copy; rows of length zero count as 1 when both are zero.
        cosine_percentiles: the cosine at each of `PERCENTILES`: at 5, the cosine that 5% of rows fall below.
        norm_error: mean of |‖v'‖ − ‖v‖| / ‖v‖ over rows that are not zero.
        recall_at_1, recall_at_10, recall_at_100: the share of the 1, 10 or 100 nearest rows, by cosine, that are among
            as many nearest in the copy too; the mean over a sample of rows.
        rank_correlation: Spearman's correlation between the cosines of sampled pairs of rows before and after.
    """

    relative_error: float
    mean_cosine: float
    cosine_percentiles: dict[int, float]
    norm_error: float
    recall_at_1: float
    recall_at_10: float
    recall_at_100: float
    rank_correlation: float

    def numbers(self) -> dict[str, Any]:
        """These numbers by name, as JSON values."""
        own = {item.name: getattr(self, item.name) for item in fields(Measures)}
        return own | {"cosine_percentiles": {str(share): value for share, value in self.cosine_percentiles.items()}}


@dataclass(frozen=True)
class WorstRow:
    """One of the rows that lose most.

    Args:
        symbol: its name.
        row: its number in the original.
        cosine: between the row and its copy.
        relative_error: ‖v − v'‖² / ‖v‖²; infinite where a row of zeros has a copy of another length.
        length: ‖v‖.
        copy_length: ‖v'‖.
    """

    symbol: str
    row: int
    cosine: float
    relative_error: float
    length: float
    copy_length: float


@dataclass(frozen=True)
class Sampling:
    """What was looked at where not everything was.

    Args:
        queries: rows that were asked for their nearest, among all rows.
        pairs: pairs of rows whose similarities were ranked.
        seed: what decided which.
        weighted_queries: rows drawn by their weights that were asked; None without weights.
    """

    queries: int
    pairs: int
    seed: int
    weighted_queries: int | None = None


@dataclass(frozen=True)
class Evaluation(Measures):
    """What `evaluate` finds: `Measures` with all rows counted alike, and more.

    Args:
        match: which rows were compared.
        sampling: what was looked at.
        weighted: the same measures with rows counted by weight; None where no weights are given.
        worst: the rows with the lowest cosines to their copies, the worst first.
        tests: scores of word similarity and of analogies.
        rows: what each row loses, in the order of the original; not in `as_dict`.
    """

    match: RowMatch
    sampling: Sampling
    weighted: Measures | None = None
    worst: tuple[WorstRow, ...] = ()
    tests: tuple[WordScore, ...] = ()
    rows: RowLosses = field(repr=False, compare=False, default_factory=lambda: RowLosses.room(0))

    def as_dict(self) -> dict[str, Any]:
        """Everything by name, as JSON values, but for what each row loses."""
        return {
            **self.numbers(),
            "weighted": None if self.weighted is None else self.weighted.numbers(),
            "tests": [test.as_dict() for test in self.tests],
            "worst": [asdict(row) for row in self.worst],
            "match": asdict(self.match),
            "sampling": asdict(self.sampling),
        }
