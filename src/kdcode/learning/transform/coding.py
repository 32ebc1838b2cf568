"""Rows of a table under a transform codec, on several threads, within a number of bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from kdcode.arrays import DoubleArray, FloatArray
from kdcode.codec.codec import CodeArray
from kdcode.codec.transform import Transform
from kdcode.codec_torch.parallel import parallel_chunks

_NUMBERS_AT_ONCE = 1 << 17
_GROUPS = 16
"""Rows are coded again, where they do not take as many bytes as they may, one of so many at a time."""
_CHANGE = 1.3
"""What λ is multiplied by or divided by then."""
NEAR_ENOUGH = 0.997
"""The share of the bytes that may be used which should be used."""
_MOST_TURNS = 4
_MOST_TURNS_SHORTER = 40
"""How often all rows are coded again at most, with another λ: longer ones, and shorter ones, which they have to be."""


def encoded(
    codec: Transform,
    vectors: FloatArray,
    weights: DoubleArray | None = None,
    trade: float = 1.0,
    on_rows: Callable[[int], None] | None = None,
) -> CodeArray:
    """(n, columns) codes of (n, d) vectors; `on_rows` is called with the number of rows after each piece."""
    codes = np.empty((len(vectors), len(codec.spec.widths)), dtype=np.int64)
    at_once = max(16, _NUMBERS_AT_ONCE // codec.spec.embedding_dim)

    def work(start: int) -> None:
        some = slice(start, start + at_once)
        codes[some] = codec.encode_weighted(vectors[some], None if weights is None else weights[some], trade)
        if on_rows is not None:
            on_rows(len(codes[some]))

    parallel_chunks(work, range(0, len(vectors), at_once), torch.device("cpu"))
    return codes


def within_bytes(
    codec: Transform, vectors: FloatArray, weights: DoubleArray | None, codes: CodeArray, most: int
) -> None:
    """Code some rows again, shorter or longer, until all take at most so many bytes, and not much less.

    Args:
        codec: of the codes.
        vectors: (n, d).
        weights: (n,) of the rows, or None.
        codes: (n, columns), changed in place.
        most: bytes of all rows.
    """
    lengths = codec.problem.lengths
    taken = int(lengths[codes[:, -2]].sum())
    shorter = taken > most
    trade = 1.0
    for _ in range(_MOST_TURNS_SHORTER if shorter else _MOST_TURNS):
        trade *= _CHANGE if shorter else 1 / _CHANGE
        for group in range(_GROUPS):
            if taken <= most and (shorter or taken >= NEAR_ENOUGH * most):
                return
            rows = np.arange(group, len(codes), _GROUPS)
            again = encoded(codec, vectors[rows], None if weights is None else weights[rows], trade)
            after = taken + np.cumsum(lengths[again[:, -2]] - lengths[codes[rows, -2]])
            enough = np.flatnonzero(after <= most if shorter else after > most)
            used = len(rows) if not len(enough) else int(enough[0]) + shorter
            if used:
                codes[rows[:used]], taken = again[:used], int(after[used - 1])
            if used < len(rows):
                return
