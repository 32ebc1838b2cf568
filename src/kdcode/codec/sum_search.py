"""Codes of vectors under codewords that are added, found by the core on several threads.

Nearest codewords, beam search, iterated conditional modes (ICM, Besag, 1986; for additive codes Babenko and Lempitsky,
2014, and LSQ, Martinez et al., 2016), and Gibbs sampling, which draws a codeword with probability ∝ exp(−distance / T),
by adding Gumbel noise before the smallest is taken, so that codes leave the local minima in which ICM stops. Codes do
not depend on the number of threads, nor on the instruction set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import _core
from kdcode.arrays import FloatArray, IntArray
from kdcode.randomness import random_for
from kdcode.threads import parallel_chunks

_WORK = 1 << 26
"""Multiplications of one call of the core."""
_MOST_ROWS = 2048
_SWEPT_COSTS, _FEWEST_SWEPT, _MOST_SWEPT = 1 << 21, 1024, 4096
"""Costs of the rows that are swept together, and how many these are: they visit one part of a table after another."""
_SPARE_NOISE = 1 << 16
"""Offsets into Gumbel noise that is drawn once: fresh noise would take longer than everything else."""
_NO_NOISE = np.empty(0, dtype=np.float32)
_FAR = 2.0**40

Codes = npt.NDArray[np.int64]


def nearest_labels(vectors: FloatArray, words: FloatArray) -> Codes:
    """(N,) the nearest of (K, d) codewords for each of (N, d) rows; of equal distances the first."""
    vectors, words = np.ascontiguousarray(vectors), np.ascontiguousarray(words)
    labels = np.empty(len(vectors), dtype=np.int64)
    _in_chunks(lambda part: _core.nearest(vectors[part], words, labels[part]), len(vectors), words.size)
    return labels


def product(vectors: FloatArray, matrix: FloatArray) -> FloatArray:
    """(N, m): (N, k) rows times a (k, m) matrix, in the order of sums of the core: codes depend on it."""
    vectors, matrix = np.ascontiguousarray(vectors), np.ascontiguousarray(matrix)
    found = np.empty((len(vectors), matrix.shape[1]), dtype=np.float32)
    _in_chunks(lambda part: _core.multiply(vectors[part], matrix, found[part]), len(vectors), matrix.size)
    return found


class SumSearch:
    """The search under one codebook.

    Args:
        words: (D, K, e) float32 codewords whose sums approximate vectors of size e.
        first_row: the number of the first row that is searched for, where these are rows from the middle of a table;
            random numbers are drawn by row.
    """

    def __init__(self, words: FloatArray, first_row: int = 0) -> None:
        self._words = np.ascontiguousarray(words)
        self._first_row = first_row
        self._length, self._size, _ = words.shape
        self._core = _core.SumSearch(self._words)

    def __reduce__(self) -> tuple[Any, ...]:
        return SumSearch, (self._words, self._first_row)

    def encode(
        self, vectors: FloatArray, *, beam: int, sweeps: int = 0, before: IntArray | None = None
    ) -> npt.NDArray[Any]:
        """Codes by beam search: positions are chosen one after another, those of most energy first.

        Args:
            vectors: (N, e).
            beam: partial codes kept per row; 1 takes the nearest codeword of what is left, one after another.
            sweeps: passes of ICM after it.
            before: (N, D) codes that a row keeps where the new one is no nearer.

        Returns:
            (N, D) codes, of the type of those before.
        """
        vectors = np.ascontiguousarray(vectors)
        codes = np.empty((len(vectors), self._length), dtype=np.int64 if before is None else before.dtype)
        order = np.tile(np.arange(self._length, dtype=np.uint32), (sweeps, 1))

        def search(part: slice) -> None:
            self._core.encode(vectors[part], beam, codes[part])
            if sweeps:
                self._sweep(vectors[part], codes[part], order, np.zeros(sweeps, dtype=np.float32))
            if before is not None:
                worse = self.distances(vectors[part], codes[part]) >= self.distances(vectors[part], before[part])
                codes[part][worse] = before[part][worse]

        work = self._words.size + beam * self._size * self._length**2 // 2
        _in_chunks(search, len(vectors), work, _MOST_ROWS)
        return codes

    def gibbs_sweeps(
        self, vectors: FloatArray, codes: IntArray, temperatures: Sequence[float], *, seed: int, number: int = 0
    ) -> npt.NDArray[Any]:
        """Codes after one sweep over all positions, in random order, at each temperature; 0 is a sweep of ICM.

        Args:
            vectors: (N, e) what to approximate.
            codes: (N, D) to begin with.
            temperatures: of each sweep.
            seed: of the order of positions and of the draws.
            number: sets calls with one seed apart.

        Returns:
            (N, D) codes.
        """
        return self._swept(vectors, codes, temperatures, seed, number, keeps_nearer=False)

    def icm(
        self, vectors: FloatArray, codes: IntArray, sweeps: int, *, seed: int = 0, number: int = 0
    ) -> npt.NDArray[Any]:
        """Codes after sweeps of ICM; a row keeps the code that it began with where the new one is no nearer."""
        return self._swept(vectors, codes, [0.0] * sweeps, seed, number, keeps_nearer=True)

    def distances(self, vectors: FloatArray, codes: IntArray) -> FloatArray:
        """(n,) squared distances between (n, e) vectors and the sums of the codewords of (n, D) codes."""
        left = np.empty(vectors.shape, dtype=np.float32)
        _core.subtract_words(np.ascontiguousarray(vectors), self._words, np.ascontiguousarray(codes), left)
        return np.asarray(np.einsum("ne,ne->n", left, left))

    def _swept(
        self,
        vectors: FloatArray,
        codes: IntArray,
        temperatures: Sequence[float],
        seed: int,
        number: int,
        *,
        keeps_nearer: bool,
    ) -> npt.NDArray[Any]:
        rows = max(_FEWEST_SWEPT, min(_MOST_SWEPT, _SWEPT_COSTS // (self._length * self._size)))
        vectors, found = np.ascontiguousarray(vectors), np.array(codes, order="C")
        warmth = np.array(temperatures, dtype=np.float32)
        noise = _NO_NOISE
        if warmth.any():
            noise = _gumbel_noise(random_for(seed, "gumbel", number), rows * self._size + _SPARE_NOISE)

        def search(start: int) -> None:
            random, shape = random_for(seed, f"search {number}", self._first_row + start), (len(warmth), self._length)
            order = np.argsort(random.random(shape), axis=1).astype(np.uint32)
            places = random.integers(_SPARE_NOISE - 16, size=shape, dtype=np.uint64)
            part = slice(start, start + rows)
            self._core.sweep(vectors[part], found[part], order, warmth, places, noise, keeps_nearer)

        parallel_chunks(search, range(0, len(vectors), rows))
        return found

    def _sweep(
        self, vectors: FloatArray, codes: npt.NDArray[Any], order: npt.NDArray[np.uint32], warmth: FloatArray
    ) -> None:
        self._core.sweep(vectors, codes, order, warmth, order.astype(np.uint64), _NO_NOISE, True)


def within_reach(vectors: npt.NDArray[Any]) -> FloatArray:
    """(n, d) vectors to find codes of, in a unit near the largest codeword; those that are far longer are shortened.

    Which codes are nearest to them depends on their direction alone, and squares of their numbers stay in float32.
    """
    most = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
    return np.asarray(vectors * (_FAR / np.maximum(most, _FAR)), dtype=np.float32)


def _in_chunks(work: Callable[[slice], None], count: int, row_work: int, most: int = 1 << 20) -> None:
    rows = max(64, min(most, _WORK // max(1, row_work)))
    parallel_chunks(lambda start: work(slice(start, start + rows)), range(0, count, rows))


def _gumbel_noise(random: np.random.Generator, count: int) -> FloatArray:
    """(count,) −log(−log u)."""
    noise = random.random(count, dtype=np.float32).clip(1e-10, 1 - 1e-7)
    for _ in range(2):
        np.negative(np.log(noise, out=noise), out=noise)
    return noise
