"""The levels and the class of each row: the least squared error plus λ times bits.

A row takes as many bytes as its class says, however many bits its levels need. Paths of neighbouring λ differ by leaps
of some ten bits, so that λ is no means to fill a row to its end. Instead a row takes the shortest class that the best
path fits into. What is left of its last bytes says of its first coordinates on which side of their level they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.transform.level_tables import LevelTables
from kdcode.codec.transform.trellis import unsigned
from kdcode.codec.transform.viterbi import FAR, LevelCosts, best_paths
from kdcode.errors import OptionError

_MARGIN, _MARGIN_PER_LEVEL = 0.05, 0.0004
WORTH = 0.5
"""What a bit is worth that is left for sides, beside one that is spent on levels."""
WIDER = 1.5
"""What λ is multiplied by, again and again, for a row that does not fit into the longest class."""
MOST_WIDER = 60
_MOST_MARGIN = 32
_NUMBERS_AT_ONCE = 1 << 17

Search = Callable[..., tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
Write = Callable[..., tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]]


@dataclass(frozen=True, eq=False)
class RowProblem:
    """What a search knows of a codec.

    Args:
        tables: of levels.
        costs: the same, as what levels cost.
        contexts: (classes, d) of coordinates by class of the row.
        lengths: (classes,) bytes of a row.
        trade: λ of rows that count as usual, in squared steps for each bit.
        margin: bits that are kept free in every row.
        number_costs: (C,) bits of the number of each centroid, or None.
    """

    tables: LevelTables
    costs: LevelCosts
    contexts: IntArray
    lengths: IntArray
    trade: float
    margin: float
    number_costs: DoubleArray | None = None

    def taken(self, numbers: IntArray) -> FloatArray:
        """(n,) bits that (n, rows) numbers of centroids take."""
        if self.number_costs is None:
            return np.zeros(len(numbers), dtype=np.float32)
        return np.asarray(self.number_costs[numbers].sum(axis=1), dtype=np.float32)


def margin_of(dim: int) -> float:
    """Bits by which the coder may need more than the information in d levels."""
    return _MARGIN + _MARGIN_PER_LEVEL * dim


def search_rows(
    coordinates: FloatArray, trades: FloatArray, taken: FloatArray, allowed: IntArray, problem: RowProblem
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Levels of (n, d) coordinates in steps.

    Args:
        coordinates: rotated, centred, divided by the step.
        trades: (n,) λ of rows, in squared steps for each bit.
        taken: (n,) bits of rows that are not for levels.
        allowed: classes that rows may have, by length. Zeros must fit into the longest.
        problem: the codec.

    Returns:
        (n, d) levels with their signs, and (n,) classes.
    """
    count, dim = coordinates.shape
    sizes, signs = np.abs(coordinates), np.where(coordinates < 0, -1, 1)
    found, classes = np.zeros((count, dim), dtype=np.int64), np.zeros(count, dtype=np.int64)
    at_once = max(1, _NUMBERS_AT_ONCE // dim)
    for start in range(0, count, at_once):
        some = slice(start, start + at_once)
        own = (trades[some].astype(np.float32), taken[some])
        found[some], classes[some] = _search_chunk(sizes[some], *own, allowed, problem)
    return found * signs, classes


def fitting_rows(
    steps: tuple[Search, Write],
    coordinates: FloatArray,
    numbers: IntArray,
    trades: FloatArray,
    allowed: IntArray,
    problem: RowProblem,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(n, d) code values and (n,) classes of coordinates in steps, and (n,) for how many sides the rows have room.

    The coder rounds: a few of thousands of rows need a little more than they should, and are searched again.

    Args:
        steps: what searches for levels, and what writes them.
        coordinates: as of `search_rows`, like all that follow.
        numbers: (n, rows) of centroids, or (n, 0).
        trades: (n,) λ of rows.
        allowed: classes.
        problem: the codec.

    Raises:
        OptionError: a row fits into no class, not even as zeros.
    """
    search, write = steps
    levels, classes = search(coordinates, trades, problem.taken(numbers), allowed, problem)
    values = unsigned(levels)
    room = write(values, numbers, classes)[1]
    short = np.flatnonzero(room < 0)
    if len(short):
        if problem.margin > _MOST_MARGIN:
            raise OptionError(f"lengths: rows of {problem.lengths[allowed[-1]]} bytes are too short for any code")
        tighter = replace(problem, margin=problem.margin + 1)
        again = fitting_rows(steps, coordinates[short], numbers[short], trades[short], allowed, tighter)
        values[short], classes[short], room[short] = again
    return values, classes, room


def _search_chunk(
    sizes: FloatArray, trade: FloatArray, taken: FloatArray, allowed: IntArray, problem: RowProblem
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(n, d) magnitudes and (n,) classes of (n, d) absolute coordinates."""
    room, longest = 8.0 * problem.lengths[allowed] - problem.margin, len(allowed) - 1
    place = first_places(sizes, taken, allowed, problem)
    found, classes = np.zeros(sizes.shape, dtype=np.int64), np.full(len(sizes), allowed[-1])
    trade, active, is_shorter = trade.copy(), np.arange(len(sizes)), np.zeros(len(sizes), dtype=bool)
    for turn in range(MOST_WIDER + len(allowed)):
        own = allowed[place[active]]
        paths = best_paths(sizes[active], problem.contexts[own], trade[active], problem.costs)
        left = room[place[active]] - taken[active]
        worth = np.where(paths.bits <= left[:, None], paths.errors, FAR)
        final = (worth + WORTH * trade[active][:, None] * paths.bits).argmin(axis=1)
        fits = np.take_along_axis(worth, final[:, None], axis=1)[:, 0] < FAR
        found[active[fits]] = paths.magnitudes(final)[fits]
        classes[active[fits]] = own[fits]
        natural = np.take_along_axis(paths.bits, paths.total.argmin(axis=1)[:, None], axis=1)[:, 0]
        is_longest = place[active] == longest
        trade[active[is_longest & ~fits]] *= np.float32(WIDER)
        shorter = fits & (turn == 0) & (place[active] > 0)
        shorter &= natural <= room[np.maximum(place[active] - 1, 0)] - taken[active]
        longer = ~fits & ~is_shorter[active]  # one that was tried for being shorter has a code already
        is_shorter[active] = shorter
        place[active] = np.where(shorter, place[active] - 1, np.minimum(place[active] + 1, longest))
        active = active[shorter | longer]
        if not len(active):
            break
    return found, classes  # those that never fit stay zero, in the longest class


def first_places(sizes: FloatArray, taken: FloatArray, allowed: IntArray, problem: RowProblem) -> npt.NDArray[np.int64]:
    """(n,) the first class, as a place among those allowed, that levels of a plain scalar quantizer fit into.

    Found by bisection: rows that fit into a class fit into longer ones.
    """
    level = np.minimum((sizes / 2 + np.float32(0.4)).astype(np.int64), problem.costs.bits.shape[1] - 1)
    low, high = np.zeros(len(sizes), dtype=np.int64), np.full(len(sizes), len(allowed) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        own = allowed[middle]
        bits = problem.costs.bits[2 * problem.contexts[own], level].sum(axis=1)
        fits = bits <= 8.0 * problem.lengths[own] - problem.margin - taken
        low, high = np.where(fits | (low >= high), low, middle + 1), np.where(fits & (low < high), middle, high)
    return low
