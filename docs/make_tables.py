"""Write the numbers of README.md and of the pages in docs/ from the committed results.

    python docs/make_tables.py

A page marks each place with `<!-- results: NAME -->` and `<!-- end -->`; what stands between is written by the function
of that name in PARTS. A test compares the two and fails when a page is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # where it is run from elsewhere

from equal_bytes_tables import EQUAL_BYTES_PARTS
from in_task_tables import IN_TASK_PARTS
from lookup_tables import LOOKUP_PARTS
from markdown_tables import ROOT, Record, error_cell, megabytes, percent, rows_of, table
from model_tables import MODEL_PARTS, sentence_rows
from other_tables_table import OTHER_TABLES_PARTS
from paper_results import perplexity, unbacked
from scale_tables import SCALE_PARTS

WRITTEN = ("benchmarks", "in-task", "models", "recipes", "reliability", "scale")
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in WRITTEN))
MARKED = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)
TASKS = {"trec": "TREC", "sst2": "SST-2"}
FUZZERS = {
    "bit_flips": "one bit flipped anywhere in a `.kdc` file",
    "kdc_files": "damaged and hostile `.kdc` files",
    "inputs": "damaged and hostile inputs of every format",
    "kills": "runs killed at any moment",
}


def _copy_cells(row: Record) -> list[str]:
    ratio, recall = row["ratio"], row["recall_at_10"]
    return [
        row["name"],
        megabytes(row["bytes"]),
        f"{ratio:.1f}x" if 1 < ratio < 10 else f"{ratio:.0f}x",
        error_cell(row["relative_error"]),
        "1" if recall == 1 else f"{recall:.2f}",
    ]


def replaced() -> str:
    """README's table: classifiers whose embedding is replaced after training."""
    heads = ["50,000 words x 100", "size", "smaller", "relative error", "recall@10"]
    heads += [f"{name} accuracy" for name in TASKS.values()]
    shown = [row for row in rows_of("task_accuracy") if "unweighted" not in row["name"]]
    rows = [[*_copy_cells(row), *(percent(row[f"{task}_replaced"]) for task in TASKS)] for row in shown]
    return table(heads, rows)


def replaced_in_words() -> str:
    """What README says below its five lines."""
    rows = {row["name"]: row for row in rows_of("task_accuracy")}
    full, small = rows["float32 rows"], rows["kdcode, 20x"]
    before, after = percent(full["trec_replaced"]), percent(small["trec_replaced"])
    return (
        f"For a question classifier (TREC) over 50,000 GloVe vectors, these lines shrink the embedding from "
        f"{megabytes(full['bytes'])} to {megabytes(small['bytes'])}.\n"
        f"Test accuracy is **{before} before and {after} after**, without any retraining.\n"
    )


def task_accuracy() -> str:
    """Both ways to use a smaller table, with spreads."""
    ways = [(name, task, way) for task, name in TASKS.items() for way in ("replaced", "trained")]
    heads = ["", "size", "learned in", "relative error", "recall@10", *(f"{name}, {way}" for name, _, way in ways)]

    def accuracy(row: Record, key: str) -> str:
        return f"{percent(row[key])} ± {100 * row[key + '_deviation']:.1f}" if key in row else "–"

    rows = []
    for row in rows_of("task_accuracy"):
        name, size, _, *lost = _copy_cells(row)
        seconds = f"{row['seconds']:.0f} s" if row["seconds"] else "–"
        rows.append([name, size, seconds, *lost, *(accuracy(row, f"{task}_{way}") for _, task, way in ways)])
    return table(heads, rows)


def equal_bits() -> str:
    """Errors and times with the same shape of code."""
    rows = []
    for row in rows_of("equal_bits"):
        new = next(way for way in row["unseen"] if way["way"] in ("its own", "beam 8, sweeps 0"))
        numbers = [f"{row['relative_error']:.3f}", f"{row['train_seconds']:.0f} s", f"{new['relative_error']:.3f}"]
        rows.append([row["method"], str(8 * row["positions"]), *numbers, f"{new['rows_per_second']:,}"])
    return table(["", "bits", "relative error", "learned in", "error on new vectors", "new vectors per second"], rows)


def unseen_rows() -> str:
    """Errors of rows that were not learned from, with the same shape of code."""
    heads = ["", "bits", "coded with", "error on seen rows", "on unseen rows", "learned in", "rows per second"]
    rows = []
    for row in rows_of("unseen_rows"):
        errors = [f"{row[key]:.3f}" for key in ("seen_error", "unseen_error")]
        speeds = [f"{row['learn_seconds']:.0f} s", f"{row['rows_per_second']:,}", f"{row['share_of_lsq_time']:.2f}"]
        rows.append([row["method"], str(row["bits"]), row["way"], *errors, *speeds])
    return table([*heads, "time over LSQ's"], rows)


def _reconstruction(count: int) -> str:
    rows = [
        [
            row["name"],
            *(f"{row[key]:.3f}" for key in ("relative_error", "mean_cosine")),
            *(f"{row[key]:.0f}x" for key in ("ratio", "file_ratio")),
            f"{row['seconds']:.0f} s",
        ]
        for row in rows_of("reconstruction")
        if row["rows"] == count
    ]
    heads = ["relative error", "mean cosine", "vectors smaller", "file smaller", "learned in"]
    return table([f"{count:,} words", *heads], rows)


