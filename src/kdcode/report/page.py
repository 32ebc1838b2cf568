"""The page: templates, data and scripts put together into one file that needs no other."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

from kdcode._version import __version__
from kdcode.evaluation import LevelUse
from kdcode.evaluation.measures import WorstRow
from kdcode.printable import shown
from kdcode.report import charts, sentences
from kdcode.report.charts import Chart
from kdcode.report.embedded import json_text
from kdcode.report.explorer import Explored
from kdcode.report.measured import Measured
from kdcode.report.templates import Html, asset, filled, filled_each
from kdcode.run_record import learned_with

_SCRIPTS = (
    "vendor/d3.min.js",
    "vendor/plot.umd.min.js",
    *(
        f"scripts/{name}.js"
        for name in ("data", "theme", "charts", "symbol_search", "symbol_card", "code_tree", "main")
    ),
)


def rendered(measured: Measured, rows: Explored, explorer: Mapping[str, Any]) -> str:
    """The whole page.

    Args:
        measured: what it is about.
        rows: the rows that the explorer has.
        explorer: its data, from `explorer_data`.
    """
    drawn = _charts(measured, rows)
    scripts = [asset(name) for name in _SCRIPTS]
    data = {"explorer": explorer, "charts": {name: chart.data for name, chart in drawn.items()}}
    about = measured.about
    return filled(
        "page",
        policy=_policy(scripts),
        generator=f"kdcode {__version__}",
        title=f"{about.compressed} · kdcode report",
        styles=Html(asset("report.css")),
        heading=f"{about.compressed} beside {about.original}",
        footer=f"Made by kdcode {__version__}. Everything is in this one file; it asks for nothing from the network.",
        data=json_text(data),
        scripts=filled_each("parts/script", ({"code": Html(script)} for script in scripts)),
        **_words(measured, rows, explorer),
        **_places(measured, drawn),
    )


def _charts(measured: Measured, rows: Explored) -> dict[str, Chart]:
    made = [
        charts.size_chart(measured),
        charts.cosine_chart(measured),
        charts.rank_chart(measured),
        charts.curve_chart(measured),
        _use_chart(measured),
        charts.map_chart(measured, rows),
    ]
    return {chart.name: chart for chart in made if chart is not None}


def _use_chart(measured: Measured) -> Chart | None:
    use, words = measured.use, sentences.use_words(measured)
    if use is None:
        return None
    return charts.level_chart(use, words) if isinstance(use, LevelUse) else charts.use_chart(use, words)


def _places(measured: Measured, drawn: Mapping[str, Chart]) -> dict[str, Html]:
    """Where charts stand in the page, and what is said where there is none."""
    none = {
        "curve": _why_no_curve(measured),
        "use": sentences.NO_CODEWORDS,
    }
    html = {name: _sentence(text) for name, text in none.items()} | {
        name: chart.html() for name, chart in drawn.items()
    }
    if "use" in drawn:
        html["use"] = Html(_sentence(drawn["use"].description) + html["use"])
    names = {"sizes": "size_chart", "use": "codes"}
    return {names.get(name, f"{name}_chart"): text for name, text in html.items()}


def _why_no_curve(measured: Measured) -> str:
    if isinstance(measured.use, LevelUse):
        return sentences.NOT_LEARNED
    return sentences.ONE_STEP if measured.curve else sentences.NO_CURVE


def _words(measured: Measured, rows: Explored, explorer: Mapping[str, Any]) -> dict[str, object]:
    """What is said in the page outside of charts."""
    found = measured.found
    has_codes, has_levels = explorer["codes"] is not None, isinstance(measured.use, LevelUse)
    tree = sentences.LEVEL_TREE if has_levels else sentences.TREE
    return {
        "grade": sentences.grade(found),
        "verdict": sentences.verdict(measured),
        "figures": filled_each("parts/figure", sentences.headline_figures(measured)),
        "compared": sentences.compared(measured),
        "size_sentence": sentences.size_sentence(measured),
        "size_rows": filled_each("parts/size_row", sentences.size_rows(measured)),
        "quality_rows": filled_each("parts/quality_row", sentences.quality_rows(measured)),
        "sampling": sentences.sampled(found, len(measured.pairs)),
        "codes_title": "Use of the levels" if has_levels else "Use of the codewords",
        "explorer_note": sentences.explorer_note(measured, rows),
        "example": f"such as {rows.symbols[rows.example]}",
        "tree_note": _sentence(tree if has_codes else sentences.NO_TREE),
        "worst_sentence": sentences.WORST,
        "worst_rows": Html("".join(_worst_row(row, measured, rows) for row in found.worst)),
        "command": _made_by(measured),
        "facts": filled_each("parts/fact", _facts(measured)),
    }


def _worst_row(row: WorstRow, measured: Measured, rows: Explored) -> Html:
    """A row of the worst ones, with a link into the explorer where that has it."""
    place = measured.pairs.place_of(row.row)
    number = None if place is None else rows.place_of(place)
    text = shown(row.symbol)
    symbol = filled("parts/symbol", text=text) if number is None else filled("parts/symbol_link", text=text, row=number)
    cosine, error = f"{row.cosine:.4f}", f"{row.relative_error:.4f}"
    return filled("parts/worst_row", symbol=symbol, row=f"{row.row:,}", cosine=cosine, error=error)


def _made_by(measured: Measured) -> Html:
    """The commands behind the compressed table and the page."""
    about = measured.about
    told = [
        ("The codes were learned with these settings:", about.made_by),
        ("This page was made by:", about.command),
    ]
    return Html(
        "".join(filled("parts/command", sentence=text, command=line) for text, line in told if line is not None)
    )


def _facts(measured: Measured) -> list[dict[str, object]]:
    """How the compressed table was made, by name."""
    facts = dict(sentences.shape_facts(measured))
    recorded = learned_with(measured.provenance)
    if measured.coded is not None and not recorded:
        facts["settings"] = "the file does not say how its codes were learned"
    return [{"name": name.replace("_", " "), "value": value} for name, value in {**facts, **recorded}.items()]


def _sentence(text: str) -> Html:
    return filled("parts/sentence", text=text)


def _policy(scripts: list[str]) -> str:
    """What a browser may do for the page: run these scripts and no others, and ask the network for nothing.

    None of the scripts evaluates text; that it is allowed lets tools that test pages wait for what they wait for.
    """
    code = [asset("parts/script.html").partition("$code")[0].partition(">")[2] + script + "\n" for script in scripts]
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") for text in code)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing}; script-src {allowed} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"
