"""Where a transform codec begins: a rotation, perhaps centroids, and rows of any length coded so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kdcode.arrays import FloatArray
from kdcode.codec.transform.centroids import Centroids
from kdcode.errors import OptionError
from kdcode.learning.planned_table import PlannedTable
from kdcode.learning.transform.budget import MOST_BITS, Budget
from kdcode.learning.transform.clusters import PRICED_BITS, chosen_clusters, rotated_centroids
from kdcode.learning.transform.fitting import Fit, NamedCentroids, Outcome
from kdcode.learning.transform.level_statistics import LevelStatistics
from kdcode.learning.transform.plain_basis import better_basis
from kdcode.learning.transform.rotation import Rotation, chosen_rotation
from kdcode.learning.transform.sampling import TableSample

USUAL_CLASSES = 16
_TABLE_BYTES = 1500
"""What the tables of levels are expected to take, before they are known."""
_ROWS_AT_ONCE = 4096


class Space(NamedTuple):
    """What rows become before they are quantized: rotated, and measured from the nearest centroid, if there are any."""

    rotation: Rotation
    centroids: Centroids | None

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.rotation.nbytes + (0 if self.centroids is None else self.centroids.nbytes)


@dataclass(frozen=True, eq=False)
class Beginning:
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
    def expected(self) -> float:
        """The squared error of the sample that is to be expected."""
        return self.natural.cost(self.budget.bits(self.own_bytes, USUAL_CLASSES))


def best_beginning(
    table: PlannedTable, sample: TableSample, budget: Budget, settings: tuple[int, float], seed: int
) -> Beginning:
    """The space in which the sample loses least: centroids are tried where they promise something.

    Args:
        table: what is to be compressed, or a sample of it.
        sample: of the same table.
        budget: what blocks may take.
        settings: states of the trellis, and λ.
        seed: of the rows that centroids are learned from.

    Raises:
        OptionError: nothing is left for rows.
    """
    rows, bits = budget.rows, 8.0 * budget.total / budget.rows
    rotation = chosen_rotation(sample.mean, sample.covariance, rows, bits)
    basis = better_basis(rotation, sample.rows, rows, bits)
    signs = _has_negative(table, basis)
    plain = _begun(sample, Space(basis, None), budget, settings, signs=signs)
    # Rows that are better left as they are have zeros, which centroids would do away with.
    clusters = chosen_clusters(table, sample, rows, bits, seed) if basis is rotation and signs else None
    if clusters is None:
        return plain
    left = bits - clusters.bits - PRICED_BITS * clusters.vectors.size / rows
    rotation = chosen_rotation(sample.mean, clusters.covariance, rows, left)
    space = Space(rotation, rotated_centroids(clusters, rotation, rows, bits))
    try:
        found = _begun(sample, space, budget, settings, signs=True)
        return found if found.expected < plain.expected else plain
    except OptionError:  # they take too many bytes
        return plain


def _begun(sample: TableSample, space: Space, budget: Budget, settings: tuple[int, float], *, signs: bool) -> Beginning:
    states, trade = settings
    fit = _fit_of(sample, space, states, budget, signs=signs)
    statistics = fit.statistics
    budget = replace(budget, most_bits=statistics.bits_of_zeros + (1 - statistics.zeros) * MOST_BITS)
    own = space.nbytes + budget.dim
    natural = fit.natural(budget.bits(own + _TABLE_BYTES, USUAL_CLASSES), trade)
    return Beginning(space, fit, budget, own + natural.stored.nbytes, natural)


def _fit_of(sample: TableSample, space: Space, states: int, budget: Budget, *, signs: bool) -> Fit:
    """The sample as what codecs are fitted to."""
    levels = budget.together * budget.dim
    parts, numbers = [], []
    for some in (sample.rows, sample.extremes):
        coordinates = space.rotation.rotated(some.vectors)
        if space.centroids is not None:
            numbers.append(space.centroids.nearest(coordinates, 0.0))
            coordinates = coordinates - space.centroids.vectors[numbers[-1]]
        parts.append(some.scaled(coordinates).reshape(-1, levels))
    coordinates, extremes = parts
    weights = sample.rows.left_weights
    zeros = _share_of_zeros(coordinates)
    statistics = LevelStatistics(share=len(coordinates) / budget.blocks, zeros=zeros, signs=signs)
    own = None if weights is None else weights[:: budget.together]
    named = None if space.centroids is None else NamedCentroids(space.centroids.blank(), *numbers)
    return Fit(coordinates, extremes, states, own, statistics, budget.together, named)


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
