"""Rows of a table under a transform codec, on several threads, within a number of bytes."""

from __future__ import annotations

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.transform import EncodedBlocks, Transform
from kdcode.threads import parallel_chunks

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
) -> EncodedBlocks:
    """The blocks of (n, d) vectors, on several threads; see `Transform.encode_blocks`."""
    together, count = codec.spec.rows_per_block, len(vectors)
    blocks = codec.spec.blocks_of(count)
    width = together * codec.spec.embedding_dim
    found = EncodedBlocks(
        count,
        np.empty((blocks, width), dtype=np.int32),
        np.empty((blocks, together if codec.spec.centroids else 0), dtype=np.uint16),
        np.empty((blocks, 3), dtype=np.uint32),
        np.empty((blocks, max(codec.spec.lengths)), dtype=np.uint8),
    )
    at_once = max(1, _NUMBERS_AT_ONCE // width)

    def work(start: int) -> None:
        some = slice(start * together, (start + at_once) * together)
        own = None if numbers is None else numbers[some]
        counts = None if weights is None else weights[some]
        part = codec.encode_blocks(vectors[some], counts, trade, longest, own)
        found.replace(np.arange(start, start + len(part.others)), part)

    parallel_chunks(work, range(0, blocks, at_once))
    return found


def within_bytes(
    codec: Transform, vectors: FloatArray, weights: DoubleArray | None, found: EncodedBlocks, most: int
) -> int:
    """Code some rows again, shorter or longer, until all take at most so many bytes, and not much less.

    λ moves a row to the next shorter length at most. Where that is not enough, the longest lengths are left out, one
    after another. Rows may still take more, if even the shortest length is too long.

    Args:
        codec: of the rows.
        vectors: (n, d).
        weights: (n,) of the rows, or None.
        found: their blocks, changed in place.
        most: bytes of all blocks.

    Returns:
        The bytes that they take.
    """
    lengths, together = np.array(codec.spec.lengths), codec.spec.rows_per_block
    taken = int(lengths[found.classes].sum())
    shorter = taken > most
    trade = 1.0
    for longest in [None] * _MOST_TURNS + (np.unique(lengths)[-2::-1].tolist() if shorter else []):
        trade *= _CHANGE if shorter else 1 / _CHANGE
        for group in range(_GROUPS):
            if taken <= most and (shorter or taken >= NEAR_ENOUGH * most):
                return taken
            blocks = np.arange(group, len(found.others), _GROUPS)
            rows = (blocks[:, None] * together + np.arange(together)).reshape(-1)
            rows = rows[rows < len(vectors)]
            again = encoded(codec, vectors[rows], None if weights is None else weights[rows], trade, longest)
            after = taken + np.cumsum(lengths[again.classes] - lengths[found.classes[blocks]])
            enough = np.flatnonzero(after <= most if shorter else after > most)
            used = len(blocks) if not len(enough) else int(enough[0]) + shorter
            if used:
                found.replace(blocks[:used], again)
                taken = int(after[used - 1])
            if used < len(blocks):
                return taken
    return taken
