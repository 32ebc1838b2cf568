"""The figure of lookup.py: time per row against the size of the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STYLES: dict[str, tuple[str, dict[str, Any]]] = {
    "nn.Embedding float32": ("nn.Embedding, float32", {"color": "#555555", "marker": "o", "linewidth": 2.4}),
    "int8 rows": ("int8 rows", {"color": "#888888", "marker": "s", "linestyle": "--"}),
    "faiss, product": ("faiss, product codes", {"color": "#c1272d", "marker": "^", "linestyle": "--"}),
    "10x": ("kdcode, 10x", {"color": "#00468c", "marker": "o", "linewidth": 2.4}),
    "20x": ("kdcode, 20x", {"color": "#3f8fd2", "marker": "o", "linewidth": 2.4}),
    "40x": ("kdcode, 40x", {"color": "#8cc0ec", "marker": "o", "linewidth": 2.4}),
    "linear": ("kdcode, linear codewords", {"color": "#2e7d32", "marker": "v"}),
}
"""The name of each contender in the legend, and how it is drawn."""


def draw_figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the first table, with the best instruction set."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lookup"  # the same file from the same numbers
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter

    first = rows[0]
    shown = [row for row in rows if row["part"] == "lookup"]
    shown = [row for row in shown if all(row[key] == first[key] for key in ("rows", "dim", "isa"))]
    figure, axis = plt.subplots(figsize=(6.4, 4.2))
    for name, (label, style) in STYLES.items():
        points = [row for row in shown if row["contender"] == name]
        batches = [row["batch"] for row in points]
        axis.plot(batches, [row["ns"] for row in points], ms=4, label=label, **style)
        lows, highs = ([row[key] for row in points] for key in ("ns_low", "ns_high"))
        axis.fill_between(batches, lows, highs, color=style["color"], alpha=0.12, linewidth=0)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="rows in a call",
        ylabel="ns per row, one thread",
        title=f"{first['rows']:,} rows of {first['dim']} numbers",
    )
    axis.set_xticks(batches, [f"{batch:,}" for batch in batches])
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.xaxis.set_minor_formatter("")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
