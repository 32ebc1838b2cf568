"""Levels of many rows at once by the Viterbi algorithm: the least squared error plus λ times bits, over all paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray, IntArray
from kdcode.codec.transform.trellis import arrivals

FAR = np.float32(1e30)
"""The cost of a state that no path reaches."""
_TRIED = (-2, -1, 0, 1, None)
"""Magnitudes that are tried, from the nearest one of each quantizer; None is zero. Smaller ones cost fewer bits."""


@dataclass(frozen=True, eq=False)
class LevelCosts:
    """What levels cost and stand for.

    Args:
        bits: (2T, M + 1) of a level by its magnitude; table 2t + q is that of context t and quantizer q.
        shifts: (2T,) by how much levels other than 0 lie nearer to zero, in steps.
        states: of the trellis.
    """

    bits: FloatArray
    shifts: FloatArray
    states: int


@dataclass(frozen=True, eq=False)
class Paths:
    """The best path into each final state.

    Args:
        bits: (n, states) of the levels.
        errors: (n, states) squared, in steps; FAR for states that are not reached.
        total: (n, states) errors plus λ times bits.
    """

    bits: FloatArray
    errors: FloatArray
    total: FloatArray
    _chosen: npt.NDArray[np.int32]
    _before: npt.NDArray[np.uint8]

    def magnitudes(self, final: IntArray) -> npt.NDArray[np.int32]:
        """(n, d) magnitudes of the levels on the path that ends in (n,) states."""
        dim, count, _ = self._chosen.shape
        found = np.empty((count, dim), dtype=np.int32)
        rows, state = np.arange(count), np.asarray(final)
        for position in range(dim - 1, -1, -1):
            found[:, position] = self._chosen[position, rows, state]
            state = self._before[position, rows, state]
        return found


def best_paths(sizes: FloatArray, contexts: IntArray, trade: FloatArray, costs: LevelCosts) -> Paths:
    """The best paths of (n, d) absolute coordinates in steps, with (n, d) contexts and (n,) λ."""
    count, dim = sizes.shape
    total = np.full((count, costs.states), FAR)
    total[:, 0] = 0
    bits, errors = np.zeros_like(total), np.zeros_like(total)
    chosen = np.empty((dim, count, costs.states), dtype=np.int32)
    before = np.empty((dim, count, costs.states), dtype=np.uint8)
    ways = arrivals(costs.states)
    for position in range(dim):
        level, bit, error = _choices(sizes[:, position], contexts[:, position], trade, costs)
        cost = error + trade[:, None, None] * bit
        new_total, new_errors, new_bits = np.full_like(total, FAR), np.full_like(errors, FAR), np.zeros_like(bits)
        for state in range(costs.states):
            for source, parity in ways[state]:
                own = (source & 1, parity)
                reached = total[:, source] + cost[:, *own]
                better = reached < new_total[:, state]
                new_total[:, state] = np.where(better, reached, new_total[:, state])
                new_bits[:, state] = np.where(better, bits[:, source] + bit[:, *own], new_bits[:, state])
                new_errors[:, state] = np.where(better, errors[:, source] + error[:, *own], new_errors[:, state])
                chosen[position, :, state] = np.where(better, level[:, *own], chosen[position, :, state])
                before[position, :, state] = np.where(better, source, before[position, :, state])
        total, bits, errors = new_total, new_bits, new_errors
    return Paths(bits, errors, total, chosen, before)


def _choices(
    sizes: FloatArray, contexts: IntArray, trade: FloatArray, costs: LevelCosts
) -> tuple[npt.NDArray[np.int32], FloatArray, FloatArray]:
    """(n, 2, 2) by quantizer and parity: the best magnitude of a coordinate, its bits and its squared error."""
    most = costs.bits.shape[1] - 1
    shape = (len(sizes), 2, 2)
    level, bit, error = np.zeros(shape, dtype=np.int32), np.zeros(shape, np.float32), np.full(shape, FAR, np.float32)
    best = np.full(shape, FAR, np.float32)
    for quantizer in (0, 1):
        table = 2 * contexts + quantizer
        nearest = ((sizes + quantizer) / 2 + np.float32(0.5)).astype(np.int32)
        for away in _TRIED:
            tried = np.zeros_like(nearest) if away is None else nearest + away
            over = tried > most
            tried = np.where(over, most - (tried - most & 1), tried)  # of the same parity
            some = tried >= 0
            tried = np.maximum(tried, 0)
            lies = np.where(tried > 0, 2 * tried - quantizer - costs.shifts[table], 0).astype(np.float32)
            lost = np.square(sizes - lies)
            taken = costs.bits[table, tried]
            cost = np.where(some, lost + trade * taken, FAR)
            for parity in (0, 1):
                better = (cost < best[:, quantizer, parity]) & (tried & 1 == parity)
                for array, value in ((best, cost), (level, tried), (bit, taken), (error, lost)):
                    array[better, quantizer, parity] = value[better]
    return level, bit, error
