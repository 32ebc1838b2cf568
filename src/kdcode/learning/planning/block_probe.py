"""Probes: codes of a few blocks of a codec, learned on a sample of the rows, and what they say about the whole table.

Blocks of a product or grouped code are much alike, since a rotation gives each the same share of the variance, so a few
of them tell the error of all. How much the others differ follows from their covariances: the rate-distortion limit of a
Gaussian with the same covariance is off by nearly the same factor in every block.

Codewords fit the rows that they were learned from more closely the fewer there are. Rows of a second sample, which were
not learned from, tell how much.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray
from kdcode.codec import CodewordSpec
from kdcode.codec.codeword_spec import Block
from kdcode.codec.sum_search import SumSearch
from kdcode.evaluation.rate_distortion import gaussian_limit
from kdcode.learning.additive.annealing import Schedule
from kdcode.learning.additive.basis import allocated, sampled
from kdcode.learning.additive.learner import AdditiveLearner
from kdcode.learning.linalg.kmeans import kmeans, nearest
from kdcode.learning.linalg.principal import complete_basis, multiply, principal_directions
from kdcode.learning.planned_table import PlannedTable
from kdcode.learning.run import Run
from kdcode.learning.starts import warm_start
from kdcode.learning.training_table import TrainingTable, rows_of
from kdcode.options import CompressOptions
from kdcode.table import VectorTable
from kdcode.threads import default_threads, parallel_chunks

_UNSEEN_ROWS = 2000
_PRODUCT_BLOCKS, _SUM_BLOCKS = 4, 2
"""Blocks that are probed, where a codec has more: single codewords, and sums of several."""
_BEAM, _SWEEPS = 5, 4
_ITERATIONS = 8
"""Of k-means, where a block is one codeword."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a table to learn from, and rows to test with, both standardised in the same way.

    Args:
        training: the rows to learn from.
        unseen: (m, d) rows to test with; none where all are learned from.
        unseen_weights: (m,) how much they count.
        share: of the table's rows that are learned from.
    """

    training: TrainingTable
    unseen: FloatArray
    unseen_weights: FloatArray
    share: float

    @classmethod
    def of(cls, table: PlannedTable, rows: int, options: CompressOptions) -> Sample:
        """Draw so many rows, and up to 2,000 others."""
        order, chances = _drawn(table, rows, options.seed)
        picked, others = np.sort(order[:rows]), np.sort(order[rows : rows + _UNSEEN_ROWS])
        training = TrainingTable.of(_some_rows(table, picked, chances), options)
        if not len(others) or (table.weights is not None and not table.weights[others].any()):
            return cls(training, training.vectors[:0], training.vectors[:0, 0], 1.0)
        unseen = rows_of(_some_rows(table, others, chances), training.row_length)
        counted = _some_rows(table, others, chances).weights
        weights = np.ones(len(unseen)) if counted is None else np.asarray(counted)
        unseen = (unseen - training.shift) / np.float32(training.scale or 1.0)
        return cls(training, unseen, weights.astype(np.float32), rows / len(table))

    @cached_property
    def rotated(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(d,) variances of the principal directions, and the (n, d) and (m, d) coordinates of both kinds of rows."""
        variances, directions = principal_directions(sampled(self.training.vectors))
        directions = complete_basis(directions, self.training.vectors.shape[1])
        return variances, multiply(self.training.vectors, directions), self.unseen @ directions

    def coordinates(self, spec: CodewordSpec) -> tuple[FloatArray, FloatArray]:
        """(n, d) and (m, d) coordinates of both kinds of rows, in the order in which blocks of a codec take them."""
        if not spec.is_rotated:
            return self.training.vectors, self.unseen
        variances, vectors, unseen = self.rotated
        order = allocated(variances, spec)
        return vectors[:, order], unseen[:, order]

    @cached_property
    def unseen_variance(self) -> float:
        """What squared errors of unseen rows are relative to."""
        centred = self.unseen - self.training.vectors.mean(axis=0)
        return float(np.square(centred).sum(axis=1) @ self.unseen_weights)


class Probed(NamedTuple):
    """What a probe found.

    Args:
        seen: relative squared error of the rows that were learned from.
        unseen: that of others; None where there are none.
        rounding: what rounding codewords to their number type would add.
        start_seconds: how long k-means took for all blocks.
        round_seconds: how long the rounds after it took.
    """

    seen: float
    unseen: float | None
    rounding: float
    start_seconds: float
    round_seconds: float


def probe(sample: Sample, spec: CodewordSpec, schedule: Schedule, seed: int) -> Probed:
    """Learn some blocks of a codec on a sample, and estimate errors and times of all."""
    vectors, unseen = sample.coordinates(spec)
    chosen = _chosen_blocks(spec, vectors)
    found: dict[int, _BlockProbed] = {}

    def learn(number: int) -> None:
        columns = spec.blocks[number].columns
        rows = _BlockRows(_of_block(sample.training, vectors[:, columns]), unseen[:, columns], sample.unseen_weights)
        found[number] = _learned(rows, spec, spec.blocks[number], schedule, seed)

    parallel_chunks(learn, list(chosen))

    def total(of: Callable[[_BlockProbed], float]) -> float:
        return sum(share * of(found[number]) for number, share in chosen.items())

    at_once = len(chosen) / spec.groups * min(default_threads(), len(chosen))
    return Probed(
        seen=sample.training.relative(total(lambda block: block.seen)),
        unseen=total(lambda block: block.unseen) / sample.unseen_variance if sample.unseen_variance else None,
        rounding=sample.training.relative(total(lambda block: block.rounding)),
        start_seconds=sum(block.start_seconds for block in found.values()) / at_once,
        round_seconds=sum(block.round_seconds for block in found.values()) / at_once,
    )


