"""The tables of lookups and of searches in benchmarks.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markdown_tables import ROOT, Record, megabytes, rows_of, table

LAYERS = {
    "nn.Embedding float32": "`nn.Embedding`, float32",
    "nn.Embedding bfloat16": "`nn.Embedding`, bfloat16",
    "int8 rows": "int8 rows",
    "faiss sa_decode, product": "faiss, product codes",
    "CodedEmbedding linear int8": "`CodedEmbedding`, linear",
    "CodedEmbedding linear float16": "`CodedEmbedding`, linear, codewords in float16",
    "CodedEmbedding product int8": "`CodedEmbedding`, product",
    "CodedEmbedding rotated int8": "`CodedEmbedding`, product, rotated",
    "CodedTable linear int8": "`CodedTable.decode`, linear",
}
HOT = {
    f"CodedEmbedding {name}, {way}={size}": f'`CodedEmbedding({way}="{size}")`, {words}'
    for name, words in {"linear int8": "linear", "rotated int8": "product, rotated"}.items()
    for way, size in {"expand_below": "1GB"}.items()
}
PLAIN = {f"{name}, not compiled": f"{words}, without compiled code" for name, words in LAYERS.items()}
FIGURE = "benchmarks/figures/lookup.svg"
SEARCHERS = {
    ("kdcode", 1): "kdcode",
    ("faiss", 1): "faiss",
    ("kdcode", 2): "kdcode, 2 threads",
    ("faiss", 2): "faiss, 2 threads",
    ("kdcode, not compiled", 1): "kdcode, without compiled code",
    ("decode everything", 1): "all rows decoded",
}


def _measured(name: str) -> list[Record]:
    """The rows of a result; none where it was not measured yet."""
    return rows_of(name) if (ROOT / "benchmarks" / "results" / f"{name}.json").exists() else []


def _part(part: str) -> list[Record]:
    return [row for row in _measured("lookup") if row["part"] == part]


def _nanoseconds(row: Record | None) -> str:
    return "–" if row is None else f"{row['ns']:,.0f} ({row['ratio']:.2f})"


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table, or nothing where nothing was measured yet."""
    return table(heads, lines) if lines else ""


def _lines(rows: Sequence[Record], key: str, names: dict[str, str]) -> list[list[str]]:
    """A line for each contender, a column for each value of a key."""
    found = {(row["contender"], row[key]): row for row in rows}
    values = sorted({row[key] for row in rows})
    known = {row["contender"] for row in rows}
    return [
        [words, *(_nanoseconds(found.get((name, value))) for value in values)]
        for name, words in names.items()
        if name in known
    ]


def _lookups(ids: str, names: dict[str, str]) -> str:
    """Times against the batch, for the largest table."""
    rows = [row for row in _part("lookup") if row["ids"] == ids]
    most = max((row["rows"] for row in rows), default=0)
    batches = sorted({row["batch"] for row in rows})
    heads = ["one row" if batch == 1 else f"{batch:,} rows" for batch in batches]
    return _table(
        [f"ns per row (ratio), {most:,} rows", *heads],
        _lines([row for row in rows if row["rows"] == most], "batch", names),
    )


def lookup() -> str:
    """Rows drawn evenly, and the figure."""
    found = _lookups("uniform", LAYERS | PLAIN)
    return found and f"{found}\n![Time per row against the rows in a call](../{FIGURE})\n"


def lookup_hot() -> str:
    """Rows of which some come often."""
    shown = [
        name for name in LAYERS if name.endswith(("float32", "linear int8", "rotated int8")) and "Table" not in name
    ]
    return _lookups("zipf", {name: LAYERS[name] for name in shown} | HOT)


def lookup_sizes() -> str:
    """Times against the number of rows, for one batch."""
    rows = [row for row in _part("lookup") if (row["ids"], row["batch"]) == ("uniform", 4096)]
    heads = [f"{count:,} rows" for count in sorted({row["rows"] for row in rows})]
    return _table(["ns per row (ratio), 4,096 rows in a call", *heads], _lines(rows, "rows", LAYERS))


def lookup_symbols() -> str:
    """Symbols, one by one."""
    found = {row["contender"]: row for row in _part("symbols")}
    names = {"coded[symbol]": "`coded[symbol]`", "coded[symbol], index_symbols": "the same after `index_symbols()`"}
    lines = [
        [words, *(f"{found[name + way]['us']:.1f} µs" for way in ("", ", not compiled"))]
        for name, words in names.items()
        if name in found
    ]
    return _table(["", "compiled", "without compiled code"], lines)


def lookup_memory() -> str:
    """Resident memory after every row was looked up."""
    rows = _part("memory")
    most = max((row["rows"] for row in rows), default=0)
    names = {
        "kdcode.load": "`kdcode.load`",
        "CodedEmbedding": "`CodedEmbedding`",
        "nn.Embedding float32": "`nn.Embedding`, float32",
    }
    lines = [
        [names[row["contender"]], megabytes(row["bytes"]), megabytes(row["resident_bytes"]), f"{row['ratio']:.2f}"]
        for row in rows
    ]
    return _table([f"{most:,} rows", "file, or table", "resident memory", "ratio"], lines)


def lookup_in_words() -> str:
    """The speed of lookups and of searches, in a sentence for the README."""
    cells = {(row["contender"], row["rows"], row["ids"], row["batch"]): row["ratio"] for row in _part("lookup")}
    found = {
        (row["table"], row["metric"], row["queries"], row["contender"], row["threads"]): row
        for row in _measured("search")
    }
    if not cells or not found:
        return ""
    most = max(rows for _, rows, _, _ in cells)
    ratios = [cells["CodedEmbedding linear int8", most, "uniform", batch] for batch in (1, 4096)]
    pairs = {
        (table, metric): [found[table, metric, 1, who, 1]["ms"] for who in ("kdcode", "faiss")]
        for table, metric, queries, who, threads in found
        if (queries, who, threads) == (1, "faiss", 1)
    }
    slowest = max(own / other for own, other in pairs.values())
    return (
        f"**Compiled lookups are as quick as in a full table**: {ratios[0]:.1f} times the time of `nn.Embedding` "
        f"for one row, {ratios[1]:.1f} for a batch\n(one thread, {most:,} rows, [docs/serving.md](docs/serving.md)). "
        f"Exact search takes at most {slowest:.1f} times as long as faiss.\n"
    )


def search() -> str:
    """Milliseconds per query of everyone who searches."""
    rows = _measured("search")
    found = {(row["table"], row["metric"], row["queries"], row["contender"], row["threads"]): row for row in rows}
    cells = list(dict.fromkeys((row["table"], row["metric"], row["queries"]) for row in rows))
    lines = []
    for cell in cells:
        times = [found.get((*cell, *searcher)) for searcher in SEARCHERS]
        shown = ["–" if row is None else f"{row['ms']:.1f}" for row in times]
        lines.append([*map(str, cell), *shown])
    return _table(["ms per query", "metric", "queries at once", *SEARCHERS.values()], lines)


LOOKUP_PARTS: dict[str, Callable[[], str]] = {
    "lookup": lookup,
    "lookup_hot": lookup_hot,
    "lookup_sizes": lookup_sizes,
    "lookup_symbols": lookup_symbols,
    "lookup_memory": lookup_memory,
    "lookup_in_words": lookup_in_words,
    "search": search,
}
