"""How a table of transform codes uses its levels: which ones at which coordinates, and how many bits they are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.codec.transform import TransformSpec, signed
from kdcode.coded import CodedTable
from kdcode.evaluation.code_use import entropies_of

_MOST = 64
"""The largest level that is counted by itself; larger ones are counted with it."""


@dataclass(frozen=True, eq=False)
class LevelUse:
    """Statistics of the transform codes of N symbols of d coordinates.

    Args:
        counts: (d, 2M + 1) how many symbols have each level from −M to M at each coordinate.
        mean_bytes: of a row.
        shared_codes: how many symbols have the same code as another.
    """

    counts: npt.NDArray[np.int64]
    mean_bytes: float
    shared_codes: int

    @property
    def largest(self) -> int:
        """M, the largest level; larger ones are counted with it."""
        return int(self.counts.shape[1]) // 2

    @property
    def entropies(self) -> npt.NDArray[np.float64]:
        """(d,) bits that the level of each coordinate is worth."""
        return entropies_of(self.counts)

    @property
    def entropy(self) -> float:
        """Bits of a code if its coordinates are coded one by one, whatever the length of the row."""
        return float(self.entropies.sum())

    def as_dict(self) -> dict[str, Any]:
        """The numbers by name, as JSON values; counts of levels left out."""
        return {
            "levels": self.counts.shape[0],
            "largest_level": self.largest,
            "mean_bytes": self.mean_bytes,
            "shared_codes": self.shared_codes,
            "entropy": self.entropy,
            "entropy_by_coordinate": self.entropies.tolist(),
        }


def level_use(coded: CodedTable) -> LevelUse | None:
    """Count the use of levels, in one pass over the codes; None for a codec with codebooks.

    Raises:
        NoRowsError: there are no rows to count.
    """
    coded.require_rows()
    spec = coded.spec
    if not isinstance(spec, TransformSpec):
        return None
    dim, columns = spec.embedding_dim, 2 * _MOST + 1
    counts, places = np.zeros(dim * columns, dtype=np.int64), np.arange(dim) * columns + _MOST
    for _, codes in coded.code_chunks():
        levels = np.clip(signed(codes[:, :dim]), -_MOST, _MOST)
        counts += np.bincount((levels + places).reshape(-1), minlength=len(counts))
    every = counts.reshape(dim, columns)
    used = np.flatnonzero(every.any(axis=0)) - _MOST
    largest = max(1, int(np.abs(used).max(initial=0)))
    return LevelUse(
        every[:, _MOST - largest : _MOST + largest + 1], coded.packed.nbytes / len(coded), coded.shared_codes
    )
