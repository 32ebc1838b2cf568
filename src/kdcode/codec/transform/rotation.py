"""An orthogonal matrix as a product of Householder reflections, stored in a few bits a number.

A rotation of d dimensions has half as many degrees of freedom as its matrix has numbers, and reflections have no more
than that: the j-th changes the coordinates from j on, and the first number of its vector is 1. However its numbers are
rounded, a reflection stays orthogonal. Where only the first k directions matter, k reflections lead there, and the
others stay near the axes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import DoubleArray, FloatArray

_CLIPS = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4)
"""Shares of the largest number that may become the largest integer: what is beyond is cut off."""
BITS = 4
"""Of each number of a reflection."""
_MOST_INT8 = 127
_GROUP = 8
"""Numbers that are packed together, into as many bytes as a number has bits."""
_ROWS_AT_ONCE = 256
"""Rows of a matrix that are made at a time, in float64."""
_BLOCK = 128
"""Reflections that are applied together, in the compact WY form: matrices are multiplied faster than vectors."""


def stored_numbers(reflections: int, dim: int) -> int:
    """The number of stored numbers of k reflections of d dimensions."""
    return reflections * (dim - 1) - reflections * (reflections - 1) // 2


def packed_shape(reflections: int, dim: int) -> tuple[int, int]:
    """The shape of the bytes that they take."""
    return -(-stored_numbers(reflections, dim) // _GROUP), BITS


def rounded_reflections(directions: DoubleArray) -> tuple[npt.NDArray[np.uint8], FloatArray]:
    """Reflections whose product begins with given directions, up to rounding and signs.

    Each is made from what those before it, as they were rounded, leave of its direction.

    Args:
        directions: (d, k) orthonormal columns.

    Returns:
        The packed numbers, and (k,) their scales.
    """
    left = np.array(directions, dtype=np.float64)
    dim, count = left.shape
    numbers, scales = [], np.zeros(count, dtype=np.float32)
    for start in range(0, count, _BLOCK):
        end = min(start + _BLOCK, count)
        vectors = np.zeros((end - start, dim))
        for j in range(start, end):
            vector = left[j:, j].copy()
            vector[0] += np.copysign(np.linalg.norm(vector), vector[0])
            rounded, scales[j] = _rounded(vector[1:] / (vector[0] or 1.0))
            numbers.append(rounded)
            own = _normalized(np.concatenate([[1.0], rounded * np.float64(scales[j])]))
            left[j:, j:end] -= np.outer(own, own @ left[j:, j:end])
            vectors[j - start, j:] = own
        left[:, end:] = reflected(left[:, end:].T, vectors).T
    flat = np.concatenate([*numbers, np.zeros(-stored_numbers(count, dim) % _GROUP)]) + (1 << (BITS - 1))
    return bitpack.pack(flat.astype(np.int64).reshape(-1, _GROUP), [BITS] * _GROUP), scales


def reflection_vectors(packed: npt.NDArray[np.uint8], scales: FloatArray, dim: int) -> DoubleArray:
    """(k, d) vectors, each times the root of two over its length, so that a reflection is I - v vᵀ."""
    count = len(scales)
    flat = bitpack.unpack(packed, [BITS] * _GROUP).reshape(-1)[: stored_numbers(count, dim)]
    vectors = np.zeros((count, dim))
    start = 0
    for j, scale in enumerate(scales):
        end = start + dim - 1 - j
        own = np.ones(dim - j)  # in float64, where the square of no scale overflows
        own[1:] = (flat[start:end].astype(np.float64) - (1 << (BITS - 1))) * np.float64(scale)
        vectors[j, j:] = _normalized(own)
        start = end
    return vectors


def exact_reflections(directions: DoubleArray) -> DoubleArray:
    """(k, d) vectors of the reflections whose product begins with (d, k) directions, up to signs.

    Those of the first few directions are the first of them.
    """
    count = directions.shape[1]
    vectors, factors = np.linalg.qr(directions, mode="raw")
    vectors = np.triu(vectors, 1)[:count]
    vectors[np.arange(count), np.arange(count)] = 1.0
    return np.asarray(vectors * np.sqrt(factors)[:, None])


def reflected(rows: npt.NDArray[np.floating], vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """(n, d) rows times the product of reflections."""
    found = rows.copy()
    for start in range(0, len(vectors), _BLOCK):
        some = vectors[start : start + _BLOCK]
        found -= (found @ some.T) @ (_triangle(some) @ some)
    return found


def product(vectors: DoubleArray, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
    """(k, d) reflection vectors to the (d, d) matrix R that their product is: y = x R, and x = y Rᵀ."""
    found = np.empty((vectors.shape[1],) * 2, dtype=dtype)
    for some, rows in _rows_of(vectors):
        found[some] = rows
    return found


def rounded_matrix(vectors: DoubleArray) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """(d, d) int8 numbers of the same matrix and (d,) scales of its rows, by which levels are multiplied."""
    dim = vectors.shape[1]
    numbers, scales = np.empty((dim, dim), dtype=np.int8), np.empty(dim, dtype=np.float32)
    for some, rows in _rows_of(vectors):
        scales[some] = (np.abs(rows).max(axis=1) / _MOST_INT8).astype(np.float32)
        numbers[some] = np.rint(rows / scales[some, None].astype(np.float64))
    return numbers, scales


def _rows_of(vectors: DoubleArray) -> Iterator[tuple[slice, DoubleArray]]:
    """The rows of R in float64, some at a time, and where they are."""
    dim = vectors.shape[1]
    for start in range(0, dim, _ROWS_AT_ONCE):
        rows = np.zeros((min(_ROWS_AT_ONCE, dim - start), dim))
        np.fill_diagonal(rows[:, start:], 1.0)
        yield slice(start, start + len(rows)), np.asarray(reflected(rows, vectors), dtype=np.float64)


def _normalized(vector: DoubleArray) -> DoubleArray:
    """A vector v times the root of two over its length, so that its reflection is I - v vᵀ."""
    return np.asarray(vector * np.sqrt(2 / np.square(vector).sum()))


def _triangle(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """(k, k) T of I - Vᵀ T V, which is the product of the reflections of (k, d) vectors."""
    gram = vectors @ vectors.T
    found = np.eye(len(vectors), dtype=vectors.dtype)
    for j in range(1, len(vectors)):
        found[:j, j] = -found[:j, :j] @ gram[:j, j]
    return found


def _rounded(numbers: DoubleArray) -> tuple[DoubleArray, np.float32]:
    """Whole numbers, and their scale: that of the least squared error among a few."""
    most = (1 << (BITS - 1)) - 1
    largest = float(np.abs(numbers).max(initial=0))
    best, error = (np.zeros(len(numbers)), np.float32(0)), np.inf
    for clip in _CLIPS if largest > 0 else ():
        scale = np.float32(largest * clip / most)
        if scale > 0:
            whole = np.clip(np.rint(numbers / scale), -most, most)
            lost = float(np.square(whole * scale - numbers).sum())
            if lost < error:
                best, error = (whole, scale), lost
    return best
