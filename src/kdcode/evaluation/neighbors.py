"""Recall@10: how many of the 10 rows nearest to a row are still among its 10 nearest in a copy of the table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray, IntArray
from kdcode.evaluation.matching import RowPairs
from kdcode.evaluation.parts import TablePart

NEIGHBORS = 10
"""The k of recall@k; all other rows where a table has fewer than k + 1."""

QUERIES = 1000
"""How many rows are asked for their nearest, at most."""

_FEWEST_QUERIES = 100
_MULTIPLICATIONS = 15_000_000_000
"""For each table, at most: a second or so on one core. Where that does not do for 1,000 queries there are fewer."""

_DIGITS = 10**10
"""Cosines are compared to ten digits: rows that are equal then have equal cosines, however sums were rounded."""
_BITS = 36
"""Enough for a cosine in these units."""

_MANY = 16
"""Times k: where more rows of a chunk may be among the nearest, as in a table of equal rows, they are sorted first."""


class NeighborOverlap:
    """Finds the nearest rows of a sample of rows in a table and in its copy, chunk by chunk.

    Nearness is the cosine, a row is not its own neighbour, and of rows that are equally near the first ones count.
    The sample is the same for every table of N rows: all of them up to 1,000, and 1,000 above; where N·d is more than
    15 million it gets smaller, down to 100 rows. Every row of the table is a candidate, whatever the sample.

    On one core, with all else that `evaluate` measures, 100,000 x 100 take one or two seconds and 1,000,000 x 100, with
    150 queries, about six.

    Args:
        pairs: the rows of both tables.
        part: which rows of the tables these are; every part is asked for the rows of the sample.
    """

    def __init__(self, pairs: RowPairs, part: TablePart) -> None:
        self._part = part
        sample = sampled_rows(part.total, pairs.embedding_dim)
        self._k = min(NEIGHBORS, part.total - 1)
        here = sample[(sample >= part.first) & (sample < part.first + len(pairs))] - part.first
        asked = (part.joined(pairs.vectors(side, here).astype(np.float64)) for side in (0, 1))
        self._sides = [NearestRows(queries.astype(np.float32), sample, self._k) for queries in asked]
        self._room = np.empty(0)  # for cosines, by turns; new memory every time is slow

    def add(self, start: int, original: FloatArray, copy: FloatArray) -> None:
        """Take the next (n, d) rows of both tables, the first of which has the number `start` among those here."""
        if not self._k:
            return
        needed = len(original) * len(self._sides[0].rows)
        if needed > len(self._room):
            self._room = np.empty(needed)
        for nearest, vectors in zip(self._sides, (original, copy), strict=True):
            nearest.add(self._part.first + start, vectors, self._room)

    @property
    def recall(self) -> float:
        """The share of nearest rows that both have in common; 1 for a single row, which has no neighbours to lose."""
        if not self._k:
            return 1.0
        before, after = (nearest.of_all(self._part) for nearest in self._sides)
        return float((before[:, :, None] == after[:, None, :]).any(axis=2).mean())


def sampled_rows(count: int, dim: int) -> IntArray:
    """The rows of a table of N rows and d dimensions that are asked for their nearest, in order."""
    most = max(_FEWEST_QUERIES, min(QUERIES, _MULTIPLICATIONS // (count * dim)))
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


class NearestRows:
    """The rows with the largest cosines to some queries, of rows that come chunk by chunk.

    Args:
        queries: (q, d) vectors.
        own_rows: (q,) the rows that the queries are, which are left out.
        count: how many to find for each: `rows` holds them, (q, count), nearest first.
    """

    def __init__(self, queries: FloatArray, own_rows: IntArray, count: int) -> None:
        self._queries = _units(queries)
        self._own_rows = own_rows
        self.rows = np.zeros((len(queries), count), dtype=np.int64)
        self._nearness = np.full((len(queries), count), -2 * _DIGITS, dtype=np.int64)

    def add(self, start: int, vectors: FloatArray, room: npt.NDArray[np.float64]) -> None:
        """Take the next (n, d) rows, the first of which has the number `start`; `room` is for q·n numbers or more."""
        # In float64: float32 cannot tell the cosines of rows that are close together.
        units, shape = _units(vectors), (len(self._queries), len(vectors))
        cosines = np.matmul(self._queries, units.T, out=room[: shape[0] * shape[1]].reshape(shape))
        mine = np.flatnonzero((self._own_rows >= start) & (self._own_rows < start + len(vectors)))
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

    def _candidates(self, cosines: npt.NDArray[np.float64]) -> tuple[IntArray, IntArray]:
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


def _units(vectors: FloatArray) -> npt.NDArray[np.float64]:
    """(n, d) vectors at length 1; zero stays zero. In float64, where no square of a float32 is out of range."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    np.divide(wide, lengths, out=wide, where=lengths > 0)
    return wide


def _rounded(cosines: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.rint(cosines * _DIGITS).astype(np.int64)
