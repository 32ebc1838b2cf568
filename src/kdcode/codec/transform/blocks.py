"""EncodedBlocks: blocks of rows as the core encodes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, IntArray
from kdcode.codec.transform.spec import TransformSpec


@dataclass(frozen=True, eq=False)
class EncodedBlocks:
    """Blocks of rows as the core encodes them.

    Args:
        rows: how many of their rows there are; the last block may have fewer than the others.
        multiples: (m, rows of a block · d) int32.
        numbers: (m, rows of a block) uint16 of centroids; (m, 0) where there are none.
        others: (m, 3) uint32, the class, the number of sides, and the sides.
        packed: (m, bytes of the longest block).
    """

    rows: int
    multiples: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.uint16]
    others: npt.NDArray[np.uint32]
    packed: npt.NDArray[np.uint8]

    @property
    def classes(self) -> npt.NDArray[np.int64]:
        """(m,) the classes of the blocks."""
        return self.others[:, 0].astype(np.int64)

    def replace(self, blocks: IntArray, other: EncodedBlocks) -> None:
        """Take some blocks from others, as many as there are numbers of them."""
        for name in ("multiples", "numbers", "others", "packed"):
            getattr(self, name)[blocks] = getattr(other, name)[: len(blocks)]


def block_means(weights: DoubleArray, rows: int) -> DoubleArray:
    """(m,) the means of (n,) weights over blocks of `rows` rows."""
    first = np.arange(0, len(weights), rows)
    return np.asarray(np.add.reduceat(weights, first) / np.diff([*first, len(weights)]))


def row_numbers(
    spec: TransformSpec, active: int, encoded: EncodedBlocks
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
    """(n, d) multiples and (n, 4) other numbers of the rows of blocks, as in `kdcode.codec.transform.codes`.

    Args:
        spec: of their codec.
        active: how many coordinates have levels.
        encoded: the blocks.
    """
    count = encoded.rows
    block, place = np.divmod(np.arange(count), spec.rows_per_block)
    others = np.zeros((count, 4), dtype=np.uint32)
    if spec.centroids:
        others[:, 0] = encoded.numbers.reshape(-1)[:count]
    others[:, 1] = encoded.others[block, 0]
    known, sides = encoded.others[block, 1].astype(np.int64), encoded.others[block, 2].astype(np.int64)
    own = np.clip(known - place * active, 0, min(active, spec.most_sides))
    after = np.maximum(known - place * active - own, 0)
    others[:, 2], others[:, 3] = own, sides >> after & ((1 << own) - 1)
    return encoded.multiples.reshape(-1, spec.embedding_dim)[:count], others
