"""EncodeSettings: how codes are searched for, and how large a slice is."""

from __future__ import annotations

from dataclasses import dataclass

from kdcode.option_fields import check_fields, option


@dataclass(frozen=True)
class EncodeSettings:
    """How parts are encoded. What is here decides the bytes that come out; threads and workers do not.

    Field names are Python keywords and, with dashes, command-line flags.
    """

    beam: int = option(8, "Partial codes kept per row while codes are searched for; more is slower and better.", low=1)
    sweeps: int = option(4, "Passes that reconsider one position of a code at a time afterwards.", low=0)
    rows_per_slice: int = option(
        262_144, "Rows that are encoded and written at a time, and lost by an interruption, at most.", low=1
    )

    def __post_init__(self) -> None:
        check_fields(self)
