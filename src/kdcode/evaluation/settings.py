"""How much of a table is looked at when it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from kdcode.option_fields import check_fields, option


@dataclass(frozen=True)
class EvaluationOptions:
    """What is sampled, and how. Field names are Python keywords and, with dashes, command-line flags."""

    queries: int | None = option(
        None,
        "Rows that are asked for their nearest neighbours; by default 1000, and fewer for large tables, down to 100.",
        low=1,
    )
    pairs: int = option(100_000, "Pairs of rows whose similarities are ranked before and after.", low=2)
    worst: int = option(10, "How many of the rows that lose most are listed.", low=0)
    vocabulary: int = option(100_000, "How many first rows the answers to analogies are looked for in.", low=4)
    seed: int = option(0, "Decides which rows and pairs are sampled.", low=0)

    def __post_init__(self) -> None:
        check_fields(self)
