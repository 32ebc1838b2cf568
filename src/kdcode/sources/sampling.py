"""Rows of a source in memory: some, drawn evenly, or all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kdcode.errors import OptionError
from kdcode.sources.source import RowSource
from kdcode.table import VectorTable


def sample_rows(
    source: RowSource, count: int, seed: int = 0, on_progress: Callable[[int, int], None] | None = None
) -> VectorTable:
    """A table of rows that are drawn evenly, without replacement, in the order of the source, without their symbols.

    All of the source is read, a piece at a time: rows that lie near each other in a file are often alike.

    Args:
        source: the rows.
        count: how many; all of them where there are fewer.
        seed: decides which.
        on_progress: called with rows read and rows in all after each piece.

    Raises:
        OptionError: `count` is less than 1.
        FormatError: a row of the source cannot be used, drawn or not.
    """
    if count < 1:
        raise OptionError(f"a sample needs at least 1 row, got {count}")
    chosen = drawn_rows(len(source), count, seed)
    matrix = np.empty((len(chosen), source.embedding_dim), dtype=np.float32)
    reached = 0
    for _, vectors in source.chunks():
        first, last = np.searchsorted(chosen, (reached, reached + len(vectors)))
        matrix[first:last] = vectors[chosen[first:last] - reached]
        reached += len(vectors)
        if on_progress:
            on_progress(reached, len(source))
    return VectorTable(None, matrix)


def read_all(source: RowSource, on_progress: Callable[[int, int], None] | None = None) -> VectorTable:
    """The whole of a source as a table in memory.

    Raises:
        FormatError: a row cannot be used.
        TableError: a symbol stands in two rows.
    """
    matrix = np.empty((len(source), source.embedding_dim), dtype=np.float32)
    names: list[str] = []
    reached = 0
    for symbols, vectors in source.chunks():
        matrix[reached : reached + len(vectors)] = vectors
        names += symbols or ()
        reached += len(vectors)
        if on_progress:
            on_progress(reached, len(source))
    return VectorTable(names if source.has_symbols else None, matrix)


def drawn_rows(rows: int, count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(count,) distinct rows below `rows`, sorted, in memory that depends on `count` alone."""
    if count >= rows:
        return np.arange(rows)
    draw = np.random.default_rng([seed, 0x5A3B1E])
    if rows < 4 * count:
        return np.sort(draw.permutation(rows)[:count])
    found = np.empty(0, dtype=np.int64)
    while len(found) < count:  # those that are drawn twice are drawn again
        more = draw.integers(rows, size=count - len(found) + 16)
        found = np.unique(np.concatenate([found, more]))
    return np.sort(draw.permutation(found)[:count])
