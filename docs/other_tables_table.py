"""The table of the pages from the comparison on tables of other kinds."""

from __future__ import annotations

from collections.abc import Callable

from equal_bytes_tables import LIMIT, OURS
from markdown_tables import Record, rows_of, table

KINDS = {
    "narrow-8": "word vectors, 8 dimensions",
    "narrow-16": "word vectors, 16 dimensions",
    "narrow-32": "word vectors, 32 dimensions",
    "n-grams": "n-gram buckets",
    "sentences": "sentence vectors",
    "heavy-tails": "Student's t",
    "after-relu": "half zeros, none negative",
    "sparse": "95% zeros",
    "clusters": "around 500 points",
}


def _cell(row: Record, least: float) -> str:
    if "unfinished_minutes" in row:
        return f"> {row['unfinished_minutes']:.0f} min"
    if row["bytes"] is None:
        return "–"
    error = row["relative_error"]
    shown = f"{error:.4f}" if error < 0.0995 else f"{error:.3f}"
    shown = "< 0.0001" if error < 0.00005 else shown
    return f"**{shown}**" if error == least else shown


def other_tables() -> str:
    """Errors of every method, a line for each table and size; the least, but the limit, is bold."""
    rows = rows_of("other_tables")
    methods = max(_methods_by_cell(rows).values(), key=len)
    lines = []
    for name, times in dict.fromkeys((row["table"], row["times"]) for row in rows):
        own = {row["method"]: row for row in rows if (row["table"], row["times"]) == (name, times)}
        errors = [row["relative_error"] for method, row in own.items() if method != LIMIT and row["bytes"] is not None]
        shape = f"{own[OURS]['rows']:,} x {own[OURS]['dim']:,}"
        cells = [
            _cell(own[method], min(errors) if method != LIMIT else -1) if method in own else "–" for method in methods
        ]
        lines.append([f"{KINDS[name]}, {shape}", f"{times}x", *cells])
    return table(["", "size", *methods], lines)


def _methods_by_cell(rows: list[Record]) -> dict[tuple[str, int], list[str]]:
    """The methods that were measured, in order, by table and size; not all of them on every table."""
    found: dict[tuple[str, int], list[str]] = {}
    for row in rows:
        found.setdefault((row["table"], row["times"]), []).append(row["method"])
    return found


OTHER_TABLES_PARTS: dict[str, Callable[[], str]] = {"other_tables": other_tables}
