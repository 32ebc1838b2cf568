"""The search for the levels and the class of each row of transform codes; see `kdcode.codec.transform.row_search`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.kernels.packed import U, kernel, part
from kdcode.kernels.vectors import view_of

Array = npt.NDArray[Any]
F = np.float32
_FAR = F(1e30)
_HALF = F(0.5)


@part
def _choose(
    size: float, table: int, trade: float, tables: tuple[Array, int, Array], best: Array, levels: Array, first: int
) -> None:
    """The best magnitude for each quantizer and parity: four costs, bits and errors, one after another, to `best`.

    `table` is that of the first quantizer. The magnitudes go to `levels`, from `first` on.
    """
    bits, width, shifts = tables
    most = width - 1
    for quantizer in range(2):
        shift, begin = shifts[U(table + quantizer)], (table + quantizer) * width
        best[U(2 * quantizer)] = _FAR
        best[U(2 * quantizer + 1)] = _FAR
        nearest = np.int64((size + F(quantizer)) / F(2) + _HALF)
        for away in range(-2, 3):
            tried = nearest + away if away < 2 else 0
            if tried > most:
                tried = most - ((tried - most) & 1)
            if tried < 0:
                continue
            lies = F(2 * tried - quantizer) - shift if tried > 0 else F(0)
            lost = (size - lies) * (size - lies)
            taken = bits[U(begin + tried)]
            cost = lost + trade * taken
            at = 2 * quantizer + (tried & 1)
            if cost < best[U(at)]:
                best[U(at)] = cost
                best[U(4 + at)] = taken
                best[U(8 + at)] = lost
                levels[U(first + at)] = tried


@part
def _walk(
    sizes: Array,
    contexts: Array,
    begin: int,
    trade: float,
    tables: tuple[Array, int, Array],
    arrivals: Array,
    scratch: tuple[Array, Array, Array],
    levels: Array,
    chosen: Array,
) -> None:
    """The best path into each state: `ends`, the first of `scratch`, takes the totals of all states, bits and errors.

    Args:
        sizes: (d,) absolute coordinates.
        contexts: of coordinates, from `begin` on.
        begin: where those of this row begin.
        trade: λ.
        tables: bits of magnitudes, how many each table has, shifts.
        arrivals: (states · 4,) the two ways into each state: from which state, and with which of the four choices.
        scratch: `ends`, as much again, and room for the four choices.
        levels: (4 d,) takes the four magnitudes of each coordinate.
        chosen: (d · states,) takes by which of its two ways the best path came to a state.
    """
    ends, spare, best = scratch
    states = len(arrivals) // 4
    for place in range(3 * states):
        ends[U(place)] = _FAR if 0 < place < states else F(0)
    for i in range(len(sizes)):
        table = 2 * np.int64(contexts[U(begin + i)])
        _choose(sizes[U(i)], table, trade, tables, best, levels, 4 * i)
        for state in range(states):
            one, by_one = arrivals[U(4 * state)], arrivals[U(4 * state + 1)]
            other, by_other = arrivals[U(4 * state + 2)], arrivals[U(4 * state + 3)]
            total, total_of_other = ends[U(one)] + best[U(by_one)], ends[U(other)] + best[U(by_other)]
            is_other = total_of_other < total
            source, by = (other, by_other) if is_other else (one, by_one)
            spare[U(state)] = total_of_other if is_other else total
            spare[U(states + state)] = ends[U(states + source)] + best[U(4 + by)]
            spare[U(2 * states + state)] = ends[U(2 * states + source)] + best[U(8 + by)]
            chosen[U(i * states + state)] = is_other
        for place in range(3 * states):
            ends[U(place)] = spare[U(place)]


@part
def _trace(final: int, arrivals: Array, levels: Array, chosen: Array, coordinates: Array, found: Array) -> None:
    """Levels of the best path into a state, with the signs of coordinates."""
    state, states = np.int64(final), len(arrivals) // 4
    for i in range(len(found) - 1, -1, -1):
        way = 4 * state + 2 * np.int64(chosen[U(i * states + state)])
        level = levels[U(4 * i + arrivals[U(way + 1)])]
        found[U(i)] = -level if coordinates[U(i)] < 0 else level
        state = arrivals[U(way)]


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
def search_rows(
    coordinates: Array,
    trades: Array,
    spent: Array,
    codec: tuple[Array, ...],
    settings: Array,
    levels: Array,
    classes: Array,
) -> None:
    """Levels and classes of (n, d) coordinates in steps.

    Args:
        coordinates: float32.
        trades: (n,) λ of rows, float32.
        spent: (n,) bits of rows that are not for levels, float32.
        codec: contexts (classes, d), lengths (classes,), allowed classes, bits, shifts, arrivals (see `_walk`).
        settings: margin, what a bit for sides is worth, by how much λ is raised, how often at most.
        levels: (n, d) takes the levels with their signs.
        classes: (n,) takes the classes.
    """
    contexts, lengths, allowed, bits, shifts, arrivals = codec
    worth, wider = F(settings[1]), F(settings[2])
    dim, states, longest = coordinates.shape[1], len(arrivals) // 4, len(allowed) - 1
    sizes, ends, spare, best = np.empty(dim, F), np.empty(3 * states, F), np.empty(3 * states, F), np.empty(12, F)
    four, chosen = np.empty(4 * dim, np.int32), np.empty(dim * states, np.uint8)
    # Views of arguments alone: numba frees an array of its own after its last use, whoever has a view of it.
    tables = (view_of(bits.reshape(-1)), bits.shape[1], view_of(shifts))
    own_contexts, ways = view_of(contexts.reshape(-1)), view_of(arrivals)
    scratch = (ends, spare, best)
    for row in range(len(coordinates)):
        for i in range(dim):
            sizes[i] = abs(coordinates[row, i])
        trade, is_shorter, margin = trades[row], False, settings[0] + spent[row]
        place = _first_place(sizes, contexts, lengths, allowed, bits, margin)
        classes[row] = allowed[longest]
        for i in range(dim):
            levels[row, i] = 0  # zeros fit into the longest rows in any case
        for turn in range(int(settings[3]) + len(allowed)):
            own = allowed[place]
            room = 8.0 * lengths[own] - margin
            _walk(sizes, own_contexts, own * dim, trade, tables, ways, scratch, four, chosen)
            natural, final, least, least_worth = F(0), -1, _FAR, _FAR
            for state in range(states):
                total, taken, lost = ends[U(state)], ends[U(states + state)], ends[U(2 * states + state)]
                if total < least:
                    least, natural = total, taken
                value = lost + worth * trade * taken
                if total < _FAR and taken <= room and value < least_worth:
                    least_worth, final = value, state
            if final >= 0:
                classes[row] = own
                _trace(final, ways, four, chosen, coordinates[row], levels[row])
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
