"""How losses are spread over rows: the numbers behind the charts of cosines, of errors by rank, and of codewords."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdcode.arrays import DoubleArray
from kdcode.evaluation import CodeUse, LevelUse
from kdcode.report.embedded import packed_array

_BINS = 40
_RANKS = 24
_MOST_COLUMNS = 1024
_MOST_POSITIONS = 512


def cosine_histogram(cosines: DoubleArray) -> dict[str, Any]:
    """Counts of rows by cosine, in bins of the same width from the lowest cosine, or its first percentile, to 1."""
    low = float(min(np.percentile(cosines, 1), 0.99)) if len(cosines) else 0.0
    edges = np.linspace(np.floor(50 * low) / 50, 1.0, _BINS + 1)
    counts = np.histogram(cosines.clip(edges[0], 1.0), edges)[0]
    return {"edges": edges.round(4).tolist(), "counts": counts.tolist(), "mean": float(cosines.mean())}


def errors_by_rank(errors: DoubleArray) -> list[dict[str, float]]:
    """Mean error of rows by rank, in bins whose ends grow by the same factor; the first row has rank 1.

    Args:
        errors: (n,) relative errors, the row of rank 1 first. Those that are not finite are left out.

    Returns:
        for every bin the `first` and the `last` rank, `rank` between them, the `mean` error, and the errors that 10
        and 90 percent of its rows are below: `low` and `high`.
    """
    ends = np.unique(np.geomspace(1, len(errors), min(_RANKS, len(errors)) + 1).round().astype(np.int64))
    starts = [0, *ends[1:-1].tolist()] if len(ends) > 1 else [0]
    bins = []
    for start, end in zip(starts, [*starts[1:], len(errors)], strict=True):
        some = errors[start:end][np.isfinite(errors[start:end])]
        if len(some):
            low, high = np.percentile(some, [10, 90])
            found = {"mean": float(some.mean()), "low": float(low), "high": float(high)}
            bins.append({"first": start + 1, "last": end, "rank": float(np.sqrt((start + 1) * end)), **found})
    return bins


def use_map(use: CodeUse) -> dict[str, Any]:
    """How often each codeword is used at each position, relative to its even share; −1 where it is not used at all.

    Positions and codewords that are too many for a picture are joined; a column of several counts as unused where all
    of them are.
    """
    return _map(use.counts.astype(np.float64)) | {"row": "position", "column": "codeword", "first": 0}


def level_map(use: LevelUse) -> dict[str, Any]:
    """The same of the levels of each coordinate, from the smallest to the largest; 0 where one is not used."""
    found = _map(use.counts.astype(np.float64), unused=0.0)
    return found | {"row": "coordinate", "column": "level", "first": -use.largest}


def _map(counts: DoubleArray, unused: float = -1.0) -> dict[str, Any]:
    per_row, per_column = (
        -(-size // most) for size, most in zip(counts.shape, (_MOST_POSITIONS, _MOST_COLUMNS), strict=True)
    )
    joined = _means(_means(counts, per_row).T, per_column).T
    shares = joined / max(float(counts.mean()), 1e-30)
    most = float(np.ceil(2 * min(max(np.percentile(shares, 99), 1.0), 8.0)) / 2)
    return {
        "rows": shares.shape[0],
        "columns": shares.shape[1],
        "perRow": per_row,
        "perColumn": per_column,
        "use": packed_array(np.where(joined > 0, shares, unused).astype(np.float32).reshape(-1)),
        "most": most,
    }


def _means(rows: DoubleArray, each: int) -> DoubleArray:
    """(n, m) numbers with every `each` rows replaced by their mean."""
    starts = np.arange(0, len(rows), each)
    sizes = np.diff([*starts, len(rows)])
    return np.asarray(np.add.reduceat(rows, starts, axis=0) / sizes[:, None])
