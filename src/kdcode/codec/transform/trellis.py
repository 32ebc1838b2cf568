"""The trellis of dependent quantization: two interleaved scalar quantizers, and which one a coordinate has.

Quantizer 0 has the even multiples of the step, quantizer 1 the odd ones and zero. Level k of quantizer q stands for the
multiple `2|k| - q` (0 for k = 0) with the sign of k. Which quantizer a coordinate has follows from the levels before
it: a state machine reads their parities, and its lowest bit is the quantizer. Together the two are as fine as one with
half the spacing, while a level costs as many bits as one of the coarser. Finding the best levels is a search for the
shortest path through the states, which the Viterbi algorithm solves exactly.

The state machines are Ungerboeck's trellis codes for one dimension (1982), as systematic feedback encoders.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import IntArray

StateTable = npt.NDArray[np.int64]

_PARITY_CHECKS = {1: (0, 0), 4: (0o5, 0o2), 8: (0o13, 0o4), 16: (0o23, 0o4), 32: (0o45, 0o10)}
"""The polynomials h0 and h1 of each state machine. One state is the plain scalar quantizer."""

STATES = tuple(_PARITY_CHECKS)
"""How many states a trellis may have."""


@cache
def transitions(states: int) -> StateTable:
    """(states, 2) the state that follows each state, by the parity of the level."""
    feedback, forward = _PARITY_CHECKS[states]
    memory = states.bit_length() - 1
    following = np.zeros((states, 2), dtype=np.int64)
    for state in range(states):
        for parity in (0, 1):
            for bit in range(memory):
                shifted = state >> (bit + 1) & 1
                fed_back = state & 1 & feedback >> (bit + 1)
                fed_in = parity & forward >> (bit + 1)
                following[state, parity] |= (shifted ^ fed_back ^ fed_in) << bit
    following.flags.writeable = False
    return following


@cache
def arrivals(states: int) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """The two ways into each state: from which state, by a level of which parity."""
    following = transitions(states)
    ways = [[(int(s), int(p)) for s, p in zip(*np.nonzero(following == to), strict=True)] for to in range(states)]
    return tuple((one, other) for one, other in ways)


def signed(values: IntArray) -> npt.NDArray[np.int64]:
    """Levels of code values: 0, 1, 2, 3, 4 stand for 0, 1, -1, 2, -2."""
    values = np.asarray(values, dtype=np.int64)
    return np.where(values & 1, (values + 1) >> 1, -(values >> 1))


def unsigned(levels: IntArray) -> npt.NDArray[np.int64]:
    """Code values of levels; undoes `signed`."""
    levels = np.asarray(levels, dtype=np.int64)
    return np.where(levels > 0, 2 * levels - 1, -2 * levels)


def parity(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whether the levels of code values are odd."""
    return (values + 1) >> 1 & 1


def states_before(values: IntArray, states: int, first: IntArray | None = None) -> npt.NDArray[np.uint8]:
    """(n, d) the state at each coordinate, of (n, d) code values; the first coordinate has state 0, or (n,) `first`."""
    following = transitions(states).reshape(-1).astype(np.uint8)
    odd = parity(np.asarray(values, dtype=np.int64)).T.astype(np.uint8)  # a position after the other in memory
    found = np.zeros(odd.shape, dtype=np.uint8)
    if first is not None:
        found[0] = first
    for position in range(1, len(odd)):
        found[position] = following[2 * found[position - 1] + odd[position - 1]]
    return np.ascontiguousarray(found.T)
