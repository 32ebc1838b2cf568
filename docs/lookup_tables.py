"""The tables of lookups and of searches in benchmarks.md."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from markdown_tables import Record, measured_rows, megabytes, table

LAYERS = {
    "nn.Embedding float32": "`nn.Embedding`, float32",
    "nn.Embedding bfloat16": "`nn.Embedding`, bfloat16",
    "int8 rows": "int8 rows",
    "faiss, product": "faiss, product codewords",
    "10x": "**`--size 10x`**",
    "20x": "**`--size 20x`**",
    "40x": "**`--size 40x`**",
    "CodedTable.decode 20x": "`--size 20x`, by `CodedTable.decode`",
    "linear": "linear codewords",
    "product": "product codewords",
    "product, rotated": "product codewords, rotated",
}
FIGURE = "benchmarks/figures/lookup.svg"
SEARCHERS = ("kdcode", "faiss IndexFlat", "faiss, same codes")
SIZES = ("10x", "20x", "40x")


def _part(part: str) -> list[Record]:
    return [row for row in measured_rows("lookup") if row["part"] == part]


def _like_first(rows: list[Record], *keys: str) -> list[Record]:
    """Those that agree with the first in some keys."""
    return [row for row in rows if all(row[key] == rows[0][key] for key in keys)]


def _lookups(rows: list[Record]) -> str:
    """A line for each contender, a column for each batch, for tables of one shape and one instruction set."""
    found = {(row["contender"], row["batch"]): row for row in rows}
    batches = sorted({row["batch"] for row in rows})
    lines = [
        [words, *(f"{found[name, batch]['ns']:,.0f} ({found[name, batch]['ratio']:.2f})" for batch in batches)]
        for name, words in LAYERS.items()
        if rows
    ]
    shape = f"{rows[0]['rows']:,} x {rows[0]['dim']}, {rows[0]['isa']}" if rows else ""
    heads = ["one row" if batch == 1 else f"{batch:,} rows" for batch in batches]
    return table([f"ns per row (ratio), {shape}", *heads], lines)


def lookup() -> str:
    """The first shape with the best instruction set, and the figure."""
    found = _lookups(_like_first(_part("lookup"), "isa", "rows", "dim"))
    return found and f"{found}\n![Time per row against the rows in a call](../{FIGURE})\n"


def lookup_shapes() -> str:
    """All other shapes and instruction sets."""
    rows = _part("lookup")
    shapes = list(dict.fromkeys((row["isa"], row["rows"], row["dim"]) for row in rows))[1:]
    return "\n".join(_lookups([row for row in rows if (row["isa"], row["rows"], row["dim"]) == one]) for one in shapes)


def lookup_symbols() -> str:
    """Symbols, one by one."""
    lines = [
        [LAYERS[row["contender"]], f"{row['us']:.1f} µs ({row['us_low']:.1f} to {row['us_high']:.1f})"]
        for row in _part("symbols")
    ]
    return table(["", "`coded[symbol]`"], lines)


def lookup_memory() -> str:
    """Resident memory after every row was looked up."""
    lines = [
        [
            f"`{row['contender']}`",
            *(megabytes(row[key]) for key in ("bytes", "resident_bytes")),
            f"{row['ratio']:.2f}",
        ]
        for row in _part("memory")
    ]
    return table(["", "file, or table", "resident memory", "ratio"], lines)


def lookup_in_words() -> str:
    """The speed of lookups and of searches, in sentences for the README; of what is measured."""
    rows = _like_first(_part("lookup"), "isa", "rows", "dim")
    if not rows:
        return ""
    ratios = {(row["contender"], row["batch"]): row["ratio"] for row in rows}

    def both(name: str) -> str:
        return f"{ratios[name, 1]:.1f} and {ratios[name, 4096]:.1f}"

    text = (
        f"**A lookup takes {both('20x')} times as long as in `nn.Embedding`** for one row and for 4,096 at "
        f"`--size 20x`, {both('10x')} at 10x, {both('40x')} at 40x; with linear codewords {both('linear')} (one "
        f"thread, {rows[0]['rows']:,} rows of {rows[0]['dim']}, [docs/serving.md](docs/serving.md)). "
        f"{_search_in_words()}"
    )
    return textwrap.fill(text.strip(), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def _search_in_words() -> str:
    """The speed of one exact search beside faiss; nothing where it is not measured."""
    searches = _like_first(measured_rows("search"), "isa")
    if not searches:
        return ""

    def most(found: list[Record], contender: str) -> float:
        cells = {(row["table"], row["metric"], row["contender"]): row["ms"] for row in found if row["queries"] == 1}
        return max(cells[name, metric, "kdcode"] / ms for (name, metric, who), ms in cells.items() if who == contender)

    flat = most([row for row in searches if row["table"] in SIZES], "faiss IndexFlat")
    return (
        f"Exact search takes at most {flat:.1f} times as long as faiss over the full vectors at these sizes, and with "
        f"codewords {most(searches, 'faiss, same codes'):.1f} times as long as faiss over the same codes."
    )


def search() -> str:
    """Milliseconds per query of everyone who searches, and kdcode's ratio to faiss over the full vectors."""
    rows = measured_rows("search")
    keys = ("isa", "table", "metric", "queries")
    found = {(*(row[key] for key in keys), row["contender"]): row for row in rows}
    lines = []
    for cell in dict.fromkeys(tuple(row[key] for key in keys) for row in rows):
        times = [found.get((*cell, searcher)) for searcher in SEARCHERS]
        shown = ["–" if row is None else f"{row['ms']:.1f}" for row in times]
        lines.append([*map(str, cell), *shown, f"{found[*cell, 'kdcode']['ratio']:.2f}"])
    return table(["instructions", "table", "metric", "queries at once", *SEARCHERS, "kdcode over IndexFlat"], lines)


LOOKUP_PARTS: dict[str, Callable[[], str]] = {
    "lookup": lookup,
    "lookup_shapes": lookup_shapes,
    "lookup_symbols": lookup_symbols,
    "lookup_memory": lookup_memory,
    "lookup_in_words": lookup_in_words,
    "search": search,
}
