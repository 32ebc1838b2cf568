"""The space that rows are quantized in: a rotation, perhaps centroids; chosen by coding some rows in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kdcode.arrays import FloatArray, IntArray
from kdcode.codec.transform.centroids import Centroids
from kdcode.errors import OptionError
from kdcode.learning.planned_table import PlannedTable
from kdcode.learning.transform.clusters import ClusterSearch, rotated_centroids
from kdcode.learning.transform.fitting import Fit, NamedCentroids, Outcome
from kdcode.learning.transform.level_statistics import LevelStatistics
from kdcode.learning.transform.plain_basis import better_basis
from kdcode.learning.transform.rotation import Rotation, chosen_rotation
from kdcode.learning.transform.row_lengths import MOST_BITS, Budget
from kdcode.learning.transform.sampling import ScaledRows, TableSample

USUAL_CLASSES = 16
_TABLE_BYTES = 1500
"""What the tables of levels are expected to take, before they are known."""
_ROWS_AT_ONCE = 4096


class Space(NamedTuple):
    """What rows become before they are quantized: rotated, and measured from the nearest centroid, if there are any.

    Args:
        rotation: of vectors.
        centroids: or None.
        signs: whether any coordinate may be negative.
    """

    rotation: Rotation
    centroids: Centroids | None
    signs: bool

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.rotation.nbytes + (0 if self.centroids is None else self.centroids.nbytes)

    def placed(self, rows: ScaledRows) -> tuple[FloatArray, IntArray | None]:
        """(n, d) coordinates of rows, scaled by their weights, and the (n,) numbers of their centroids."""
        coordinates, numbers = self.rotation.rotated(rows.vectors), None
        if self.centroids is not None:
            numbers = self.centroids.nearest(coordinates, 0.0)
            coordinates = coordinates - self.centroids.vectors[numbers]
        return rows.scaled(coordinates), numbers

    def fit(self, sample: TableSample, states: int, budget: Budget) -> Fit:
        """A sample as codecs are fitted to it."""
        levels = budget.together * budget.dim
        (coordinates, numbers), (extremes, others) = (self.placed(rows) for rows in (sample.rows, sample.extremes))
        coordinates, extremes = coordinates.reshape(-1, levels), extremes.reshape(-1, levels)
        statistics = LevelStatistics(
            share=len(coordinates) / budget.blocks, zeros=_share_of_zeros(coordinates), signs=self.signs
        )
        weights = sample.rows.left_weights
        named = None
        if self.centroids is not None and numbers is not None and others is not None:
            named = NamedCentroids(self.centroids.blank(), numbers, others)
        own = None if weights is None else weights[:: budget.together]
        return Fit(coordinates, extremes, states, own, statistics, budget.together, named)


@dataclass(frozen=True, eq=False)
class FittedSpace:
    """A space, and what came of coding rows of any length in it.

    Args:
        space: what rows become.
        fit: of the sample.
        budget: what blocks may take.
        own_bytes: what the codec is expected to take.
        natural: what came of it.
    """

    space: Space
    fit: Fit
    budget: Budget
    own_bytes: int
    natural: Outcome

    @property
    def bits(self) -> float:
        """Bits that a block may have."""
        return self.budget.bits(self.own_bytes, USUAL_CLASSES)

    @property
    def expected(self) -> float:
        """The squared error of the sample that is to be expected."""
        return self.natural.cost(self.bits)


def best_space(
    table: PlannedTable, sample: TableSample, budget: Budget, settings: tuple[int, float], search: ClusterSearch
) -> FittedSpace:
    """The space in which the sample loses least: centroids are tried where they promise something.

    Args:
        table: what is to be compressed, or a sample of it.
        sample: of the same table.
        budget: what blocks may take.
        settings: states of the trellis, and λ.
        search: for centroids.

    Raises:
        OptionError: nothing is left for rows.
    """
    rows, bits = budget.rows, 8.0 * budget.total / budget.rows
    rotation = chosen_rotation(sample.mean, sample.covariance, rows, bits)
    basis = better_basis(rotation, sample.rows, rows, bits)
    signs = _has_negative(table, basis)
    plain = _fitted(Space(basis, None, signs), sample, budget, settings)
    # Rows that are better left as they are have zeros, which centroids would do away with.
    clusters = search.best(bits) if basis is rotation and signs else None
    if clusters is None:
        return plain
    rotation = chosen_rotation(sample.mean, clusters.covariance, rows, bits - clusters.taken_bits(rows))
    space = Space(rotation, rotated_centroids(clusters, rotation, rows, bits), signs)
    try:
        found = _fitted(space, sample, budget, settings)
        return found if found.expected < plain.expected else plain
    except OptionError:  # they take too many bytes
        return plain


def _fitted(space: Space, sample: TableSample, budget: Budget, settings: tuple[int, float]) -> FittedSpace:
    states, trade = settings
    fit = space.fit(sample, states, budget)
    statistics = fit.statistics
    budget = replace(budget, most_bits=statistics.bits_of_zeros + (1 - statistics.zeros) * MOST_BITS)
    own = space.nbytes + budget.dim
    natural = fit.natural(budget.bits(own + _TABLE_BYTES, USUAL_CLASSES), trade)
    return FittedSpace(space, fit, budget, own + natural.stored.nbytes, natural)


def _share_of_zeros(coordinates: FloatArray) -> float:
    """The share of coordinates that are exactly zero, in blocks that have others too."""
    zeros = (coordinates == 0).mean(axis=1)
    zeros = zeros[zeros < 1]
    return float(zeros.mean()) if len(zeros) else 0.0


def _has_negative(table: PlannedTable, rotation: Rotation) -> bool:
    """Whether any coordinate of any row is negative; mostly the first rows tell."""
    for start in range(0, len(table), _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(table)))
        if (rotation.rotated(table.vectors_at(rows)) < 0).any():
            return True
    return False
