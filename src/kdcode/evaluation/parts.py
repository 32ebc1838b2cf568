"""A table in parts, each in a process of its own, measured as one: what the parts tell each other."""

from __future__ import annotations

from typing import Protocol

from kdcode.arrays import DoubleArray, IntArray


class TablePart(Protocol):
    """The rows of a table that are here: those from `first`, of `total`."""

    @property
    def first(self) -> int:
        """The number of the first row here."""

    @property
    def total(self) -> int:
        """How many rows all parts have."""

    def add_up(self, values: DoubleArray) -> DoubleArray:
        """The sum of arrays over all parts."""

    def joined(self, rows: DoubleArray) -> DoubleArray:
        """(Σ n, …): the (n, …) rows of all parts, in their order; for few rows."""

    def joined_numbers(self, rows: IntArray) -> IntArray:
        """The same for integers."""


class WholeTable:
    """All rows of a table, in one part."""

    def __init__(self, total: int) -> None:
        self.first, self.total = 0, total

    def add_up(self, values: DoubleArray) -> DoubleArray:
        """The values themselves."""
        return values

    def joined(self, rows: DoubleArray) -> DoubleArray:
        """The rows themselves."""
        return rows

    def joined_numbers(self, rows: IntArray) -> IntArray:
        """The rows themselves."""
        return rows