def scaling() -> str:
    """Time and memory against the number of rows."""
    rows = [
        row for row in rows_of("scaling") if (row["codebook_size"], row["code_length"], row["dim"]) == (256, 8, 100)
    ]
    cells = [
        [f"{row['rows']:,}", f"{row['seconds']:.0f} s", f"{row['table_mb']:.0f} MB", f"{row['peak_mb']:.0f} MB"]
        for row in rows
    ]
    return table(["rows", "learned in", "the table itself", "peak memory"], cells)


def plans() -> str:
    """What compressing to a size takes, from a table in memory to a coded table."""
    heads = ["table", "rows x dimensions", "size", "effort", "plan", "learn", "predicted error", "error", "recall@10"]
    lines = [
        [
            row["table"],
            f"{row['rows']:,} x {row['dim']}",
            row["size"],
            row["effort"],
            f"{row['plan_seconds']:.1f} s",
            f"{row['learn_seconds']:.0f} s",
            error_cell(row["predicted_error"]),
            error_cell(row["relative_error"]),
            f"{row['recall_at_10']:.2f}",
        ]
        for row in rows_of("plans")
    ]
    return table(heads, lines)


def threads() -> str:
    """Learning beside other work."""
    heads = ["50,000 x 100, K=256, D=8, fast", "seconds", "CPU seconds", "times alone"]
    lines = [
        [row["case"], f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}", f"{row['times_alone']:.2f}"]
        for row in rows_of("threads")
    ]
    return table(heads, lines)


def _duration(milliseconds: float) -> str:
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return "< 0.1 ms" if milliseconds < 0.05 else f"{milliseconds:.1f} ms"


def symbol_index() -> str:
    """Ways to keep symbols: opened, and asked."""
    heads = [
        "symbols",
        "index",
        "bytes per symbol",
        "opened in",
        "first lookup",
        "warm lookup",
        "spread lookup",
        "memory",
    ]
    lines = [
        [
            f"{row['symbols']:,}, {row['kind']}",
            row["index"],
            f"{row['bytes_per_symbol']:.1f}",
            *(_duration(row[key]) for key in ("open_ms", "first_lookup_ms")),
            f"{row['warm_ns'] / 1000:.1f} µs",
            f"{row['spread_ns'] / 1000:.1f} µs",
            f"{row['resident_mb']:,.0f} MB",
        ]
        for row in rows_of("symbol_index")
    ]
    return table(heads, lines)


def retrieval() -> str:
    """Vectors of sentences, compressed and searched."""
    rows = sentence_rows("retrieval")
    cells = [["full vectors", megabytes(rows[0]["full_bytes"]), "", "", "1", "1"]]
    cells += [
        [
            f"{row['times']}x",
            megabytes(row["bytes"]),
            f"{row['seconds']:.0f} s",
            f"{row['ms_per_query']:.1f} ms",
            *(f"{row[key]:.2f}" for key in ("query_recall_at_10", "reranked_recall_at_10")),
        ]
        for row in rows
    ]
    count, _, dim = rows[0]["table"].split()
    heads = [f"{int(count):,} x {dim}", "size", "learned in", "time per query", "recall@10", "reranked"]
    return table(heads, cells)


def fuzzers() -> str:
    """What the fuzzers tried, and what came of it."""
    lines = []
    for name, tried in FUZZERS.items():
        path = ROOT / "fuzz" / "results" / f"{name}.json"
        if not path.exists():
            continue
        result = json.loads(path.read_text(encoding="utf-8"))
        counts: dict[str, int] = {}
        for row in result["rows"]:
            if not row["failed"]:
                outcome = row["outcome"].rpartition(": ")[2].partition(" in ")[0]
                counts[outcome] = counts.get(outcome, 0) + row["cases"]
        failed = sum(row["cases"] for row in result["rows"] if row["failed"])
        took = [f"{result['slowest']['seconds']:.1f} s", f"{result['largest']['mib']:.0f} MiB"]
        lines.append(
            [
                f"{tried} (`fuzz/{name}.py`)",
                f"{result['settings']['count']:,}",
                "; ".join(f"{counts[outcome]:,} {outcome}" for outcome in sorted(counts, key=lambda one: -counts[one])),
                f"{failed:,}",
                *(took if name != "kills" else ["–", "–"]),  # the runs are processes of their own
            ]
        )
    return table(["what was tried", "cases", "what came of them", "failures", "slowest case", "most memory"], lines)


PARTS: dict[str, Callable[[], str]] = {
    "replaced": replaced,
    "replaced_in_words": replaced_in_words,
    "task_accuracy": task_accuracy,
    **MODEL_PARTS,
    **IN_TASK_PARTS,
    **LOOKUP_PARTS,
    **SCALE_PARTS,
    "retrieval": retrieval,
    **EQUAL_BYTES_PARTS,
    **OTHER_TABLES_PARTS,
    "equal_bits": equal_bits,
    "unseen_rows": unseen_rows,
    "reconstruction_small": lambda: _reconstruction(10_000),
    "reconstruction_large": lambda: _reconstruction(100_000),
    "scaling": scaling,
    "plans": plans,
    "threads": threads,
    "symbol_index": symbol_index,
    "perplexity": perplexity,
    "fuzzers": fuzzers,
}


def filled(page: str) -> str:
    """A page with every marked place written anew."""
    return MARKED.sub(lambda match: match[1] + PARTS[match[2]]() + match[3], page)


if __name__ == "__main__":
    if lacking := list(unbacked()):
        sys.exit("\n".join(["results that do not say where they are from:", *lacking]))
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
