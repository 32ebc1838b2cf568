"""The figure of a comparison: error and recall against bytes, with the limit of theory as a line."""

from __future__ import annotations

import warnings
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdcode.comparison.comparing import FILE, SizeComparison
from kdcode.errors import MissingExtraError, OptionError
from kdcode.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".svg", ".png", ".pdf")

_STYLES: dict[str, dict[str, Any]] = {
    FILE: {"marker": "o", "color": "#c1272d", "linewidth": 2},
    "pq": {"marker": "s", "color": "#2e7d32"},
    "int4": {"marker": "^", "color": "#555555"},
    "int8": {"marker": "v", "color": "#999999"},
}
"""How each method is drawn, in the order of the legend."""


def check_figure(path: str | PathLike[str]) -> None:
    """Refuse a figure that cannot be drawn, before anything is measured.

    Raises:
        OptionError: the name of the file does not say which kind of picture it is.
        MissingExtraError: matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise OptionError(f"{path}: a figure is drawn as {', '.join(SUFFIXES)}; let the name end with one of them")
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("figures", "figures") from error


def draw(found: SizeComparison, path: str | PathLike[str]) -> None:
    """Draw a comparison to an SVG, PNG or PDF file, by the end of its name.

    Raises:
        OptionError: the name ends with something else.
        MissingExtraError: matplotlib is not installed.
    """
    check_figure(path)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    errors, recalls = figure.subplots(1, 2, sharex=True)
    sizes, limits = found.limit_line()
    errors.plot(sizes / 1e6, limits, color="#00468c", linestyle="--", linewidth=1, label="limit for Gaussian rows")
    for method, style in _STYLES.items():
        points = sorted((one for one in found.contenders if one.method == method), key=lambda one: one.bytes)
        if points:
            megabytes = [one.bytes / 1e6 for one in points]
            label = "compressed files" if method == FILE else method
            errors.plot(megabytes, [one.lost.relative_error for one in points], ms=5, label=label, **style)
            recalls.plot(megabytes, [one.lost.recall_at_10 for one in points], ms=5, label=label, **style)
            if method == FILE:
                _name(recalls, [(one.bytes / 1e6, one.lost.recall_at_10, one.name) for one in points])
    errors.set(yscale="log", ylabel="relative squared error")
    recalls.set(ylim=(0, 1.05), ylabel="recall@10")
    for axis in (errors, recalls):
        _scale(axis, errors is axis)
    errors.legend(frameon=False, fontsize=8)
    rows, dim = found.shape
    figure.suptitle(f"{rows:,} x {dim}: {found.original_bytes / 1e6:,.1f} MB as float32", fontsize=10)
    kind = Path(path).suffix.lower().removeprefix(".")
    # Without a salt of its own, an SVG differs from one time to another.
    with replacing(Path(path)) as temporary, mpl.rc_context({"svg.hashsalt": "kdcode"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # names may be in any script
        figure.savefig(temporary, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)


def _name(axis: Axes, points: list[tuple[float, float, str]]) -> None:
    for x, y, name in points:
        axis.annotate(name, (x, y), xytext=(5, -11), textcoords="offset points", fontsize=7, parse_math=False)


def _scale(axis: Axes, has_log_errors: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    axis.set(xscale="log", xlabel="MB of codes and codebooks, symbols left out")
    for side in (axis.xaxis, axis.yaxis) if has_log_errors else (axis.xaxis,):
        side.set_major_locator(LogLocator(subs=(1, 2, 5)))
        side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        side.set_minor_formatter("")
    axis.spines[["top", "right"]].set_visible(False)
