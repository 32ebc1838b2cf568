from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_threads import in_threads

from kdcode.row_cache import RowCache


class Table:
    """Rows whose numbers are their row number; counts what it decodes."""

    def __init__(self, rows=1000):
        self.rows, self.decoded = rows, []

    def decode(self, rows):
        if (rows < 0).any() or (rows >= self.rows).any():
            raise IndexError("no such row")
        self.decoded += rows.tolist()
        return np.repeat(rows[:, None], 3, axis=1).astype(np.float32)


def looked_up(cache, table, rows):
    return cache.vectors(np.array(rows, dtype=np.int64), table.decode)[:, 0].astype(int).tolist()


def test_a_row_is_kept_from_the_second_time_on():
    cache, table = RowCache(3, 28 * 10), Table()
    assert looked_up(cache, table, [5, 6]) == [5, 6]
    assert looked_up(cache, table, [5]) == [5]
    assert table.decoded == [5, 6, 5]
    assert looked_up(cache, table, [5, 5, 7]) == [5, 5, 7]
    assert table.decoded == [5, 6, 5, 7]
    assert (cache.hits, cache.misses) == (2, 4)


def test_rare_rows_do_not_push_out_frequent_ones():
    cache, table = RowCache(3, 28 * 10), Table()
    assert cache.places == 10
    for _ in range(2):
        looked_up(cache, table, [5])
    for rare in range(15, 1000, 10):  # the same place
        looked_up(cache, table, [rare, 5])
    assert table.decoded.count(5) == 2


@pytest.mark.parametrize("row", [-1, -10, 1000, -(2**63)])
def test_rows_that_are_not_there_are_never_kept(row):
    cache = RowCache(3, 28 * 10)
    for _ in range(3):
        with pytest.raises(IndexError, match="no such row"):
            looked_up(cache, Table(), [0, row])


@given(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=30), st.integers(1, 12))
def test_it_gives_what_the_table_gives(calls, places):
    cache, table = RowCache(3, 28 * places), Table()
    for rows in calls:
        assert looked_up(cache, table, rows) == rows


def test_it_takes_no_more_than_it_may():
    for nbytes in (100, 10_000, 1_000_000):
        assert RowCache(25, nbytes).nbytes <= max(nbytes, 116)
    assert RowCache(25, 1_000_000).nbytes > 990_000


def test_it_forgets_everything_when_the_table_changes():
    cache, table = RowCache(3, 28 * 10), Table()
    for _ in range(3):
        looked_up(cache, table, [5])
    cache.clear()
    looked_up(cache, table, [5])
    assert table.decoded == [5, 5, 5]


def test_threads_get_right_answers():
    cache, table, wrong = RowCache(3, 28 * 16), Table(), []

    def read(seed):
        random = np.random.default_rng(seed)
        for _ in range(300):
            rows = np.minimum(random.zipf(1.3, size=20), 1000) - 1
            if looked_up(cache, table, rows) != rows.tolist():
                wrong.append(seed)

    in_threads(read)
    assert wrong == []
    assert cache.hits > 0
