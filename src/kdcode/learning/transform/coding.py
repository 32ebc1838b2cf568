"""Rows under a transform codec, on several threads, within a number of bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.transform import BlockRows, EncodedBlocks, Transform, TransformSpec
from kdcode.threads import parallel_chunks

_NUMBERS_AT_ONCE = 1 << 17
_GROUPS = 16
"""Blocks are coded again, where they do not take as many bytes as they may, one of so many at a time."""
_CHANGE = 1.3
"""What λ is multiplied by or divided by then."""
NEAR_ENOUGH = 0.9995
"""The share of the bytes that may be used which should be used."""
_MOST_TURNS = 4
"""How often all rows are coded again at most, with another λ."""


def encoded(
    codec: Transform, vectors: FloatArray, weights: DoubleArray | None = None, numbers: IntArray | None = None
) -> EncodedBlocks:
    """The blocks of (n, d) vectors with all their levels, on several threads; see `Transform.encode_blocks`."""
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

    def encode(some: slice) -> EncodedBlocks:
        own = None if numbers is None else numbers[some]
        return codec.encode_blocks(vectors[some], None if weights is None else weights[some], numbers=own)

    def keep(blocks: slice, part: EncodedBlocks) -> None:
        found.replace(np.arange(blocks.start, blocks.stop), part)

    _in_parts(codec.spec, count, encode, keep)
    return found


@dataclass(frozen=True, eq=False)
class BlocksOfTable:
    """The blocks of (n, d) vectors as bytes alone.

    Args:
        codec: of the blocks.
        vectors: the rows.
        weights: (n,) how much they count, or None.
        packed: (m, bytes) of the blocks, which begin with their class where there are several.
    """

    codec: Transform
    vectors: npt.NDArray[np.generic]
    weights: DoubleArray | None
    packed: npt.NDArray[np.uint8]

    @classmethod
    def blank(cls, codec: Transform, vectors: npt.NDArray[np.generic], weights: DoubleArray | None) -> BlocksOfTable:
        """Blocks that are to be coded."""
        return cls(
            codec, vectors, weights, np.zeros((codec.spec.blocks_of(len(vectors)), codec.spec.block_bytes), np.uint8)
        )

    @property
    def taken(self) -> int:
        """Bytes of all blocks."""
        lengths = np.array(self.codec.spec.lengths)
        return len(self.packed) * int(lengths[0]) if len(lengths) == 1 else int(lengths[self.packed[:, 0]].sum())

    @property
    def rows(self) -> BlockRows:
        """The rows, in the form that a table keeps them in."""
        spec = self.codec.spec
        return BlockRows.of_blocks(len(self.vectors), spec.lengths, spec.rows_per_block, self.packed)

    def code(self, blocks: IntArray, trade: float = 1.0, longest: int | None = None) -> npt.NDArray[np.uint8]:
        """(n, bytes) of (n,) blocks, coded."""
        spec = self.codec.spec
        rows = (blocks[:, None] * spec.rows_per_block + np.arange(spec.rows_per_block)).reshape(-1)
        rows = rows[rows < len(self.vectors)]
        found = np.zeros((len(blocks), spec.block_bytes), dtype=np.uint8)

        def encode(some: slice) -> EncodedBlocks:
            weights = None if self.weights is None else self.weights[rows[some]]
            vectors = np.asarray(self.vectors[rows[some]], dtype=np.float32)
            return self.codec.encode_blocks(vectors, weights, trade, longest)

        def keep(blocks: slice, part: EncodedBlocks) -> None:
            if spec.classes > 1:
                found[blocks, 0] = part.others[:, 0]
            found[blocks, spec.classes > 1 :] = part.packed

        _in_parts(spec, len(rows), encode, keep)
        return found

    def within_bytes(self, most: int) -> int:
        """Code some blocks again, shorter or longer, until all take at most `most` bytes, and not much less.

        λ moves a row to the next shorter length at most. Where that is not enough, the longest lengths are left out,
        one after another. Rows may still take more, if even the shortest length is too long.

        Returns:
            The bytes that they take.
        """
        lengths = np.array(self.codec.spec.lengths)
        if len(lengths) == 1:
            return self.taken
        taken, trade = self.taken, 1.0
        shorter = taken > most
        for longest in [None] * _MOST_TURNS + (np.unique(lengths)[-2::-1].tolist() if shorter else []):
            trade *= _CHANGE if shorter else 1 / _CHANGE
            for group in range(_GROUPS):
                if taken <= most and (shorter or taken >= NEAR_ENOUGH * most):
                    return taken
                blocks = np.arange(group, len(self.packed), _GROUPS)
                again = self.code(blocks, trade, longest)
                after = taken + np.cumsum(lengths[again[:, 0]] - lengths[self.packed[blocks, 0]])
                enough = np.flatnonzero(after <= most if shorter else after > most)
                used = len(blocks) if not len(enough) else int(enough[0]) + shorter
                if used:
                    self.packed[blocks[:used]] = again[:used]
                    taken = int(after[used - 1])
                if used < len(blocks):
                    return taken
        return taken


def _in_parts(
    spec: TransformSpec,
    rows: int,
    encode: Callable[[slice], EncodedBlocks],
    keep: Callable[[slice, EncodedBlocks], None],
) -> None:
    """Encode rows in parts, on several threads, and hand each on with the numbers of its blocks."""
    at_once = max(1, _NUMBERS_AT_ONCE // spec.block_levels)

    def work(start: int) -> None:
        part = encode(slice(start * spec.rows_per_block, (start + at_once) * spec.rows_per_block))
        keep(slice(start, start + len(part.others)), part)

    parallel_chunks(work, range(0, spec.blocks_of(rows), at_once))
