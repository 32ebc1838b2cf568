"""A map of some symbols in the plane: the same two principal directions of the originals, before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdcode.arrays import DoubleArray
from kdcode.evaluation.matching import RowPairs
from kdcode.report.explorer import Explored

POINTS = 500
"""How many symbols are on the map: enough to see groups, few enough to draw at once on a phone."""

_LABELS = 40
_LABEL_SIZE = (0.28, 0.09)
"""Width and height that a label takes, where the map is 2 wide and 2 high."""
_LONGEST_LABEL = 14


def map_data(pairs: RowPairs, rows: Explored, seed: int = 0) -> dict[str, Any]:
    """What `map` is in the data of the page: points as [row of the explorer, x, y before, x, y after], and labels.

    Args:
        pairs: the rows of both tables.
        rows: those that are in the page; some of them are drawn.
        seed: decides which.
    """
    count = len(rows.places)
    picked = np.arange(count)
    if count > POINTS:
        picked = np.sort(np.random.default_rng(seed).choice(count, POINTS, replace=False))
    before, after = projected(*(pairs.vectors(side, rows.places[picked]).astype(np.float64) for side in (0, 1)))
    drawn = np.concatenate([before, after], axis=1).round(4)
    points = [[int(row), *place] for row, place in zip(picked, drawn.tolist(), strict=True)]
    short = np.flatnonzero([len(rows.symbols[row]) <= _LONGEST_LABEL for row in picked.tolist()])
    labels = [int(picked[short[place]]) for place in spaced(before[short], after[short])]
    return {"points": points, "labels": labels}


def projected(original: DoubleArray, copy: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
    """(n, d) vectors and their copies in the plane of the two principal directions of the originals, as (n, 2).

    Both are centred at the mean of the originals and scaled so that these are at most 1 from it.
    """
    mean = original.mean(axis=0)
    directions = np.linalg.svd(original - mean, full_matrices=False)[2][:2]
    directions = np.pad(directions, ((0, 2 - len(directions)), (0, 0)))  # one dimension, or one row
    directions *= np.where(directions[np.arange(2), np.abs(directions).argmax(axis=1)] < 0, -1, 1)[:, None]
    before, after = (original - mean) @ directions.T, (copy - mean) @ directions.T
    scale = float(np.abs(before).max(initial=0)) or 1.0
    return before / scale, after / scale


def spaced(*sides: DoubleArray) -> list[int]:
    """Which of the (n, 2) points to label, the first ones first: those whose labels cover no other on any side."""
    kept: list[int] = []
    for place in range(len(sides[0])):
        near = [np.abs(side[kept] - side[place]) for side in sides] if kept else []
        if not any((apart < _LABEL_SIZE).all(axis=1).any() for apart in near):
            kept.append(place)
        if len(kept) == _LABELS:
            break
    return kept
