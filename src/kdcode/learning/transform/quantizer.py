"""Quantizer: what a transform codec consists of beside its rotation, while it is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kdcode.arrays import IntArray
from kdcode.codec.spec import TRANSFORM
from kdcode.codec.transform import LevelTables, Transform, TransformSpec
from kdcode.codec.transform.centroids import CENTROID_BITS, Centroids
from kdcode.learning.transform.rotation import Rotation
from kdcode.learning.transform.row_lengths import RowKind

_BITS_OF_QUAD, _BITS_OF_PAIR = 6.3, 6.5
"""Bits of a symbol on average, at most: its table has 255 tuples, and others take longer to read."""
_ALIKE = 1
"""How far apart the contexts of coordinates may be that share a symbol."""


@dataclass(frozen=True, eq=False)
class Quantizer:
    """What a codec consists of beside its rotation.

    Args:
        step: of all rows.
        lengths: (classes,) bytes of blocks.
        contexts: (d,) of coordinates.
        offsets: (classes,) what the class of a block adds to them.
        tables: of levels.
        sides: how far from their level the first coordinates lie, as stored.
        largest: magnitude of a level.
        states: of the trellis.
        trade: λ in squared steps, what a bit may cost in squared error.
        together: rows of a block.
        centroids: that rows are measured from, or None.
    """

    step: float
    lengths: tuple[int, ...]
    contexts: IntArray
    offsets: IntArray
    tables: LevelTables
    sides: npt.NDArray[np.uint8]
    largest: int
    states: int
    trade: float
    together: int = 1
    centroids: Centroids | None = None

    def codec(self, rotation: Rotation, kinds: Sequence[RowKind] | None = None, mean_length: float = 0.0) -> Transform:
        """The codec.

        Args:
            rotation: of vectors.
            kinds: of blocks, each of which becomes a class; one for each length where left out.
            mean_length: of blocks.
        """
        dim = rotation.dim
        if kinds is None:
            kinds = [RowKind(1.0, place) for place in range(len(self.lengths))]
        places = [kind.place for kind in kinds]
        sizes, contexts = self.groups
        spec = TransformSpec(
            kind=TRANSFORM,
            embedding_dim=dim,
            codebook_size=4 * self.largest + 2,
            reflections=rotation.reflections,
            states=self.states,
            level_groups=len(sizes),
            contexts=self.tables.count,
            weights=len(self.tables.weights),
            lengths=tuple(self.lengths[place] for place in places),
            mean_length=mean_length,
            rows_per_block=self.together,
            signs=self.tables.signs,
            centroids=0 if self.centroids is None else len(self.centroids),
            centroid_bits=CENTROID_BITS[-1] if self.centroids is None else self.centroids.bits,
        )
        stored = {
            **rotation.tensors,
            "steps": np.array([self.step / kind.scale for kind in kinds], dtype=np.float32),
            "group_sizes": sizes,
            "group_contexts": contexts,
            "class_contexts": self.offsets[places].astype(np.int8),
            "magnitudes": self.tables.magnitudes,
            "weights": self.tables.weights,
            "sides": self.sides,
            "search": np.array([self.trade, self.step], dtype=np.float32),
        }
        if self.centroids is not None:
            stored |= {
                "centroids": self.centroids.packed,
                "centroid_scales": self.centroids.scales,
                "centroid_frequencies": self.centroids.frequencies,
            }
        return Transform(spec, stored)

    @cached_property
    def groups(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        """How many coordinates each symbol has, and its context: the fewer bits they take, the more share a symbol."""
        sizes: list[int] = []
        contexts: list[int] = []
        for start in range(0, len(self.contexts), 4):
            quad = self.contexts[start : start + 4]
            for size, most in ((4, _BITS_OF_QUAD), (2, _BITS_OF_PAIR), (1, np.inf)):
                parts = quad[: len(quad) // size * size].reshape(-1, size)
                own = np.rint(parts.mean(axis=1)).astype(np.int64)
                alike = len(quad) % size == 0 and bool((np.ptp(parts, axis=1) <= _ALIKE).all())
                if size == 1 or (alike and float(self.tables.entropies[own].max()) * size <= most):
                    sizes += [size] * len(own)
                    contexts += own.tolist()
                    break
        return np.array(sizes, dtype=np.uint8), np.array(contexts, dtype=np.uint8)

    def with_room_for_zeros(self) -> Quantizer:
        """The same with a longest class that rows of zeros fit into: what fits into no other has to go somewhere."""
        contexts = np.clip(self.contexts + self.offsets[-1], 0, self.tables.count - 1)
        zeros = self.together * float(self.tables.zero_bits[contexts].sum())
        if self.centroids is not None:
            zeros += self.together * float(self.centroids.costs.max())
        bits = 1.01 * zeros + 6
        longest = max(self.lengths[-1], int(np.ceil(bits / 8)))
        return replace(self, lengths=(*self.lengths[:-1], longest))
