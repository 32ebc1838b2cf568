"""What the explorer knows: symbols, their codes, and their neighbours before and after, small enough for a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdcode import bitpack
from kdcode.arrays import DoubleArray, IntArray
from kdcode.codec import CodecSpec
from kdcode.codec.transform import TransformSpec
from kdcode.coded import CodedTable
from kdcode.evaluation import RowLosses
from kdcode.evaluation.matching import RowPairs
from kdcode.evaluation.neighbors import NearestRows, unit_rows
from kdcode.printable import shown
from kdcode.report.embedded import packed_array, small_numbers

NEIGHBORS = 10
"""How many are shown of a symbol, before and after."""

MOST_BYTES = 2_800_000
"""What codes and neighbours may take together before base64 makes a third more of them: a page stays below 5 MB."""

LEVELS = 16
"""How many levels of a transform code are shown: the first ones, which are those of the most variance."""
_LARGEST = (1 << 16) - 1

_QUERIES_AT_ONCE = 512
_BYTES_OF_A_ROW = 2 * NEIGHBORS * 3 + 8 + 12
"""Neighbours with their cosines, two floats, and the symbol, without the code."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Explored:
    """The rows that are in the page.

    Args:
        places: (n,) their places among the pairs of rows that are compared, the most frequent first.
        symbols: their names, safe to show.
        of: how many pairs there are.
        by_weight: whether the most frequent are those with the largest weights, or the first ones.
    """

    places: IntArray
    symbols: Sequence[str]
    of: int
    by_weight: bool

    @property
    def is_all(self) -> bool:
        """Whether every row is in the page."""
        return len(self.places) == self.of

    @property
    def example(self) -> int:
        """A row to begin with: the first whose symbol is a word, and no function word; the first of all without one."""
        return next((row for row, symbol in enumerate(self.symbols) if 5 < len(symbol) < 20 and symbol.isalpha()), 0)

    def place_of(self, pair: int) -> int | None:
        """The number that a pair has in the page, or None."""
        found = np.flatnonzero(self.places == pair)
        return int(found[0]) if len(found) else None


def explored_rows(pairs: RowPairs, weights: DoubleArray | None, most: int) -> Explored:
    """The most frequent rows: those with the largest weights, or the first ones; as many as the page has room for.

    Args:
        pairs: the rows that are compared.
        weights: (n,) of these rows, or None.
        most: how many are wanted.
    """
    copy = pairs.tables[1]
    code_bytes = _code_bytes(copy.spec) if isinstance(copy, CodedTable) else 0
    count = max(1, min(most, len(pairs), MOST_BYTES // (_BYTES_OF_A_ROW + code_bytes)))
    order = np.arange(count) if weights is None else np.argsort(-weights, kind="stable")[:count]
    numbers = pairs.row_numbers(0, order)
    return Explored(
        order, [shown(symbol) for symbol in pairs.tables[0].symbols_at(numbers)], len(pairs), weights is not None
    )


def _code_bytes(spec: CodecSpec) -> int:
    """What the code of a row takes in the page, at most."""
    return 2 * min(LEVELS, spec.embedding_dim) + 2 if isinstance(spec, TransformSpec) else spec.row_bytes


def explorer_data(
    pairs: RowPairs, losses: RowLosses, rows: Explored, on_progress: Progress | None = None
) -> dict[str, Any]:
    """What `explorer` is in the data of the page.

    Args:
        pairs: the rows of both tables.
        losses: what each of them loses.
        rows: those that are in the page. Neighbours are looked for among these.
        on_progress: called with how many searches are done, and of how many.
    """
    count = min(NEIGHBORS, len(rows.places) - 1)
    sides = ("before", "after")
    numbers = pairs.row_numbers(0, rows.places)
    found = {
        name: _neighbors(pairs, side, rows.places, count, _part(on_progress, side)) for side, name in enumerate(sides)
    }
    in_order = np.array_equal(numbers, np.arange(len(numbers)))
    return {
        "symbols": list(rows.symbols),
        "rows": None if in_order else packed_array(numbers.astype(np.uint32)),
        "neighbors": count,
        **found,
        "cosines": packed_array(losses.cosines[rows.places].astype(np.float32)),
        "errors": packed_array(np.minimum(losses.relative_errors[rows.places], 1e9).astype(np.float32)),
        "codes": _codes(pairs, rows.places),
        "first": rows.example,
    }


def _part(on_progress: Progress | None, side: int) -> Progress:
    def report(done: int, total: int) -> None:
        if on_progress is not None:
            on_progress(side * total + done, 2 * total)

    return report


def _neighbors(pairs: RowPairs, side: int, places: IntArray, count: int, report: Progress) -> dict[str, Any]:
    """The rows with the largest cosines to each row, among these rows, and the cosines in hundredths."""
    units = unit_rows(pairs.vectors(side, places))
    rows, cosines = np.zeros((len(places), count), dtype=np.int64), np.zeros((len(places), count), dtype=np.int8)
    room = np.empty(_QUERIES_AT_ONCE * len(places) if count else 0)
    for start in range(0, len(places) if count else 0, _QUERIES_AT_ONCE):
        asked = np.arange(start, min(start + _QUERIES_AT_ONCE, len(places)))
        nearest = NearestRows(pairs.vectors(side, places[asked]), asked, count)
        nearest.add(0, units, room)
        rows[asked] = nearest.rows
        near = np.einsum("qd,qkd->qk", units[asked], units[nearest.rows])
        cosines[asked] = np.rint(100 * near).clip(-100, 100)
        report(len(asked) + start, len(places))
    return {
        "rows": packed_array(small_numbers(rows.reshape(-1), len(places))),
        "cosines": packed_array(cosines.reshape(-1)),
    }


def _codes(pairs: RowPairs, places: IntArray) -> dict[str, Any] | None:
    """The packed codes of rows, of transform codes the first levels; None where the table has no codes."""
    copy = pairs.tables[1]
    if not isinstance(copy, CodedTable):
        return None
    codes, spec = copy.codec.unpack(copy.packed[pairs.row_numbers(1, places)]), copy.spec
    if not isinstance(spec, TransformSpec):
        return _packed(codes, spec.widths, spec.code_length)
    levels = np.minimum(codes[:, : min(LEVELS, spec.embedding_dim)].astype(np.int64), _LARGEST)
    widths = tuple(bitpack.bits_for(int(column.max()) + 1) for column in levels.T)
    taken = np.asarray(spec.lengths, dtype=np.uint32)[codes[:, -2]]
    shown = {"bytes": packed_array(taken), "levels": spec.embedding_dim, "together": spec.rows_per_block}
    return _packed(levels, widths, len(widths)) | shown


def _packed(codes: IntArray, widths: Sequence[int], length: int) -> dict[str, Any]:
    packed = packed_array(bitpack.pack(codes, widths).reshape(-1))
    return {"packed": packed, "widths": list(widths), "length": length}
