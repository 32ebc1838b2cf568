"""BASELINES: other ways to make a table smaller, each within a number of bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kdcode.comparison.integer_rows import fitting_directions, integer_rows
from kdcode.evaluation.matching import Table
from kdcode.table import VectorTable


class Baseline(NamedTuple):
    """A copy of a table that was made for a comparison.

    Args:
        table: the copy.
        bytes: what it would take, symbols left out.
        setting: what was chosen so that it fits, in words.
    """

    table: Table
    bytes: int
    setting: str


def _integers(table: VectorTable, most: int, bits: int) -> Baseline | None:
    dim = table.embedding_dim
    fitting = fitting_directions(len(table), dim, bits, most)
    if fitting is None:
        return None
    kept, size = fitting
    rows = integer_rows(table.matrix, bits, kept).decode()
    setting = "all coordinates" if kept == dim else f"{kept} of {dim} principal directions"
    return Baseline(VectorTable(table.symbols, rows), size, setting)


def _product(table: VectorTable, most: int) -> Baseline | None:
    from kdcode.comparison.product_codes import product_codes

    coded = product_codes(table, most)
    if coded is None:
        return None
    return Baseline(coded, coded.sizes.embedding, f"K={coded.codebook_size}, D={coded.code_length}")


BASELINES: dict[str, Callable[[VectorTable, int], Baseline | None]] = {
    "int8": partial(_integers, bits=8),
    "int4": partial(_integers, bits=4),
    "pq": _product,
}
"""By name: makes a copy within a number of bytes, or None where nothing fits."""
