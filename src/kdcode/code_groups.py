"""Rows of a coded table by their codes: those that begin alike, and those that are equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kdcode.arrays import IntArray
from kdcode.errors import OptionError

if TYPE_CHECKING:
    from kdcode.coded import Code, CodedTable


def groups(table: CodedTable, prefix: Sequence[int]) -> Iterator[tuple[Code, IntArray]]:
    """The codes that begin with `prefix`, sorted, each with the (n,) rows that share it."""
    rows, codes = rows_beginning_with(table, prefix)
    order = np.lexsort(codes.T[::-1])
    rows, codes = rows[order], codes[order]
    edges = np.flatnonzero((codes[1:] != codes[:-1]).any(axis=1)) + 1
    for first, end in zip([0, *edges], [*edges, len(rows)], strict=True):
        if end > first:
            yield tuple(codes[first].tolist()), rows[first:end]


def rows_beginning_with(table: CodedTable, prefix: Sequence[int]) -> tuple[IntArray, IntArray]:
    """The (n,) rows whose codes begin with `prefix`, and their (n, columns) codes."""
    spec = table.spec
    limits = spec.column_ends
    pairs = zip(prefix, limits, strict=False)
    if len(prefix) > len(limits) or any(not 0 <= value < limit for value, limit in pairs):
        last = f", and the last in [0, {limits[-1]})" if len(limits) > spec.code_length else ""
        raise OptionError(
            f"prefix: codes here have {len(limits)} integers in [0, {spec.codebook_size}){last}, "
            f"got {'-'.join(map(str, prefix))}"
        )
    matches = ((start, (codes[:, : len(prefix)] == prefix).all(axis=1)) for start, codes in table.code_chunks())
    rows = np.concatenate([start + np.flatnonzero(found) for start, found in matches])
    return rows, table.codec.unpack(table.packed[rows])


def repeated(rows: npt.NDArray[np.uint8]) -> int:
    """How many of (n, bytes) rows are equal to another one."""
    if not rows.shape[1]:
        return len(rows) if len(rows) > 1 else 0
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).reshape(-1)
    counts = np.unique(whole, return_counts=True)[1]
    return int(counts[counts > 1].sum())
