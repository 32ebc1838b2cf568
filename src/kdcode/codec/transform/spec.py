"""TransformSpec: what fixes the tensors of a transform codec, and the classes of its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.codec.sizes import Sizes
from kdcode.codec.spec import TRANSFORM, CodecSpec, within
from kdcode.codec.transform.centroids import CENTROID_BITS, MAX_CENTROIDS, TOTAL
from kdcode.codec.transform.level_tables import MAX_CONTEXTS
from kdcode.codec.transform.rotation import packed_shape
from kdcode.codec.transform.rows import BlockRows, index_bytes, index_layout
from kdcode.errors import OptionError
from kdcode.limits import MemoryLimit
from kdcode.stored_array import PackedRows

STATES = (1, 32, 64, 128, 256)
"""How many states a trellis may have; one is the plain scalar quantizer."""
MAX_CLASSES = 256
MAX_ROWS_PER_BLOCK = 64
MAX_ROTATED = 1 << 14
"""Dimensions that a rotation may have."""
BREAK_BYTES = 16
"""What tells where the first block begins, where blocks have several rows."""
ROW_BYTES_PER_LEVEL, MORE_ROW_BYTES = 8, 64
"""A block has at most 8 bytes per level plus 64, and at most `MOST_BLOCK_BYTES`."""
MOST_BLOCK_BYTES = 1 << 26
MOST_SIDES = 12
"""Of how many coordinates, at most, the end of a block says on which side of their level they lie."""
SIDE_UNIT = 1 / 128
"""What one unit of a stored side is, as a share of the step."""

_BYTES = {"float32": 4, "uint16": 2, "uint8": 1, "int8": 1}


@dataclass(frozen=True)
class TransformSpec(CodecSpec):
    """The shape of a transform codec: a code has D = d levels, one for each coordinate after a rotation.

    Rows are entropy-coded in blocks: each row by itself, or several narrow rows together. A block takes one of a few
    lengths: it has a class, which says its length in bytes. With one class all blocks are equally long.

    Args:
        reflections: k, how many Householder reflections the rotation is a product of; 0 for none.
        states: of the trellis.
        level_groups: how many groups of 1, 2 or 4 coordinates are one symbol each.
        contexts: T, for each of which there are tables of weights.
        weights: F, how many numbers all tables have together.
        lengths: (classes,) bytes of a block, by class.
        mean_length: bytes of a block on average, over those that the codec was made for.
        rows_per_block: how many rows a block has.
        signs: whether levels may be negative.
        centroids: C, how many points of the rotated space rows may be measured from; 0 for the mean alone.
        centroid_bits: of each of their numbers.
    """

    reflections: int = 0
    states: int = 64
    level_groups: int = 1
    contexts: int = 1
    weights: int = 4
    lengths: tuple[int, ...] = (1,)
    mean_length: float = 1.0
    rows_per_block: int = 1
    signs: bool = True
    centroids: int = 0
    centroid_bits: int = 6

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", tuple(self.lengths))
        super().__post_init__()
        if self.kind != TRANSFORM:
            raise OptionError(f"kind: expected {TRANSFORM}, got {self.kind!r}")
        within("reflections", self.reflections, 0, max(0, self.embedding_dim - 1))
        if self.reflections:
            within("embedding_dim", self.embedding_dim, 1, MAX_ROTATED)
        for name, allowed in (("states", STATES), ("centroid_bits", CENTROID_BITS)):
            if getattr(self, name) not in allowed:
                raise OptionError(f"{name}: expected one of {', '.join(map(str, allowed))}, got {getattr(self, name)}")
        within("centroids", self.centroids, 0, MAX_CENTROIDS)
        within("contexts", self.contexts, 1, MAX_CONTEXTS)
        within("weights", self.weights, 4 * self.contexts, self.contexts * 2 * (self.codebook_size + 2))
        within("level_groups", self.level_groups, 1, self.embedding_dim)
        within("lengths", len(self.lengths), 1, MAX_CLASSES)
        within("rows_per_block", self.rows_per_block, 1, MAX_ROWS_PER_BLOCK)
        most = min(ROW_BYTES_PER_LEVEL * self.block_levels + MORE_ROW_BYTES, MOST_BLOCK_BYTES)
        for length in self.lengths:
            within("lengths", length, 0 if len(self.lengths) > 1 else 1, most)
        if not 0 <= self.mean_length <= max(self.lengths):
            raise OptionError(f"mean_length: expected 0 to {max(self.lengths)}, got {self.mean_length}")

    @property
    def composition(self) -> str:
        """The name in `COMPOSITIONS`."""
        return TRANSFORM

    @property
    def words(self) -> str:
        """The shape in words, such as: transform, 40 bytes per row, rotation of 99 reflections, 64 states."""
        unit = "row" if self.rows_per_block == 1 else f"block of {self.rows_per_block} rows"
        each = f"{self.mean_length:.1f} bytes per {unit} on average, {self.classes} lengths"
        each = each if self.classes > 1 else f"{self.lengths[0]} bytes per {unit}"
        rotation = f"rotation of {self.reflections} reflections" if self.reflections else "no rotation"
        centroids = f", {self.centroids} centroids" if self.centroids else ""
        return f"{TRANSFORM}, {each}, {rotation}{centroids}, {self.states} states"

    @property
    def code_length(self) -> int:
        """D, which is d: one position for each coordinate."""
        return self.embedding_dim

    @property
    def is_rotated(self) -> bool:
        """Whether there is a rotation."""
        return self.reflections > 0

    @property
    def classes(self) -> int:
        """How many classes of blocks there are."""
        return len(self.lengths)

    @property
    def block_levels(self) -> int:
        """How many levels a block has."""
        return self.rows_per_block * self.embedding_dim

    def blocks_of(self, rows: int) -> int:
        """The number of blocks that `rows` rows make."""
        return -(-rows // self.rows_per_block)

    @property
    def most_sides(self) -> int:
        """Of how many coordinates of a row it may be known on which side of their level they lie."""
        return min(MOST_SIDES, self.embedding_dim)

    @property
    def sides_end(self) -> int:
        """What the last column of a code is below: a one, and a bit for each coordinate whose side is known."""
        return 2 << self.most_sides

    @property
    def column_ends(self) -> tuple[int, ...]:
        """What the integers of each column of a code are below.

        A code has d multiples of the step, as 0, 1, 2, 3, 4 for 0, 1, -1, 2, -2, the number of the centroid where there
        are centroids, the class of the block, and the sides of coordinates: a one, and a bit for each.
        """
        number = (self.centroids,) if self.centroids else ()
        return (*(self.codebook_size,) * self.code_length, *number, self.classes, self.sides_end)

    @property
    def bits(self) -> int:
        """Bits of a row on average, its share of the class of its block counted."""
        classes = bitpack.bits_for(self.classes) if self.classes > 1 else 0
        return math.ceil((8 * self.mean_length + classes) / self.rows_per_block)

    @property
    def block_bytes(self) -> int:
        """Bytes of a packed block in memory: its class, where there are several, and as much as the longest have."""
        return max(self.lengths) + (self.classes > 1)

    @property
    def row_bytes(self) -> int:
        """Bytes of a packed row in memory: its place in its block, where blocks have several rows, and the block."""
        return self.block_bytes + (self.rows_per_block > 1)

    @property
    def has_invalid_codes(self) -> bool:
        """Whether bytes may stand for no code: they may."""
        return True

    @property
    def parameters(self) -> int:
        """The numbers of all stored tensors."""
        return sum(math.prod(shape) for _, shape in self.tensor_layout().values())

    def tensor_layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The type and shape of every stored tensor but rows and symbols, by name."""
        layout: dict[str, tuple[str, tuple[int, ...]]] = {
            "mean": ("float32", (self.embedding_dim,)),
            "steps": ("float32", (self.classes,)),
            "group_sizes": ("uint8", (self.level_groups,)),
            "group_contexts": ("uint8", (self.level_groups,)),
            "class_contexts": ("int8", (self.classes,)),
            "magnitudes": ("uint16", (self.contexts, 2)),
            "weights": ("uint8", (self.weights,)),
            "sides": ("uint8", (self.most_sides,)),
            "search": ("float32", (2,)),
        }
        if self.centroids:
            layout |= {
                "centroids": ("uint8", (self.centroids, bitpack.row_bytes((self.centroid_bits,) * self.embedding_dim))),
                "centroid_scales": ("float32", (self.embedding_dim,)),
                "centroid_frequencies": ("uint16", (self.centroids,)),
            }
        if self.reflections:
            shape = packed_shape(self.reflections, self.embedding_dim)
            layout |= {"reflections": ("uint8", shape), "reflection_scale": ("float32", (self.reflections,))}
        return layout

    def blank_tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Placeholder tensors of this shape that make a codec; others take their place."""
        lengths = np.full(2 * self.contexts, self.weights // (2 * self.contexts))
        lengths[: self.weights % (2 * self.contexts)] += 1
        ones: dict[str, npt.NDArray[Any]] = {
            "magnitudes": (lengths - 2).astype(np.uint16).reshape(-1, 2),
            "group_sizes": np.ones(self.level_groups, dtype=np.uint8),
            "steps": np.ones(self.classes, dtype=np.float32),
            "search": np.ones(2, dtype=np.float32),
        }
        if self.centroids:
            numbers = np.ones(self.centroids, dtype=np.uint16)
            numbers[0] = TOTAL - self.centroids + 1
            ones["centroid_frequencies"] = numbers
        return {**super().blank_tensors(), **ones}

    def row_layout(self, num_embeddings: int) -> dict[str, tuple[str, tuple[int | None, ...]]]:
        """The type and shape of the stored tensors of N rows, by name; None for what the rows themselves decide."""
        if self.rows_per_block == 1:
            return {"codes": ("uint8", (None,)), **index_layout(num_embeddings, self.classes)}
        index = {name: (dtype, (None, *shape[1:])) for name, (dtype, shape) in index_layout(1, self.classes).items()}
        return {"codes": ("uint8", (None,)), **index, "row_breaks": ("uint64", (None, 2))}

    @property
    def own_bytes(self) -> int:
        """Bytes of everything but rows and symbols."""
        return sum(_BYTES[dtype] * math.prod(shape) for dtype, shape in self.tensor_layout().values())

    def sizes(self, num_embeddings: int, symbol_bytes: int = 0) -> Sizes:
        """The bytes of each part of a table of N rows, which are as long as those that the codec was made for."""
        blocks = self.blocks_of(num_embeddings)
        codes = math.ceil(blocks * self.mean_length) + index_bytes(blocks, self.classes)
        breaks = BREAK_BYTES if self.rows_per_block > 1 and num_embeddings else 0
        return Sizes(codes + breaks, 0, self.own_bytes, symbol_bytes)

    def sizes_of_rows(self, rows: PackedRows, symbol_bytes: int = 0) -> Sizes:
        """The bytes of each part of a table of given rows."""
        taken = rows.nbytes + (rows.index_bytes if isinstance(rows, BlockRows) else 0)
        return Sizes(taken, 0, self.own_bytes, symbol_bytes)

    def check_memory(self, limit: MemoryLimit, num_embeddings: int) -> None:
        """Refuse a file whose tables or rotation take too much memory once they are unpacked.

        Raises:
            LimitError: the tensor is named.
        """
        dim = self.embedding_dim
        if self.reflections:  # the matrix in int8, and reflections and some rows in float64 on the way there
            taken = (3 * dim + 8 * self.reflections + 4096) * dim
            limit.check(f"reflections: a rotation of {dim} x {dim} numbers", taken)
        centroids, levels = self.centroids, self.block_levels
        limit.check(f"centroids: {centroids} x {dim} numbers as float32", 28 * centroids * dim)
        limit.check(f"class_contexts: contexts of {self.classes} x {dim} coordinates", 20 * self.classes * dim)
        limit.check(f"rows_per_block: {levels} levels of a block, of which 32 are read at a time", 96 * levels)
        longest = max(self.lengths)
        limit.check(f"lengths: {longest} bytes of a block, of which 32 are read at a time", 40 * longest)
        costs = 2 * self.contexts * (self.codebook_size // 2 + 1)
        limit.check(f"codebook_size: the bits of {costs} levels, for encoding,", 4 * costs)
        limit.check(f"num_embeddings: the lengths of {num_embeddings} vectors, for neighbours,", 8 * num_embeddings)
