"""How all figures of the experiments look: small, light, the same colours and the same bytes for the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = ("#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#6a4c93", "#6c757d")
_STYLE = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.prop_cycle": mpl.cycler(color=COLORS),
    "legend.frameon": False,
    "figure.facecolor": "white",
    "svg.hashsalt": "kdcode",
}


@contextmanager
def panels(path: Path, count: int = 1, height: float = 3.2) -> Iterator[list[Axes]]:
    """Some panels side by side, drawn in the block and saved to `path` when it ends."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2 * count if count > 1 else 5.2, height), layout="constrained")
        yield list(figure.subplots(1, count, squeeze=False)[0])
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=160)
