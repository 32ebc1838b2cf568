"""RowScales: a few bits for each row that say how long its vector is, beside a code that says where it points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.budget import MAX_SCALE_BITS
from kdcode.errors import OptionError, StorageError
from kdcode.table import FloatArray, IntArray

_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class RowScales:
    """What multiplies each row: one of 2^b levels.

    Args:
        count: N.
        packed: (⌈N/8⌉, b) bytes: the level numbers of eight rows in each.
        levels: (2^b,) float32, finite and not negative.

    Raises:
        StorageError: shapes or values that cannot be.
    """

    count: int
    packed: npt.NDArray[np.uint8]
    levels: FloatArray

    def __post_init__(self) -> None:
        bits = self.packed.shape[1] if self.packed.ndim == 2 else 0
        if not 1 <= bits <= MAX_SCALE_BITS or self.packed.shape != (-(-self.count // 8), bits):
            raise StorageError(
                f"scales.packed: expected shape ({-(-self.count // 8)}, 1 to {MAX_SCALE_BITS}), got {self.packed.shape}"
            )
        if self.levels.shape != (1 << bits,) or not (np.isfinite(self.levels) & (self.levels >= 0)).all():
            raise StorageError(f"scales.levels: expected {1 << bits} finite numbers of at least 0")

    @classmethod
    def of(cls, scales: FloatArray, bits: int) -> RowScales:
        """Round (N,) scales to 2^bits levels that lie where the scales do; their logarithms are what is kept.

        Scales of 0 keep a level of their own.
        """
        if not 1 <= bits <= MAX_SCALE_BITS:
            raise OptionError(f"scale_bits must be 1 to {MAX_SCALE_BITS}, got {bits}")
        positive = scales[scales > 0]
        zeros = len(positive) < len(scales)
        free = (1 << bits) - zeros
        centres = _spread(np.log(positive.astype(np.float64)), free) if len(positive) else np.zeros(free)
        levels = np.exp(centres).astype(np.float32)
        borders = np.exp((centres[1:] + centres[:-1]) / 2)
        chosen = np.searchsorted(borders, scales)
        if zeros:
            levels = np.concatenate([np.zeros(1, dtype=np.float32), levels])
            chosen = np.where(scales > 0, chosen + 1, 0)
        padded = np.zeros(-(-len(scales) // 8) * 8, dtype=np.int64)
        padded[: len(scales)] = chosen
        return cls(len(scales), bitpack.pack(padded.reshape(-1, 8), bits), levels)

    @property
    def bits(self) -> int:
        """Bits of one row."""
        return int(self.packed.shape[1])

    @cached_property
    def places(self) -> npt.NDArray[np.uint8]:
        """(N,) which level each row has; unpacked once, at first use."""
        return bitpack.unpack(self.packed, 8, self.bits).reshape(-1)[: self.count].astype(np.uint8, copy=False)

    def at(self, rows: IntArray | slice) -> FloatArray:
        """The scales of some rows."""
        return self.levels[self.places[rows]]


def directions(vectors: FloatArray) -> FloatArray:
    """(…, d) vectors made 1 long; those that are 0 stay so."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(np.divide(vectors, lengths, where=lengths > 0, out=np.zeros_like(vectors)), dtype=np.float32)


def _spread(values: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.float64]:
    """`count` centres, in order, by k-means on a line, from even steps between the smallest and the largest value."""
    ordered = np.sort(values)
    centres = np.linspace(ordered[0], ordered[-1], 2 * count + 1)[1::2]
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    for _ in range(_ROUNDS):
        ends = np.searchsorted(ordered, (centres[1:] + centres[:-1]) / 2)
        edges = np.concatenate([[0], ends, [len(ordered)]])
        sizes = np.diff(edges)
        means = np.diff(sums[edges]) / np.maximum(sizes, 1)
        centres = np.where(sizes > 0, means, centres)
    return np.asarray(centres)
