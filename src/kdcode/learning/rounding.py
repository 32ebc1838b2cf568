"""From a solution to a stored codec: weights rounded to their number type, and the codes that suit them."""

from __future__ import annotations

import numpy as np

from kdcode.arrays import CHUNK_ROWS, FloatArray, IntArray
from kdcode.codec import CodewordCodec
from kdcode.codec.row_scales import fit_levels, length_ratios, nearest_level
from kdcode.codec.sum_search import SumSearch
from kdcode.learning.row_share import RowShare
from kdcode.learning.solution import Solution
from kdcode.learning.sum_model import SumModel
from kdcode.learning.training_table import TrainingTable
from kdcode.table import VectorTable

_ROWS = 1 << 16
_SWEEPS = 4
_MOST_RATIOS = 1 << 20
"""Ratios of lengths that ranks tell each other at most; these are enough to place a few levels."""


def rounded(training: TrainingTable, found: Solution, *, refine: bool) -> tuple[IntArray, CodewordCodec]:
    """Round a solution to the number type of its spec, and let codes move to what suits it better.

    All of this happens in standardised units, whatever the size of the table's numbers.

    Args:
        training: what was approximated.
        found: in standardised units; its model takes over the rounded weights.
        refine: whether codes may move.

    Returns:
        (N, D) codes that are worse in no row, and the codec of original vectors.
    """
    codes, model, _ = found
    if not isinstance(model, SumModel):
        from kdcode.learning.gradient.refinement import rounded_lstm

        return rounded_lstm(training, codes, model, refine=refine)
    training.add_mean(model)
    codec = model.to_codec()
    if refine and model.spec.codebook_dtype != "float32":
        model.load_state_dict(codec.weights())
        codes = codes.copy()
        searches = _searches(model)
        for start in range(0, len(training), _ROWS):
            part = slice(start, start + _ROWS)
            vectors = training.uncentred(part)
            if model.basis is not None and not model.spec.is_rotated:
                codes[part] = searches[0].icm(vectors, codes[part], _SWEEPS)
                continue
            vectors = model.coordinates(vectors)
            for block, search in zip(model.spec.blocks, searches, strict=True):
                codes[part, block.positions] = search.icm(
                    vectors[:, block.columns], codes[part, block.positions], _SWEEPS
                )
    return codes, codec.scaled(training.scale)


def _searches(model: SumModel) -> list[SumSearch]:
    """The search of each block; of a projection, which keeps no distances, one for vectors."""
    if model.basis is not None and not model.spec.is_rotated:
        return [SumSearch(model.codebook @ model.basis)]
    return [SumSearch(model.words(block)) for block in model.spec.blocks]


def with_row_scales(
    table: VectorTable, codes: IntArray, codec: CodewordCodec, share: RowShare | None = None
) -> tuple[IntArray, CodewordCodec]:
    """The codec and the (N, D + 1) codes whose vectors are as long as those of a table, or of one rank's part of it."""
    share = share or RowShare.whole(len(table))
    ratios = np.empty(len(table), dtype=np.float32)
    start = 0
    for _, vectors in table.chunks(CHUNK_ROWS):
        part = slice(start, start + len(vectors))
        ratios[part] = length_ratios(vectors, codec.compose(codes[part]))
        start += len(vectors)
    levels = fit_levels(_some_ratios(ratios, share), codec.spec.scale_bits)
    column = nearest_level(ratios, levels).astype(codes.dtype)
    return np.concatenate([codes, column[:, None]], axis=1), codec.with_levels(levels)


def _some_ratios(ratios: FloatArray, share: RowShare) -> FloatArray:
    """Ratios of all ranks' rows, of very many rows some, and with them a zero where there is one."""
    if share.ranks.is_alone:
        return ratios
    some = ratios[share.every(-(-share.total // _MOST_RATIOS))]
    found = share.joined(some.astype(np.float64)).astype(np.float32)
    has_zeros = share.ranks.any(bool((ratios == 0).any()))
    return found if not has_zeros or (found == 0).any() else np.append(found, np.float32(0))
