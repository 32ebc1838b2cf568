"""The figure of equal_bytes.py: error against bytes, a panel for each table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

LIMIT = "Gaussian limit"
STYLES: dict[str, dict[str, Any]] = {
    "kdcode": {"marker": "o", "color": "#c1272d", "linewidth": 2.4},
    "kdcode, fast": {"marker": "o", "linestyle": "--", "color": "#c1272d"},
    "kdcode, best": {"marker": "o", "linestyle": ":", "color": "#c1272d"},
    LIMIT: {"color": "#000000", "linewidth": 1, "linestyle": (0, (6, 2))},
    "entropy-coded scalar": {"marker": "D", "color": "#e08a00"},
    "faiss LSQ": {"marker": "o", "color": "#00468c"},
    "faiss RQ": {"marker": "s", "color": "#3f8fd2"},
    "faiss OPQ": {"marker": "o", "color": "#2e7d32"},
    "faiss PQ": {"marker": "s", "color": "#81b366"},
    "TurboQuant": {"marker": "P", "color": "#8e44ad"},
    "RaBitQ": {"marker": "X", "color": "#b98bd0"},
    "int4 rows": {"marker": "^", "color": "#555555"},
    "int8 rows": {"marker": "v", "color": "#888888"},
    "SVD, float16": {"marker": "x", "color": "#bbbbbb"},
}
"""How each method is drawn, in the order of the legend."""
COLUMNS = 2


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Error against bytes, a panel for each table, and one legend for all."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator

    tables = list(dict.fromkeys(row["table"] for row in rows))
    lines = -(-len(tables) // COLUMNS)
    figure, axes = plt.subplots(lines, COLUMNS, figsize=(5.2 * COLUMNS, 4.2 * lines), squeeze=False)
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    for axis in axes.flat[len(tables) :]:
        axis.set_visible(False)
    for axis, table in zip(axes.flat, tables, strict=False):
        for method, style in STYLES.items():
            points = [row for row in rows if (row["table"], row["method"]) == (table, method) and row["bytes"]]
            points.sort(key=lambda row: row["bytes"])
            sizes, errors = ([row[key] for row in points] for key in ("bytes", "relative_error"))
            if points:
                axis.plot([size / 1e6 for size in sizes], errors, ms=4, label=method, **style)
        axis.set(xscale="log", yscale="log", xlabel="MB in all", ylabel="relative squared error", title=table)
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_locator(LogLocator(subs=(1, 2, 5)))
            side.set_major_formatter(plain)
            side.set_minor_formatter("")
        axis.spines[["top", "right"]].set_visible(False)
    drawn = {method: line for axis in axes.flat for line, method in zip(*axis.get_legend_handles_labels(), strict=True)}
    shown = [method for method in STYLES if method in drawn]  # of all panels: not every method is in each
    figure.tight_layout(rect=(0, 0.05 + 0.05 / lines, 1, 1))
    figure.legend([drawn[method] for method in shown], shown, frameon=False, ncols=5, loc="lower center", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
