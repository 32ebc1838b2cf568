"""Rows of a table under a transform codec, on several threads, within a number of bytes."""

from __future__ import annotations

import numpy as np
import torch

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.codec import CodeArray
from kdcode.codec.transform import Transform
from kdcode.codec_torch.parallel import parallel_chunks

_NUMBERS_AT_ONCE = 1 << 17
_GROUPS = 16
"""Blocks are coded again, where they do not take as many bytes as they may, one of so many at a time."""
_CHANGE = 1.3
"""What λ is multiplied by or divided by then."""
NEAR_ENOUGH = 0.997
"""The share of the bytes that may be used which should be used."""
_MOST_TURNS = 4
"""How often all rows are coded again at most, with another λ."""


def encoded(
    codec: Transform,
    vectors: FloatArray,
    weights: DoubleArray | None = None,
    trade: float = 1.0,
    longest: int | None = None,
    numbers: IntArray | None = None,
) -> CodeArray:
    """(n, columns) codes of (n, d) vectors; see `Transform.encode_weighted`."""
    codes = np.empty((len(vectors), len(codec.spec.widths)), dtype=np.int64)
    together = codec.spec.rows_per_block
    at_once = -(-max(16, _NUMBERS_AT_ONCE // codec.spec.embedding_dim) // together) * together

    def work(start: int) -> None:
        some = slice(start, start + at_once)
        own = None if numbers is None else numbers[some]
        counts = None if weights is None else weights[some]
        codes[some] = codec.encode_weighted(vectors[some], counts, trade, longest, own)

    parallel_chunks(work, range(0, len(vectors), at_once), torch.device("cpu"))
    return codes


def within_bytes(
    codec: Transform, vectors: FloatArray, weights: DoubleArray | None, codes: CodeArray, most: int
) -> int:
    """Code some rows again, shorter or longer, until all take at most so many bytes, and not much less.

    λ moves a row to the next shorter length at most. Where that is not enough, the longest lengths are left out, one
    after another. Rows may still take more, if even the shortest length is too long.

    Args:
        codec: of the codes.
        vectors: (n, d).
        weights: (n,) of the rows, or None.
        codes: (n, columns), changed in place.
        most: bytes of all rows.

    Returns:
        The bytes that they take.
    """
    lengths, together = codec.problem.lengths, codec.spec.rows_per_block
    taken = int(lengths[codes[::together, -2]].sum())
    shorter = taken > most
    trade = 1.0
    for longest in [None] * _MOST_TURNS + (np.unique(lengths)[-2::-1].tolist() if shorter else []):
        trade *= _CHANGE if shorter else 1 / _CHANGE
        for group in range(_GROUPS):
            if taken <= most and (shorter or taken >= NEAR_ENOUGH * most):
                return taken
            rows = _rows_of_blocks(np.arange(group, -(-len(codes) // together), _GROUPS), together, len(codes))
            again = encoded(codec, vectors[rows], None if weights is None else weights[rows], trade, longest)
            before = codes[rows[::together], -2]
            after = taken + np.cumsum(lengths[again[::together, -2]] - lengths[before])
            enough = np.flatnonzero(after <= most if shorter else after > most)
            used = len(before) if not len(enough) else int(enough[0]) + shorter
            if used:
                own = rows[: used * together]
                codes[own], taken = again[: len(own)], int(after[used - 1])
            if used < len(before):
                return taken
    return taken


def _rows_of_blocks(blocks: IntArray, together: int, count: int) -> IntArray:
    """The rows of blocks, in order, of a table of `count` rows."""
    rows = (blocks[:, None] * together + np.arange(together)).reshape(-1)
    return rows[rows < count]
