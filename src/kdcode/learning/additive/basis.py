"""Bases of additive codes: principal directions to begin with, and the best rotation for given codes."""

from __future__ import annotations

import numpy as np

from kdcode.arrays import CHUNK_ROWS, FloatArray, IntArray
from kdcode.codec import CodewordSpec
from kdcode.learning.linalg.principal import complete_basis, principal_directions
from kdcode.learning.sum_model import SumModel
from kdcode.learning.training_table import TrainingTable
from kdcode.threads import parallel_chunks

_SAMPLED_ROWS = 100_000
"""Rows that are enough to tell a table's principal directions."""
_SPANS = 4
"""Sums of products of rows that are added up side by side; results do not depend on the number of threads."""
_LEAST_VARIANCE = 1e-9
"""Share of the largest variance that a direction is taken to have at least."""


def principal_basis(training: TrainingTable, model: SumModel) -> None:
    """Start a basis from the strongest principal directions, shared out so that no block has more variance than others.

    With equal bits the error is smallest where the products of the blocks' variances are equal: the eigenvalue
    allocation of OPQ (Ge et al., 2013).
    """
    if model.basis is None:
        return
    some = training.vectors[training.share.every(_distance_of_samples(training.share.total))]
    variances, directions = principal_directions(some, ranks=training.ranks)
    directions = complete_basis(directions, min(model.basis.shape))
    order = allocated(variances[: len(model.basis)], model.spec)
    order = [place for place in order if place < directions.shape[1]]
    model.basis[...] = 0
    model.basis[: len(order)] = directions[:, order].T


def allocated(variances: FloatArray, spec: CodewordSpec) -> list[int]:
    """An order of directions, with (r,) variances that fall, in which each block's are one after another.

    Directions go to the block with the smallest product of variances so far that has room for one more. Those beyond r
    have no variance.
    """
    variances = np.maximum(variances, np.float32(max(_LEAST_VARIANCE * float(variances[0]), 1e-30)))
    # Relative to the smallest, so that no logarithm is negative: a block that was given one more is never less full.
    logs = np.log(variances / variances[-1]).tolist() + [0.0] * (spec.inner_dim - len(variances))
    columns: list[list[int]] = [[] for _ in spec.blocks]
    filled = [0.0] * len(spec.blocks)
    for place, log in enumerate(logs):
        free = [number for number, block in enumerate(spec.blocks) if len(columns[number]) < block.width]
        chosen = min(free, key=lambda number: filled[number])
        columns[chosen].append(place)
        filled[chosen] += log
    return [place for row in columns for place in row]


def procrustes(training: TrainingTable, codes: IntArray, model: SumModel) -> None:
    """Take the orthonormal basis that is the best for codes and codewords as they are (orthogonal Procrustes)."""
    if model.basis is None:
        return
    covariances = np.zeros((_SPANS, *model.basis.shape), dtype=np.float32)

    def add_up(span: int) -> None:
        for start in range(span * CHUNK_ROWS, len(codes), _SPANS * CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            sums = model.sums(codes[part])
            if training.weights is not None:
                sums *= training.weights[part, None]
            covariances[span] += sums.T @ training.vectors[part]

    parallel_chunks(add_up, range(_SPANS))
    covariance = training.ranks.all_sum(covariances.sum(axis=0))
    left, _, right = np.linalg.svd(covariance, full_matrices=False)
    model.basis[...] = left @ right


def sampled(vectors: FloatArray) -> FloatArray:
    """Rows at even distances, enough for covariances."""
    return vectors[:: _distance_of_samples(len(vectors))]


def _distance_of_samples(rows: int) -> int:
    return -(-rows // _SAMPLED_ROWS)
