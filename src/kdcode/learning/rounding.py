"""Codewords as they are stored, and the codes that suit them: what counts is the error after rounding."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kdcode.codebook import Codebook
from kdcode.composition import Composition, as_stored
from kdcode.learning.additive import blocks_of
from kdcode.learning.code_search import SumSearch
from kdcode.learning.composition import CompositionModule, LinearComposition, LSTMComposition
from kdcode.learning.settle import settle_codes
from kdcode.learning.target import Target
from kdcode.table import VectorTable

_ROWS = 1 << 16
_SWEEPS = 4


def rounded(
    table: VectorTable, codes: Tensor, composition: CompositionModule, number_format: str, *, settle: bool = True
) -> tuple[Tensor, Codebook, Composition]:
    """Round a composition of original vectors to a number format, and let codes move to what suits it better.

    Args:
        table: what is approximated.
        codes: (N, D).
        composition: takes over the rounded weights.
        number_format: of the codewords.
        settle: whether codes may move.

    Returns:
        Codes that are worse in no row, and codebook and composition as they are stored.
    """
    words, twin = composition.to_numpy()
    shared = composition.shape.shared
    codebook = Codebook.of(words[:1] if shared else words, number_format, shared_by=len(words) if shared else None)
    twin = as_stored(twin, codebook)
    if number_format == "float32" or not settle:
        return codes, codebook, twin
    composition.load_numpy(codebook.values, twin)
    move = _settle_any if isinstance(composition, LSTMComposition) else _settle_sums
    parts, start = [], 0
    for _, chunk in table.chunks(_ROWS):
        vectors = torch.from_numpy(np.array(chunk, dtype=np.float32)).to(codes.device)
        parts.append(move(vectors, codes[start : start + len(chunk)], composition))
        start += len(chunk)
    return torch.cat(parts), codebook, twin


@torch.no_grad()
def _settle_sums(vectors: Tensor, codes: Tensor, composition: CompositionModule) -> Tensor:
    found = codes.clone()
    words = composition.codebook.detach()
    if isinstance(composition, LinearComposition) and composition.projection is not None:
        words = words @ composition.projection.detach()
        search = SumSearch(words)
        return search.improve(vectors, codes, [0.0] * _SWEEPS, seed=0, keep_better=True)
    if composition.basis is not None:
        vectors = vectors @ composition.basis.detach().t()
    for block in blocks_of(composition):
        search = SumSearch(words[block.positions, :, : block.width].contiguous())
        part = codes[:, block.positions].contiguous()
        columns = vectors[:, block.columns].contiguous()
        found[:, block.positions] = search.improve(columns, part, [0.0] * _SWEEPS, seed=0, keep_better=True)
    return found


def _settle_any(vectors: Tensor, codes: Tensor, composition: CompositionModule) -> Tensor:
    target = Target(vectors, torch.zeros(vectors.shape[1], device=vectors.device), 1.0, 1.0)
    return settle_codes(target, codes, composition)
