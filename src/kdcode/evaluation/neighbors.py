"""Recall@k: how many of the k rows nearest to a row are still among its k nearest in a copy of the table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.evaluation.matching import RowPairs
from kdcode.evaluation.parts import TablePart

QUERIES = 1000
"""How many rows are asked for their nearest, at most, where nobody says how many."""

_FEWEST_QUERIES = 100
_MULTIPLICATIONS = 15_000_000_000
"""For each table, at most: a second or so on one core. Where that does not do for 1,000 queries there are fewer."""

_QUERIES_AT_ONCE = 1024
"""Queries whose cosines with a chunk of rows are in memory together: 64 MiB."""

_DIGITS = 10**10
"""Cosines are compared to ten digits: rows that are equal then have equal cosines, however sums were rounded."""
_BITS = 36
"""Enough for a cosine in these units."""

_MANY = 16
"""Times k: where more rows of a chunk may be among the nearest, as in a table of equal rows, they are sorted first."""


class NeighborOverlap:
    """Finds the nearest rows of a sample of rows in a table and in its copy, chunk by chunk.

    Nearness is the cosine, a row is not its own neighbour, and of rows that are equally near the first ones count.
    Every row of the table is a candidate, whatever the sample.

    On one core, with all else that `compare_tables` measures, 100,000 x 100 take one or two seconds and
    1,000,000 x 100, with 150 queries, about six.

    Args:
        pairs: the rows of both tables.
        part: which rows of the tables these are; every part is asked for the rows of the sample.
        sample: (q,) the numbers of the rows that are asked, among all parts, in order.
        count: the largest k; all other rows where a table has fewer than k + 1.
    """

    def __init__(self, pairs: RowPairs, part: TablePart, sample: IntArray, count: int) -> None:
        self._part = part
        self._queries = len(sample)
        self._k = min(count, part.total - 1)
        here = sample[(sample >= part.first) & (sample < part.first + len(pairs))] - part.first
        asked = [part.joined(pairs.vectors(side, here).astype(np.float64)).astype(np.float32) for side in (0, 1)]
        blocks = [slice(start, start + _QUERIES_AT_ONCE) for start in range(0, len(sample), _QUERIES_AT_ONCE)]
        self._sides = [[NearestRows(rows[block], sample[block], self._k) for block in blocks] for rows in asked]
        self._room = np.empty(0)  # for cosines, by turns; new memory every time is slow

    def add(self, start: int, original: FloatArray, copy: FloatArray) -> None:
        """Take the next (n, d) rows of both tables, the first of which has the number `start` among those here."""
        if not self._k:
            return
        needed = len(original) * min(self._queries, _QUERIES_AT_ONCE)
        if needed > len(self._room):
            self._room = np.empty(needed)
        for blocks, vectors in zip(self._sides, (original, copy), strict=True):
            units = unit_rows(vectors)
            for nearest in blocks:
                nearest.add(self._part.first + start, units, self._room)

    def shares(self, k: int) -> DoubleArray:
        """(q,) for each query the share of its k nearest rows that both tables have in common, once all rows are in.

        It is 1 in a table of a single row, which has no neighbours to lose.
        """
        k = min(k, self._k)
        if not k:
            return np.ones(self._queries)
        before, after = ([nearest.of_all(self._part)[:, :k] for nearest in blocks] for blocks in self._sides)
        found = [_common(one, other) for one, other in zip(before, after, strict=True)]
        return np.concatenate(found)


def _common(one: IntArray, other: IntArray) -> DoubleArray:
    """(q,) shares of the k distinct numbers in each row of (q, k) that the same row of the other has, too."""
    both = np.sort(np.concatenate([one, other], axis=1), axis=1)
    return np.asarray((both[:, 1:] == both[:, :-1]).sum(axis=1) / one.shape[1], dtype=np.float64)


def sampled_rows(count: int, dim: int, queries: int | None = None, seed: int = 0) -> IntArray:
    """The rows of a table of N rows and d dimensions that are asked for their nearest, in order.

    They are the same for every table of this shape: all rows up to 1,000, and 1,000 above; where N·d is more than 15
    million there are fewer, down to 100.

    Args:
        count: N.
        dim: d.
        queries: how many, where somebody says so.
        seed: decides which.
    """
    most = queries or max(_FEWEST_QUERIES, min(QUERIES, _MULTIPLICATIONS // (count * dim)))
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


class NearestRows:
    """The rows with the largest cosines to some queries, of rows that come chunk by chunk.

    Args:
        queries: (q, d) vectors.
        own_rows: (q,) the rows that the queries are, which are left out.
        count: how many to find for each: `rows` holds them, (q, count), nearest first.
    """

    def __init__(self, queries: FloatArray, own_rows: IntArray, count: int) -> None:
        self._queries = unit_rows(queries)
        self._own_rows = own_rows
        self.rows = np.zeros((len(queries), count), dtype=np.int64)
        self._nearness = np.full((len(queries), count), -2 * _DIGITS, dtype=np.int64)

    def add(self, start: int, units: DoubleArray, room: DoubleArray) -> None:
        """Take the next (n, d) `unit_rows`, the first of which has the number `start`; `room` is for q·n numbers."""
        shape = (len(self._queries), len(units))
        cosines = np.matmul(self._queries, units.T, out=room[: shape[0] * shape[1]].reshape(shape))
        mine = np.flatnonzero((self._own_rows >= start) & (self._own_rows < start + len(units)))
        cosines[mine, self._own_rows[mine] - start] = -np.inf
        asking, columns = self._candidates(cosines)
        self._merge(asking, columns + start, _rounded(cosines[asking, columns]))

    def of_all(self, part: TablePart) -> IntArray:
        """(q, count): the nearest rows of all parts, each of which has found the nearest among its own."""
        rows, nearness = part.joined_numbers(self.rows[None]), part.joined_numbers(self._nearness[None])
        best = NearestRows(self._queries.astype(np.float32), self._own_rows, self.rows.shape[1])
        asking = np.repeat(np.arange(self.rows.shape[0]), self.rows.shape[1])
        for some, near in zip(rows, nearness, strict=True):
            best._merge(asking, some.reshape(-1), near.reshape(-1))
        return best.rows

    def _candidates(self, cosines: DoubleArray) -> tuple[IntArray, IntArray]:
        """The queries and columns, in order, of all cosines that may be among the largest, and few others."""
        count, size = self.rows.shape[1], cosines.shape[1]
        enough = (self._nearness[:, -1] + 0.4) / _DIGITS  # of equal ones the earlier row stays
        apart = size // (4 * count)
        if apart > 1:
            # The best of each group of columns: as many rows as are sought reach the last of the best of these.
            groups = size // apart
            best = cosines[:, : groups * apart].reshape(len(cosines), apart, groups).max(axis=1)
            enough = np.maximum(enough, np.partition(best, groups - count, axis=1)[:, groups - count] - 1 / _DIGITS)
        found = np.flatnonzero(cosines >= enough[:, None])
        if len(found) > _MANY * count * len(cosines):
            by_row = np.argsort(-np.rint(cosines * _DIGITS), axis=1, kind="stable")[:, :count]
            reached = np.take_along_axis(cosines, by_row, axis=1) >= enough[:, None]
            found = (by_row + np.arange(len(cosines))[:, None] * size)[reached]
        asking, columns = np.divmod(found, size)
        return asking, columns

    def _merge(self, asking: IntArray, rows: IntArray, nearness: npt.NDArray[np.int64]) -> None:
        """Keep the best of what is kept and of new rows, each with the query that asks for it."""
        queries, count = self.rows.shape
        asking = np.concatenate([np.repeat(np.arange(queries), count), asking])
        rows = np.concatenate([self.rows.reshape(-1), rows])
        nearness = np.concatenate([self._nearness.reshape(-1), nearness])
        keys = (asking << _BITS) + (2 * _DIGITS - nearness)  # one integer to sort by is quicker than two keys
        order = np.argsort(keys, kind="stable")  # of equally near rows the one that came first
        first = np.searchsorted(keys[order], np.arange(queries) << _BITS)
        best = order[first[:, None] + np.arange(count)]
        self.rows, self._nearness = rows[best], nearness[best]


def unit_rows(vectors: FloatArray) -> DoubleArray:
    """(n, d) vectors at length 1; zero stays zero.

    In float64, where no square of a float32 is out of range; and float32 cannot tell the cosines of rows that are close
    together.
    """
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    np.divide(wide, lengths, out=wide, where=lengths > 0)
    return wide


def _rounded(cosines: DoubleArray) -> npt.NDArray[np.int64]:
    return np.rint(cosines * _DIGITS).astype(np.int64)
