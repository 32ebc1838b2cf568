"""A plan for a table whose rows are on several ranks: rank 0 makes it, and asks the others for rows of its samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.learning.identity import KnownTable, TableContent
from kdcode.learning.planned_table import PlannedTable
from kdcode.learning.table_shard import TableShard

Value = TypeVar("Value")

_ROWS, _NORMS, _WEIGHTS, _DONE, _FAILED = "rows", "norms", "weights", "done", "failed"


def on_first_rank(shard: TableShard, make: Callable[[PlannedTable], Value]) -> Value:
    """What `make` gives for a whole table, on all ranks: rank 0 calls it, and the others hand it what it asks for.

    Raises:
        Exception: what `make` raises, on all ranks.
    """
    ranks = shard.share.ranks
    if ranks.is_alone:
        return make(shard.table)
    _ = shard.content  # of all ranks, before one of them asks for it
    if not ranks.is_first:
        return _answering(shard)  # type: ignore[no-any-return]  # what rank 0 has made
    try:
        found = make(_RowsOfAll(shard))
    except BaseException as error:
        ranks.told((_FAILED, error))
        raise
    ranks.told((_DONE, found))
    return found


def _answering(shard: TableShard) -> Any:  # noqa: ANN401 - what rank 0 has made
    while True:
        asked, value = shard.share.ranks.told((_DONE, None))
        if asked == _DONE:
            return value
        if asked == _FAILED:
            raise cast(BaseException, value)
        _answer(shard, asked, value)


def _answer(shard: TableShard, asked: str, rows: IntArray | None) -> FloatArray | DoubleArray:
    """What all ranks do when rank 0 asks; its result is for rank 0."""
    ranks, table = shard.share.ranks, shard.table
    if asked == _ROWS:
        return shard.share.fetch(table.matrix, np.asarray(rows, dtype=np.int64))
    own = table.norms if asked == _NORMS else table.weights
    return ranks.rows_to_first(np.ascontiguousarray(own))


class _RowsOfAll(KnownTable):
    """The rows of all ranks, as rank 0 sees them: none is there until it is asked for."""

    def __init__(self, shard: TableShard) -> None:
        self._shard = shard
        self.packed_symbols = shard.packed_symbols

    @property
    def content(self) -> TableContent:
        return self._shard.content

    def __len__(self) -> int:
        return self._shard.share.total

    @property
    def embedding_dim(self) -> int:
        return self._shard.embedding_dim

    @cached_property
    def weights(self) -> FloatArray | None:
        return None if self._shard.table.weights is None else np.asarray(self._asked(_WEIGHTS), dtype=np.float32)

    @cached_property
    def norms(self) -> DoubleArray:
        return np.asarray(self._asked(_NORMS), dtype=np.float64)

    def vectors_at(self, rows: IntArray) -> FloatArray:
        return np.asarray(self._asked(_ROWS, rows), dtype=np.float32)

    def _asked(self, what: str, rows: IntArray | None = None) -> FloatArray | DoubleArray:
        self._shard.share.ranks.told((what, rows))
        return _answer(self._shard, what, rows)
