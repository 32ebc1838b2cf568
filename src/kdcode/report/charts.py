"""The charts of the page: for each its data, a caption, and in words what it shows to those who cannot see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdcode.evaluation import CodeUse, LevelUse
from kdcode.report.distributions import cosine_histogram, errors_by_rank, level_map, use_map
from kdcode.report.explorer import Explored
from kdcode.report.measured import Measured
from kdcode.report.sentences import times
from kdcode.report.symbol_map import map_data
from kdcode.report.templates import Html, filled, filled_each


@dataclass(frozen=True)
class Chart:
    """One chart.

    Args:
        name: of the function in `assets/scripts/charts.js` that draws it.
        title: above it.
        caption: how to read it.
        description: what it shows, in words.
        data: what is drawn, as JSON values.
        numbers: the same as a table: a heading, and rows; empty where there are too many.
    """

    name: str
    title: str
    caption: str
    description: str
    data: dict[str, Any]
    numbers: Sequence[Sequence[str]] = ()

    def html(self) -> Html:
        """The chart's place in the page, with its words; the page's scripts draw it."""
        return filled(
            "parts/chart",
            name=self.name,
            title=self.title,
            caption=self.caption,
            description=self.description,
            numbers=_table(self.title, self.numbers) if self.numbers else "",
        )


def size_chart(measured: Measured) -> Chart:
    """Bytes before and after."""
    parts = [{"table": part.table, "part": part.part, "bytes": part.bytes} for part in measured.size_parts]
    return Chart(
        "sizes",
        "Bytes before and after",
        "Both bars have the same scale; the lower one is shown again, enlarged.",
        f"{measured.bytes_before:,} bytes before, {measured.bytes_after:,} after: {times(measured.ratio)}.",
        {"parts": parts},
    )


def cosine_chart(measured: Measured) -> Chart:
    """How near rows are to their originals."""
    found, low = measured.found, measured.found.cosine_percentiles
    return Chart(
        "cosine",
        "Cosines",
        "How many rows are how near to their originals. Rows below the left end are counted in the first bar.",
        f"Cosines between vectors and their copies: mean {found.mean_cosine:.3f}, half of the rows above "
        f"{low[50]:.3f}, 1 percent below {low[1]:.3f}.",
        cosine_histogram(found.rows.cosines),
        [["percent of rows", "have a cosine below"], *([str(share), f"{value:.4f}"] for share, value in low.items())],
    )


def rank_chart(measured: Measured) -> Chart:
    """Error by the rank of rows: by weight, or as they come in the table."""
    errors, weights = measured.found.rows.relative_errors, measured.weights
    order = np.arange(len(errors)) if weights is None else np.argsort(-weights, kind="stable")
    bins = errors_by_rank(errors[order])
    ranked = "weight" if weights is not None else "place in the table, which is usually that by frequency"
    first, last = (bins[place]["mean"] if bins else 0.0 for place in (0, -1))
    return Chart(
        "rank",
        "Error by rank",
        f"Mean of ‖v − v'‖² / ‖v‖² of rows by their {ranked}; the band has 80 of 100 rows in it.",
        f"Mean relative error {first:.3f} in the first rows, {last:.3f} in the last.",
        {"bins": bins},
        [["ranks", "mean error", "10 percent below", "90 percent below"], *map(_rank_row, bins)],
    )


def _rank_row(found: dict[str, float]) -> list[str]:
    ranks = f"{found['first']:,}–{found['last']:,}"
    return [ranks, *(f"{found[name]:.4f}" for name in ("mean", "low", "high"))]


def curve_chart(measured: Measured) -> Chart | None:
    """How the error fell while codes were learned; None where the file does not say, or there was one step."""
    points = measured.curve
    if len(points) < 2:
        return None
    recorded = measured.provenance.get("relative_error")
    return Chart(
        "curve",
        "Learning curve",
        "The error on the rows that were learned from, after some of the steps. The dashed line is the error of the "
        "finished table, whose numbers are rounded to their stored type.",
        f"The error fell from {points[0][1]:.3f} to {points[-1][1]:.3f} in {points[-1][0]:,.0f} steps.",
        {"points": points, "final": recorded if type(recorded) in (int, float) else None},
        [["step", "relative error"], *([f"{step:,.0f}", f"{error:.4f}"] for step, error in points)],
    )


def use_chart(use: CodeUse, use_words: str) -> Chart:
    """How often each codeword is used at each position."""
    rows = zip(use.entropies, use.unused, strict=True)
    positions = [[str(place + 1), f"{bits:.2f}", str(unused)] for place, (bits, unused) in enumerate(rows)]
    return Chart(
        "use",
        "Codewords by position",
        "Each row is a position of the code, each column a codeword. The darker or the brighter, the more symbols use "
        "it; red ones are used by none.",
        use_words,
        use_map(use),
        [["position", "bits it is worth", "unused codewords"], *positions],
    )


def level_chart(use: LevelUse, use_words: str) -> Chart:
    """How often each level is used at each coordinate."""
    coordinates = [[str(place + 1), f"{bits:.2f}"] for place, bits in enumerate(use.entropies)]
    return Chart(
        "use",
        "Levels by coordinate",
        "Each row is a coordinate, each column a level. A rotated table has the coordinates with the largest variance "
        "first. The darker or the brighter, the more symbols have a level.",
        use_words,
        level_map(use),
        [["coordinate", "bits it is worth"], *coordinates],
    )


def map_chart(measured: Measured, rows: Explored) -> Chart:
    """Some symbols in the plane, before and after."""
    data = map_data(measured.pairs, rows)
    return Chart(
        "map",
        "The same symbols, before and after",
        f"{len(data['points']):,} symbols in the plane of the two principal directions of their original vectors; the "
        "colour of a point is that of its place before. Click a point to explore its symbol.",
        f"A map of {len(data['points']):,} symbols before and after. The explorer below has the neighbours of each of "
        "them as text.",
        data,
    )


def _table(title: str, rows: Sequence[Sequence[str]]) -> Html:
    head = filled_each("parts/head", ({"text": text} for text in rows[0]))
    body = Html("".join(f"<tr>{_cells(row)}</tr>" for row in rows[1:]))
    return filled("parts/numbers", title=title, head=head, rows=body)


def _cells(row: Iterable[str]) -> Html:
    return filled_each("parts/cell", ({"text": text} for text in row))
