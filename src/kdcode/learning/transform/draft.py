"""Draft: a transform codec on its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kdcode.arrays import IntArray
from kdcode.codec.spec import TRANSFORM
from kdcode.codec.transform import Transform, TransformSpec
from kdcode.codec.transform.centroids import CENTROID_BITS, Centroids
from kdcode.codec.transform.level_tables import PRECISION, LevelTables
from kdcode.codec.transform.row_search import margin_of
from kdcode.learning.transform.rotation import Rotation
from kdcode.learning.transform.row_lengths import RowKind


@dataclass(frozen=True, eq=False)
class Draft:
    """What a codec will be made of.

    Args:
        step: of all rows.
        lengths: (classes,) bytes of blocks.
        contexts: (d,) of coordinates.
        offsets: (classes,) what the class of a block adds to them.
        tables: of levels.
        sides: (T,) how far from their level coordinates lie, as stored.
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
        spec = TransformSpec(
            kind=TRANSFORM,
            embedding_dim=dim,
            codebook_size=2 * self.largest + 2,
            code_length=dim,
            inner_dim=dim,
            basis=rotation.reflections > 0,
            reflections=rotation.reflections,
            reflection_bits=rotation.bits,
            states=self.states,
            contexts=self.tables.count,
            frequencies=len(self.tables.frequencies),
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
            "coordinate_contexts": self.contexts.astype(np.uint8),
            "class_contexts": self.offsets[places].astype(np.int8),
            "magnitudes": self.tables.magnitudes,
            "frequencies": self.tables.frequencies,
            "shifts": self.tables.shifts,
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

    def with_room_for_zeros(self) -> Draft:
        """The same with a longest class that rows of zeros fit into: what fits into no other has to go somewhere."""
        contexts = np.clip(self.contexts + self.offsets[-1], 0, self.tables.count - 1)
        frequency = self.tables.sizes[self.tables.first[2 * contexts]]
        zeros = self.together * float((PRECISION - np.log2(frequency)).sum())
        if self.centroids is not None:
            zeros += self.together * float(self.centroids.costs.max())
        bits = zeros + margin_of(self.together * len(contexts)) + 4
        longest = max(self.lengths[-1], int(np.ceil(bits / 8)))
        return replace(self, lengths=(*self.lengths[:-1], longest))
