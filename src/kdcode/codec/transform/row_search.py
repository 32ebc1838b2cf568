"""The levels and the class of each row: the least squared error plus λ times bits.

A row takes as many bytes as its class says, however many bits its levels need. Paths of neighbouring λ differ by leaps
of some ten bits, so that λ is no means to fill a row to its end. Instead a row takes the shortest class that the best
path fits into, and what is left of its last bytes says, for its first coordinates, on which side of their level they
lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray, IntArray
from kdcode.codec.transform.level_tables import LevelTables
from kdcode.codec.transform.viterbi import FAR, LevelCosts, best_paths

MARGIN, MARGIN_PER_LEVEL = 0.05, 0.0004
"""Bits by which the coder may need more than the information in a row, in all and for each level."""
WORTH = 0.5
"""What a bit is worth that is left for sides, beside one that is spent on levels."""
WIDER = 1.5
"""What λ is multiplied by, again and again, for a row that does not fit into the longest class."""
MOST_WIDER = 60
_NUMBERS_AT_ONCE = 1 << 17


@dataclass(frozen=True, eq=False)
class RowProblem:
    """What a search knows of a codec.

    Args:
        tables: of levels.
        costs: the same, as what levels cost.
        contexts: (classes, d) of coordinates by class of the row.
        lengths: (classes,) bytes of a row.
        trade: λ, in squared steps for each bit.
    """

    tables: LevelTables
    costs: LevelCosts
    contexts: IntArray
    lengths: IntArray
    trade: float

    @property
    def margin(self) -> float:
        """Bits that are kept free in every row."""
        return float(MARGIN + MARGIN_PER_LEVEL * self.contexts.shape[1])


def search_rows(
    coordinates: FloatArray, problem: RowProblem, allowed: IntArray
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Levels of (n, d) coordinates in steps.

    Args:
        coordinates: rotated, centred, divided by the step.
        problem: the codec.
        allowed: classes that rows may have, by length. Zeros must fit into the longest.

    Returns:
        (n, d) levels with their signs, and (n,) classes.
    """
    count, dim = coordinates.shape
    sizes, signs = np.abs(coordinates), np.where(coordinates < 0, -1, 1)
    found, classes = np.zeros((count, dim), dtype=np.int64), np.zeros(count, dtype=np.int64)
    at_once = max(1, _NUMBERS_AT_ONCE // dim)
    for start in range(0, count, at_once):
        some = slice(start, start + at_once)
        found[some], classes[some] = _search_chunk(sizes[some], problem, allowed)
    return found * signs, classes


def _search_chunk(
    sizes: FloatArray, problem: RowProblem, allowed: IntArray
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(n, d) magnitudes and (n,) classes of (n, d) absolute coordinates."""
    room = 8.0 * problem.lengths[allowed] - problem.margin
    place = _first_place(scalar_bits(sizes, problem, allowed), room)
    found, classes = np.zeros(sizes.shape, dtype=np.int64), np.full(len(sizes), allowed[-1])
    trade = np.full(len(sizes), problem.trade, dtype=np.float32)
    active, is_first = np.arange(len(sizes)), True
    for _ in range(MOST_WIDER + len(allowed)):
        own = allowed[place[active]]
        paths = best_paths(sizes[active], problem.contexts[own], trade[active], problem.costs)
        worth = np.where(paths.bits <= room[place[active]][:, None], paths.errors, FAR)
        final = (worth + WORTH * trade[active][:, None] * paths.bits).argmin(axis=1)
        fits = np.take_along_axis(worth, final[:, None], axis=1)[:, 0] < FAR
        natural = np.take_along_axis(paths.bits, paths.total.argmin(axis=1)[:, None], axis=1)[:, 0]
        better = _first_place(natural, room) if is_first else place[active]
        settled = fits & (better == place[active])
        found[active[settled]] = paths.magnitudes(final)[settled]
        classes[active[settled]] = own[settled]
        is_longest = place[active] == len(allowed) - 1
        trade[active[is_longest & ~fits]] *= np.float32(WIDER)
        place[active] = better if is_first else np.minimum(place[active] + 1, len(allowed) - 1)
        active, is_first = active[~settled], False
        if not len(active):
            break
    return found, classes  # those that never fit stay zero, in the longest class


def _first_place(bits: FloatArray, room: FloatArray) -> npt.NDArray[np.int64]:
    """(n,) the first of the ascending lengths, by the bits that they have room for, with room for (n,) bits."""
    return np.minimum(np.searchsorted(room, bits), len(room) - 1)


def scalar_bits(sizes: FloatArray, problem: RowProblem, allowed: IntArray) -> FloatArray:
    """(n,) about how many bits (n, d) absolute coordinates take: those of a plain scalar quantizer."""
    contexts = problem.contexts[allowed[len(allowed) // 2]]
    level = np.minimum((sizes / 2 + np.float32(0.4)).astype(np.int64), problem.costs.bits.shape[1] - 1)
    return np.asarray(problem.costs.bits[2 * contexts, level].sum(axis=1))
