"""Sums of rows by label: what means of clusters and least squares for codewords are made of."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.codec_torch.parallel import parallel_chunks

_MOST_SHORT = 1 << 15
_PARALLEL_FLOATS = 1 << 20
"""Numbers from which labels are shared among threads, in so many pieces."""
_PIECES = 8


def label_sums(rows: Tensor, labels: Tensor, count: int, weights: Tensor | None = None) -> Tensor:
    """(count, d): for each label the sum of its rows, by weight.

    Rows are sorted by label first: to add up a stretch of rows is several times quicker than to add single rows here
    and there (`index_add_`).

    Args:
        rows: (n, d).
        labels: (n,) of any integer type, below `count`.
        count: how many labels there are.
        weights: (n,) of the rows; all 1 where left out.
    """
    kind = torch.int16 if count < _MOST_SHORT else torch.int32
    order = labels.to(kind).sort(stable=True).indices
    ends = torch.bincount(labels, minlength=count).cumsum(dim=0)
    starts = F.pad(ends[:-1], (1, 0))
    weighted = None if weights is None else weights[order].to(rows)
    pieces = min(count, _PIECES if rows.device.type == "cpu" and rows.numel() >= _PARALLEL_FLOATS else 1)
    if pieces == 1:
        return F.embedding_bag(order, rows, starts, mode="sum", per_sample_weights=weighted)
    sums = rows.new_empty(count, rows.shape[1])
    limits = [count * piece // pieces for piece in range(pieces + 1)]

    def add_up(piece: int) -> None:
        few = slice(limits[piece], limits[piece + 1])
        first, last = int(starts[few.start]), int(ends[few.stop - 1])
        weight = None if weighted is None else weighted[first:last]
        sums[few] = F.embedding_bag(order[first:last], rows, starts[few] - first, mode="sum", per_sample_weights=weight)

    parallel_chunks(add_up, range(pieces), rows.device)
    return sums
