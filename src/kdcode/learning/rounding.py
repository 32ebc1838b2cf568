"""From a solution to a stored codec: weights rounded to their number type, and the codes that suit them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from kdcode.arrays import CHUNK_ROWS, FloatArray, IntArray
from kdcode.codec import CodewordCodec
from kdcode.codec.row_scales import fit_levels, length_ratios, nearest_level
from kdcode.codec_torch import BlockSumModule, CodecModule
from kdcode.codec_torch.icm import SumSearch
from kdcode.learning.gradient.refinement import swap_codewords
from kdcode.learning.row_share import RowShare
from kdcode.learning.solution import Solution
from kdcode.learning.training_table import TrainingTable
from kdcode.table import VectorTable

_ROWS = 1 << 16
_SWEEPS = 4
_MOST_RATIOS = 1 << 20
"""Ratios of lengths that ranks tell each other at most; these are enough to place a few levels."""


def rounded(training: TrainingTable, found: Solution, *, refine: bool) -> tuple[Tensor, CodewordCodec]:
    """Round a solution to the number type of its spec, and let codes move to what suits it better.

    All of this happens in standardised units, whatever the size of the table's numbers.

    Args:
        training: what was approximated.
        found: in standardised units; its module takes over the rounded weights.
        refine: whether codes may move.

    Returns:
        (N, D) codes that are worse in no row, and the codec of original vectors.
    """
    codes, module, _ = found
    training.add_mean(module)
    codec = module.to_codec()
    if refine and module.spec.codebook_dtype != "float32":
        module.load_codec(codec)
        better = _refinement(module)
        codes = codes.clone()
        for start in range(0, len(training), _ROWS):
            part = slice(start, start + _ROWS)
            codes[part] = better(training.uncentred(part), codes[part])
    return codes, codec.scaled(training.scale)


def _refinement(module: CodecModule) -> Callable[[Tensor, Tensor], Tensor]:
    """A function of (n, d) vectors and (n, D) codes that gives codes which are worse in no row."""
    if not isinstance(module, BlockSumModule):
        return lambda vectors, codes: swap_codewords(vectors, codes, module)
    words = module.codebook.detach()
    if module.basis is not None and not module.spec.is_rotated:
        search = SumSearch(words @ module.basis.detach())
        return lambda vectors, codes: search.icm(vectors, codes, _SWEEPS)
    blocks = module.spec.blocks
    searches = [SumSearch(words[block.positions, :, : block.width].contiguous()) for block in blocks]

    def by_block(vectors: Tensor, codes: Tensor) -> Tensor:
        coordinates = module.coordinates(vectors)
        parts = [
            search.icm(coordinates[:, block.columns].contiguous(), codes[:, block.positions].contiguous(), _SWEEPS)
            for block, search in zip(blocks, searches, strict=True)
        ]
        return torch.cat(parts, dim=1)

    return by_block


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
