"""Coordinates as they are, where they are worth more than principal directions, and tables of few distinct values.

A rotation makes the most of correlations, and mixes coordinates until they are nearly normal. Where many of them are
exactly zero, as after a ReLU or in sparse factors, that costs more than it gains: zeros take a fraction of a bit, and
nothing is lost with them. Covariances do not show this, so both are tried on some rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kdcode.arrays import FloatArray
from kdcode.learning.transform.rotation import Rotation
from kdcode.learning.transform.sampling import ScaledRows

_FREQUENT, _LEAST_TIMES = 0.1, 8
"""The share of rows, and the number of them, that have a value which is frequent."""
_CLEARLY_LESS = 0.9
"""How much less, as a share, has to be lost without a rotation."""
_NUMBERS, _LEAST_ROWS = 1 << 18, 512
"""Of the rows that both are tried on."""
_MOST_LEVEL = 1000
"""Larger levels are counted as escapes."""
_FIRST_STEP, _OCTAVES = 8.0, 48
"""The step that is tried first, in spreads of the widest coordinate, and how often it is halved at most."""
_DISTINCT_NUMBERS, _MOST_VALUES = 1 << 18, 64
"""Numbers that are looked at for values that are few, and how many these may be."""
_UNEVEN = 1e-3
"""How far values may lie from even places, in spacings."""
_NUMBERS_PER_BIN = 12
"""Numbers, other than zero, for each level that is used: with fewer, counts no longer tell an entropy."""


def better_basis(rotation: Rotation, rows: ScaledRows, count: int, bits: float) -> Rotation:
    """The rotation, or none where that loses clearly less.

    Args:
        rotation: the best one by the covariance; it may be none.
        rows: a sample of the table.
        count: rows of the final table, which share what a rotation takes.
        bits: of a row, all in all.
    """
    every = max(1, len(rows.vectors) // max(_LEAST_ROWS, _NUMBERS // rotation.dim))
    some = ScaledRows(rows.vectors[::every], None if rows.weights is None else rows.weights[::every])
    plain = Rotation({"mean": frequent_values(rows.vectors, rotation.tensors["mean"])})
    if not rotation.reflections and np.array_equal(plain.tensors["mean"], rotation.tensors["mean"]):
        return rotation
    errors = [
        scalar_error(some.scaled(basis.rotated(some.vectors)), bits - 8.0 * basis.nbytes / count)
        for basis in (rotation, plain)
    ]
    return plain if errors[1] < _CLEARLY_LESS * errors[0] else rotation


def frequent_values(vectors: FloatArray, otherwise: FloatArray) -> FloatArray:
    """(d,) the most frequent value of each coordinate of (n, d) vectors if it is frequent, and `otherwise` if not."""
    every = max(1, int(_FREQUENT * len(vectors)))
    found, most = otherwise.copy(), np.full(len(otherwise), max(every, _LEAST_TIMES) - 1)
    for value in np.sort(vectors, axis=0)[every - 1 :: every]:  # one of them is equal to any value so frequent
        times = (vectors == value).sum(axis=0)
        found, most = np.where(times > most, value, found), np.maximum(times, most)
    return np.asarray(found, dtype=np.float32)


def scalar_error(coordinates: FloatArray, bits: float) -> float:
    """The squared error of a row, if each coordinate is rounded and entropy-coded by itself, in so many bits in all.

    One step serves all coordinates. Bits are the entropies of magnitudes, and one for each sign where there are both;
    what comes back is the mean of what was rounded to the same. Where the rows are too few to tell the entropy of a
    small step, every halving is expected to take a bit more for each coordinate that is not zero.

    Args:
        coordinates: (n, d).
        bits: of a row.
    """
    step = _FIRST_STEP * float(np.sqrt(np.square(coordinates, dtype=np.float64).mean(axis=0).max(initial=0)))
    active = float((coordinates != 0).sum()) / len(coordinates)
    before = _Rounded(0.0, float(np.square(coordinates, dtype=np.float64).sum(axis=1).mean()), 0)
    if not step or bits <= 0:
        return before.error
    for _ in range(_OCTAVES):
        found = _rounded(coordinates, step)
        if _NUMBERS_PER_BIN * found.bins > active * len(coordinates):
            smaller = 2 * step * 2.0 ** ((before.bits - bits) / active)
            return float(min(before.error, active * smaller**2 / 12))
        if found.bits >= bits:
            share = (bits - before.bits) / (found.bits - before.bits)
            if (
                found.error < before.error / 16
            ):  # not what an octave is worth, but values that are rounded to themselves
                return (1 - share) * before.error + share * found.error
            return float(before.error ** (1 - share) * found.error**share)
        before, step = found, step / 2
    return before.error


class EvenValues(NamedTuple):
    """Values that are few and evenly spaced: how far apart they lie, and the one that others are measured from."""

    spacing: float
    middle: float


def even_values(vectors: FloatArray) -> EvenValues | None:
    """The values of (n, d) vectors, where these are few and evenly spaced; None where they are not.

    Such are hash codes, ternary rows, and counts: rotated, they would be as hard to code as normal numbers.
    """
    some = vectors[: max(1, _DISTINCT_NUMBERS // vectors.shape[1])]
    found, times = np.unique(some, return_counts=True)
    values = found.astype(np.float64)
    if not 2 <= len(values) <= _MOST_VALUES or len(values) * _LEAST_TIMES > some.size:
        return None
    spacing = float(np.diff(values).min())
    places = (values - values[0]) / spacing
    is_even = bool((np.abs(places - np.rint(places)) <= _UNEVEN).all()) and places[-1] <= _MOST_LEVEL
    if not is_even:
        return None
    middle = (len(values) - 1) // 2  # of two values the lower one, so that levels need no signs
    best = middle if 2 * times[middle] >= times.max() else int(times.argmax())
    return EvenValues(spacing, float(found[best]))


class _Rounded(NamedTuple):
    """Bits and squared error of a row on average, and how many levels are used in all coordinates together."""

    bits: float
    error: float
    bins: int


def _rounded(coordinates: FloatArray, step: float) -> _Rounded:
    """What comes of (n, d) coordinates that are rounded to multiples of a step."""
    count, dim = coordinates.shape
    steps = coordinates / np.float64(step)
    over = np.abs(steps) > _MOST_LEVEL
    escaped = float(2 * np.log2(np.abs(steps[over]) / _MOST_LEVEL).sum() + over.sum())
    steps = np.clip(steps, -_MOST_LEVEL, _MOST_LEVEL)
    level = np.rint(steps).astype(np.int64)
    low = level.min(axis=0)
    first = np.cumsum([0, *(level.max(axis=0) - low + 1)])
    bins = (level - low + first[:dim]).reshape(-1)
    times = np.bincount(bins, minlength=first[dim])
    sums, squares = (
        np.bincount(bins, weights=power.reshape(-1), minlength=first[dim]) for power in (steps, np.square(steps))
    )
    used = times > 0
    lost = float((squares[used] - np.square(sums[used]) / times[used]).sum()) + float(over.sum()) / 12
    sizes = np.abs(level)
    sizes += np.cumsum([0, *(sizes.max(axis=0) + 1)])[:dim]
    shares = np.bincount(sizes.reshape(-1))
    shares = shares[shares > 0]
    signs = float((level != 0).sum()) if (level < 0).any() else 0.0
    bits = escaped + signs - float((shares * np.log2(shares / count)).sum())
    return _Rounded(bits / count, step**2 * max(0.0, lost) / count, int(used.sum()))
