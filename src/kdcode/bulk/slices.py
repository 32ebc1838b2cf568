"""Slices: the parts of a table cut into pieces that are encoded one by one, by whoever is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Slice:
    """Some rows of one part.

    Args:
        number: its place among all slices, from 0; rows of a table are in the order of their slices.
        part: which of the parts.
        start: its first row in that part.
        stop: the row after its last.
        first_row: the number of its first row over all parts.
    """

    number: int
    part: int
    start: int
    stop: int
    first_row: int

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.stop - self.start

    @property
    def file_name(self) -> str:
        """The file of its codes; in the order of names files are in the order of slices."""
        return f"codes-{self.number:07d}.parquet"


def cut(parts: Sequence[int], rows_per_slice: int) -> list[Slice]:
    """Cut parts, given by their rows, into slices of at most `rows_per_slice`; a slice never spans two parts."""
    slices: list[Slice] = []
    first_row = 0
    for number, rows in enumerate(parts):
        for start in range(0, rows, rows_per_slice):
            stop = min(start + rows_per_slice, rows)
            slices.append(Slice(len(slices), number, start, stop, first_row))
            first_row += stop - start
    return slices
