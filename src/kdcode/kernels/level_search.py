"""The search for the levels and the class of each row of transform codes; see `kdcode.codec.transform.row_search`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.kernels.packed import kernel, part

Array = npt.NDArray[Any]
F = np.float32
_FAR = F(1e30)
_HALF = F(0.5)


@part
def _choose(size: float, context: int, trade: float, bits: Array, shifts: Array, best: Array, level: Array) -> None:
    """By quantizer and parity: the cost, bits and error of the best magnitude into `best`, the magnitude to `level`."""
    most = bits.shape[1] - 1
    for quantizer in range(2):
        table = 2 * context + quantizer
        shift = shifts[table]
        own = 2 * quantizer
        best[own, 0] = _FAR
        best[own + 1, 0] = _FAR
        nearest = int((size + F(quantizer)) / F(2) + _HALF)
        for away in range(-2, 3):
            tried = nearest + away if away < 2 else 0
            if tried > most:
                tried = most - ((tried - most) & 1)
            if tried < 0:
                continue
            lies = F(2 * tried - quantizer) - shift if tried > 0 else F(0)
            lost = (size - lies) * (size - lies)
            taken = bits[table, tried]
            cost = lost + trade * taken
            at = own + (tried & 1)
            if cost < best[at, 0]:
                best[at, 0] = cost
                best[at, 1] = taken
                best[at, 2] = lost
                level[at] = tried


@part
def _walk(
    sizes: Array,
    own: Array,
    trade: float,
    bits: Array,
    shifts: Array,
    following: Array,
    ends: Array,
    spare: Array,
    chosen: Array,
    before: Array,
) -> None:
    """The best path into each state: `ends` takes (states, 3) total, bits and error."""
    states = len(following)
    best = np.empty((4, 3), F)
    level = np.empty(4, np.int32)
    for state in range(states):
        ends[state, 0] = _FAR
        ends[state, 1] = F(0)
        ends[state, 2] = F(0)
    ends[0, 0] = F(0)
    for i in range(len(sizes)):
        _choose(sizes[i], own[i], trade, bits, shifts, best, level)
        for state in range(states):
            spare[state, 0] = _FAR
        for state in range(states):
            if ends[state, 0] >= _FAR:
                continue
            for parity in range(2):
                at = 2 * (state & 1) + parity
                target = following[state, parity]
                reached = ends[state, 0] + best[at, 0]
                if reached < spare[target, 0]:
                    spare[target, 0] = reached
                    spare[target, 1] = ends[state, 1] + best[at, 1]
                    spare[target, 2] = ends[state, 2] + best[at, 2]
                    chosen[i, target] = level[at]
                    before[i, target] = state
        for state in range(states):
            for kind in range(3):
                ends[state, kind] = spare[state, kind]


@part
def _trace(final: int, chosen: Array, before: Array, found: Array) -> None:
    state = final
    for i in range(len(found) - 1, -1, -1):
        found[i] = chosen[i, state]
        state = before[i, state]


@part
def _scalar_bits(sizes: Array, own: Array, bits: Array) -> Any:
    total, most = F(0), bits.shape[1] - 1
    for i in range(len(sizes)):
        total += bits[2 * own[i], min(int(sizes[i] / F(2) + F(0.4)), most)]
    return total


@part
def _first_place(sizes: Array, contexts: Array, lengths: Array, allowed: Array, bits: Array, margin: float) -> int:
    low, high = 0, len(allowed) - 1
    while low < high:
        middle = (low + high) // 2
        own = allowed[middle]
        if _scalar_bits(sizes, contexts[own], bits) <= 8.0 * lengths[own] - margin:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def search_rows(  # noqa: PLR0912 - a call of another kernel would hand over all arrays again
    coordinates: Array, trades: Array, codec: tuple[Array, ...], settings: Array, levels: Array, classes: Array
) -> None:
    """Levels and classes of (n, d) coordinates in steps.

    Args:
        coordinates: float32.
        trades: (n,) λ of rows, float32.
        codec: contexts (classes, d), lengths (classes,), allowed classes, bits, shifts, following states.
        settings: margin, what a bit for sides is worth, by how much λ is raised, how often at most.
        levels: (n, d) takes the levels with their signs.
        classes: (n,) takes the classes.
    """
    contexts, lengths, allowed, bits, shifts, following = codec
    margin, worth, wider = settings[0], F(settings[1]), F(settings[2])
    dim, states, longest = coordinates.shape[1], len(following), len(allowed) - 1
    sizes, ends, spare = np.empty(dim, F), np.empty((states, 3), F), np.empty((states, 3), F)
    chosen, before = np.empty((dim, states), np.int32), np.empty((dim, states), np.uint8)
    found = np.empty(dim, np.int32)
    for row in range(len(coordinates)):
        for i in range(dim):
            sizes[i] = abs(coordinates[row, i])
        trade, is_shorter = trades[row], False
        place = _first_place(sizes, contexts, lengths, allowed, bits, margin)
        classes[row] = allowed[longest]
        for i in range(dim):
            levels[row, i] = 0  # zeros fit into the longest rows in any case
        for turn in range(int(settings[3]) + len(allowed)):
            own = allowed[place]
            room = 8.0 * lengths[own] - margin
            _walk(sizes, contexts[own], trade, bits, shifts, following, ends, spare, chosen, before)
            natural, final, least, least_worth = F(0), -1, _FAR, _FAR
            for state in range(states):
                if ends[state, 0] < least:
                    least, natural = ends[state, 0], ends[state, 1]
                value = ends[state, 2] + worth * trade * ends[state, 1]
                if ends[state, 0] < _FAR and ends[state, 1] <= room and value < least_worth:
                    least_worth, final = value, state
            if final >= 0:
                classes[row] = own
                _trace(final, chosen, before, found)
                for i in range(dim):
                    levels[row, i] = -found[i] if coordinates[row, i] < 0 else found[i]
                if turn > 0 or place == 0 or natural > 8.0 * lengths[allowed[place - 1]] - margin:
                    break
                is_shorter = True
                place -= 1
            elif is_shorter:  # it was tried for being shorter, and has a code already
                break
            elif place == longest:
                trade *= wider
            else:
                place += 1