def _chosen_blocks(spec: CodewordSpec, vectors: FloatArray) -> dict[int, float]:
    """Blocks to probe, at even distances among those of each width, and for how many blocks each of them stands."""
    bits = spec.code_length / spec.groups * math.log2(spec.codebook_size)
    limits = [block_limit(vectors[:, block.columns], bits) for block in spec.blocks]
    widths = sorted({block.width for block in spec.blocks})
    most = (_PRODUCT_BLOCKS if spec.code_length == spec.groups else _SUM_BLOCKS) // len(widths)
    chosen: dict[int, float] = {}
    for width in widths:
        alike = [number for number, block in enumerate(spec.blocks) if block.width == width]
        count = min(len(alike), max(1, most))
        picked = [alike[int((place + 0.5) * len(alike) / count)] for place in range(count)]
        limit = sum(limits[number] for number in picked)
        share = sum(limits[number] for number in alike) / limit if limit else len(alike) / count
        chosen |= dict.fromkeys(picked, share)
    return chosen


class _BlockProbed(NamedTuple):
    """What `Probed` has, for one block, with errors as sums of squares."""

    seen: float
    unseen: float
    rounding: float
    start_seconds: float
    round_seconds: float


class _BlockRows(NamedTuple):
    """One block's coordinates of the rows to learn from, and those of (m, w) others with their (m,) weights."""

    training: TrainingTable
    unseen: FloatArray
    unseen_weights: FloatArray


def _learned(rows: _BlockRows, spec: CodewordSpec, block: Block, schedule: Schedule, seed: int) -> _BlockProbed:
    """Learn one block as a sum of its own."""
    own = CodewordSpec.named("linear", block.width, spec.codebook_size, block.length)
    vectors, weights = rows.training.vectors, rows.training.weights
    began = started = time.monotonic()
    if block.length == 1:
        words = kmeans(vectors, own.codebook_size, np.random.default_rng(seed), _ITERATIONS, weights, greedy=False)[
            None
        ]
        distances = nearest(vectors, words[0])[1]
        seen = float(distances.sum() if weights is None else distances @ weights)
    else:
        start = warm_start(rows.training, own, seed)
        started = time.monotonic()
        learner = AdditiveLearner(rows.training, start, schedule, seed)
        seen = learner.run(Run(0)).error * rows.training.variance
        words = learner.model.codebook
    ended = time.monotonic()
    other = 0.0
    if len(rows.unseen):
        search = SumSearch(words)
        codes = search.encode(rows.unseen, beam=_BEAM, sweeps=_SWEEPS if block.length > 1 else 0)
        other = float(search.distances(rows.unseen, codes) @ rows.unseen_weights)
    # A twelfth of a squared step in every coordinate, by position.
    steps = np.abs(words).max(axis=(1, 2)) / 127 if spec.codebook_dtype == "int8" else np.zeros(1)
    rounding = float(np.square(steps).sum()) / 12 * block.width * len(vectors)
    return _BlockProbed(seen, other, rounding, started - began, ended - started)


def _of_block(training: TrainingTable, vectors: FloatArray) -> TrainingTable:
    """A training table of some coordinates."""
    squares = np.einsum("nd,nd->n", vectors, vectors)
    variance = float(squares.sum() if training.weights is None else squares @ training.weights)
    shift = np.zeros(vectors.shape[1], dtype=np.float32)
    return replace(training, vectors=np.ascontiguousarray(vectors), shift=shift, variance=variance)


def block_limit(vectors: FloatArray, bits: float) -> float:
    """The rate-distortion limit of a Gaussian with the covariance of (n, w) rows: a squared error by row."""
    variances = np.linalg.eigvalsh((vectors.T @ vectors).astype(np.float64) / max(1, len(vectors))).clip(min=0)
    return gaussian_limit(variances, bits) * float(variances.sum())


def _drawn(table: PlannedTable, rows: int, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]:
    """All rows in the order in which a sample takes them, and the chance of each to be among the first `rows`.

    Rows that count more, or are longer, are drawn sooner: else a few of them, there or not, would decide what a sample
    tells.
    """
    random = np.random.default_rng(seed)
    if table.weights is None or rows == len(table):
        return random.permutation(len(table)), None
    lengths = table.norms
    weights = table.weights * np.maximum(lengths, 1e-3 * lengths.mean()) ** 2  # what a row adds to the energy
    weights /= weights.max() or 1.0
    low, high = 0.0, rows / max(weights.min(), 1e-12)
    for _ in range(100):  # chances in proportion to weights, at most 1, that add up to the number of rows
        scale = (low + high) / 2
        low, high = (scale, high) if np.minimum(1, scale * weights).sum() < rows else (low, scale)
    chances = np.clip(high * weights, 1e-12, 1)
    # The rows with the smallest keys are a sample with nearly these chances (Rosén's order sampling).
    drawn = random.random(len(table))
    keys = drawn * (1 - chances) / np.maximum(chances * (1 - drawn), 1e-300)
    return np.argsort(keys, kind="stable"), chances


def _some_rows(
    table: PlannedTable, rows: npt.NDArray[np.int64], chances: npt.NDArray[np.float64] | None
) -> VectorTable:
    """Some rows, which count by their weight over the chance that they had to be drawn."""
    if table.weights is None:
        return VectorTable(None, table.vectors_at(rows))
    weights = table.weights[rows] if chances is None else table.weights[rows] / chances[rows]
    return VectorTable(None, table.vectors_at(rows), weights)
