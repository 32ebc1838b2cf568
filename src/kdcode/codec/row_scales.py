"""Row scales: a few bits of each code for the length of its vector, beside positions that quantize its direction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray
from kdcode.codec.codeword_spec import MAX_SCALE_BITS
from kdcode.errors import OptionError

_ITERATIONS = 20


def fit_levels(scales: FloatArray, bits: int) -> FloatArray:
    """2^bits levels, in rising order, that lie where (N,) scales do, by k-means on their logarithms.

    Scales of 0 keep a level of their own.
    """
    if not 1 <= bits <= MAX_SCALE_BITS:
        raise OptionError(f"scale_bits must be 1 to {MAX_SCALE_BITS}, got {bits}")
    positive = scales[scales > 0]
    zeros = len(positive) < len(scales)
    free = (1 << bits) - zeros
    centres = _kmeans_on_a_line(np.log(positive.astype(np.float64)), free) if len(positive) else np.zeros(free)
    levels = np.exp(centres).astype(np.float32)
    return np.concatenate([np.zeros(1, dtype=np.float32), levels]) if zeros else levels


def nearest_level(scales: FloatArray, levels: FloatArray) -> npt.NDArray[np.int64]:
    """(N,) places of the levels, which rise, that are nearest to scales by their ratio; 0 takes the lowest."""
    borders = np.sqrt(levels[1:].astype(np.float64) * levels[:-1])
    return np.asarray(np.searchsorted(borders, scales), dtype=np.int64)


def directions(vectors: FloatArray) -> FloatArray:
    """(…, d) vectors made 1 long; those that are 0 stay so."""
    wide = np.asarray(vectors, dtype=np.float64)  # squares of very long and very short vectors leave float32
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    return np.asarray(np.divide(wide, lengths, where=lengths > 0, out=np.zeros_like(wide)), dtype=np.float32)


def length_ratios(vectors: FloatArray | DoubleArray, copies: FloatArray) -> FloatArray:
    """(N,) what makes copies as long as vectors; 1 where a copy is 0."""
    lengths, near = (np.linalg.norm(np.asarray(rows, dtype=np.float64), axis=1) for rows in (vectors, copies))
    ratios = np.divide(lengths, near, where=near > 0, out=np.ones_like(lengths))
    return np.asarray(np.minimum(ratios, np.finfo(np.float32).max), dtype=np.float32)


def _kmeans_on_a_line(values: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.float64]:
    """`count` centres, in order, from even steps between the smallest and the largest value."""
    ordered = np.sort(values)
    centres = np.linspace(ordered[0], ordered[-1], 2 * count + 1)[1::2]
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    for _ in range(_ITERATIONS):
        ends = np.searchsorted(ordered, (centres[1:] + centres[:-1]) / 2)
        edges = np.concatenate([[0], ends, [len(ordered)]])
        counts = np.diff(edges)
        means = np.diff(sums[edges]) / np.maximum(counts, 1)
        centres = np.where(counts > 0, means, centres)
    return np.asarray(centres)
