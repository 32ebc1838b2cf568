"""The best codewords for given codes: linear least squares, solved exactly or by conjugate gradients.

The matrix A of the normal equations counts how often codewords are used together. Where it would be too large, it is
never formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import _core
from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.learning.linalg.principal import multiply
from kdcode.learning.ranks import ALONE, Ranks
from kdcode.threads import parallel_chunks

_MOST_EQUATIONS = 8192
"""Up to this many codewords the matrix of the normal equations is formed (256 MiB)."""
_MOST_EXACT = 4096
"""Up to this many the equations are solved by a Cholesky factorisation, with a matrix of float64."""
_MOST_STEPS = 50
_RIDGE, _STEP_RIDGE = 1e-6, 1e-4
"""Share by which codewords are held where they are, in the exact solution and in conjugate gradients. Sums stay the
same where one position gives to another what they all have in common; without a ridge, rounding errors would decide
along such directions."""
_SUM_ROWS = 1 << 13
_NO_WEIGHTS = np.empty(0, dtype=np.float32)

Rows = Callable[[slice], FloatArray]


def solve_codewords(
    vectors: FloatArray,
    codes: IntArray,
    words: FloatArray,
    weights: FloatArray | None = None,
    *,
    steps: int | None = None,
    ranks: Ranks = ALONE,
) -> FloatArray:
    """The codewords whose sums are nearest to vectors in squared distance, for fixed codes.

    Args:
        vectors: (N, e) what the sums approximate.
        codes: (N, D) of any integer type.
        words: (D, K, e) codewords to start from; those that no row uses stay where they are.
        weights: (N,) of the rows; all 1 where left out.
        steps: of conjugate gradients, a few of which go most of the way; None solves to the end.
        ranks: whose rows these are; each gives its own, with the same codewords.

    Returns:
        (D, K, e) codewords.
    """
    length, size, dim = words.shape
    codes, words = np.ascontiguousarray(codes), np.ascontiguousarray(words)
    counted = _NO_WEIGHTS if weights is None else np.ascontiguousarray(weights, dtype=np.float32)

    def left(values: FloatArray, part: slice, rows: FloatArray) -> FloatArray:
        found = np.empty((len(rows), dim), dtype=np.float32)
        _core.subtract_words(np.ascontiguousarray(rows), values.reshape(words.shape), codes[part], found)
        return found

    gradient = ranks.all_sum(_sums_by_codeword(lambda part: left(words, part, vectors[part]), codes, words, counted))
    if length * size <= _MOST_EQUATIONS:
        counts = ranks.all_sum(_pair_counts(codes, size, counted))
        if steps is None and length * size <= _MOST_EXACT:
            return words + _solved_exactly(counts, gradient).reshape(words.shape)
        counts = np.asarray(counts, dtype=np.float32)
        diagonal = counts.diagonal()

        def apply(change: FloatArray) -> FloatArray:
            return multiply(counts, change)
    else:
        used = [np.bincount(column, weights, minlength=size) for column in codes.T]
        diagonal = ranks.all_sum(np.concatenate(used).astype(np.float32))

        def apply(change: FloatArray) -> FloatArray:
            def composed(part: slice) -> FloatArray:
                return left(-change, part, np.zeros((len(codes[part]), dim), dtype=np.float32))

            return ranks.all_sum(_sums_by_codeword(composed, codes, words, counted))

    return words + _conjugate_gradients(apply, gradient, diagonal, steps or _MOST_STEPS).reshape(words.shape)


def _solved_exactly(counts: npt.NDArray[Any], gradient: FloatArray) -> FloatArray:
    """The change of (D·K, e) codewords, for (D·K, D·K) counts."""
    matrix = counts.astype(np.float64)
    diagonal = matrix.diagonal()
    np.fill_diagonal(matrix, diagonal + np.where(diagonal > 0, _RIDGE * diagonal, 1))
    return np.asarray(np.linalg.solve(matrix, gradient.astype(np.float64)), dtype=np.float32)


def _pair_counts(codes: IntArray, size: int, weights: FloatArray) -> npt.NDArray[Any]:
    """(D·K, D·K): how many rows, by weight, use both of two codewords.

    Whole numbers are exact in float32. Sums of weights are float64: rounded, they may belong to no table at all.
    """
    length = codes.shape[1]
    counts: npt.NDArray[Any] = np.zeros((length, size, length, size), np.float64 if len(weights) else np.float32)
    add = _core.count_pairs_by_weight if len(weights) else _core.count_pairs

    def count(pair: tuple[int, int]) -> None:
        first, second = pair
        found = np.zeros((size, size), counts.dtype)
        add(codes, first, second, weights, found)
        counts[first, :, second] = found
        counts[second, :, first] = found.T

    parallel_chunks(count, [(first, second) for first in range(length) for second in range(first, length)])
    return counts.reshape(length * size, length * size)


def _sums_by_codeword(rows: Rows, codes: IntArray, words: FloatArray, weights: FloatArray) -> FloatArray:
    """(D·K, e): for each codeword of a (D, K, e) codebook the sum of the rows that use it, by weight.

    Rows (n, e) are asked for a part of the table at a time, so that they need not all be there at once.
    """
    sums = np.zeros_like(words)
    for start in range(0, len(codes), _SUM_ROWS):
        part = slice(start, start + _SUM_ROWS)
        summed, chosen = rows(part), codes[part]

        def add_up(position: int, summed: FloatArray = summed, chosen: IntArray = chosen) -> None:
            _core.add_rows(summed, chosen, position, weights[part], 0, sums[position])  # noqa: B023

        parallel_chunks(add_up, range(len(sums)))
    return sums.reshape(-1, words.shape[2])


def _conjugate_gradients(
    apply: Callable[[FloatArray], FloatArray], b: FloatArray, diagonal: FloatArray, steps: int
) -> FloatArray:
    """Solve A x = b for (n, e) columns, each with step sizes of its own, preconditioned by A's (n,) diagonal.

    The letters are the usual ones: residual r, preconditioned residual z, direction p, step sizes alpha and beta.
    """
    inverse = np.where(diagonal > 0, 1 / np.maximum(diagonal, 1e-30), 0).astype(np.float32)[:, None]
    x = np.zeros_like(b)
    r = b.copy()
    p = z = inverse * r
    rz = _dots(r, z)
    first = rz.sum()
    for _ in range(steps):
        if rz.sum() <= 1e-10 * first:
            break
        ap = apply(p) + np.float32(_STEP_RIDGE) * diagonal[:, None] * p
        pap = _dots(p, ap)
        alpha = np.divide(rz, pap, out=np.zeros_like(rz), where=pap > 0)  # only rounding is left of a solved column
        x += alpha * p
        r -= alpha * ap
        z = inverse * r
        new_rz = _dots(r, z)
        p = z + np.divide(new_rz, rz, out=np.zeros_like(rz), where=rz > 0) * p
        rz = new_rz
    return x


def _dots(left: FloatArray, right: FloatArray) -> FloatArray | DoubleArray:
    """(e,) dot products of the columns of (n, e) arrays."""
    return np.asarray(np.einsum("ne,ne->e", left, right))
