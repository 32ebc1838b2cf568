"""The tables of scale.md: what was measured on large tables, and a plan for larger ones that is computed from it."""

from __future__ import annotations

import json
from collections.abc import Callable

from markdown_tables import ROOT, Record, rows_of, table

_RESULTS = ROOT / "benchmarks" / "results" / "distributed.json"
_WORDS = {
    "learn-codebook": "`learn-codebook`",
    "encode, local": "`encode`, threads",
    "encode, ray": "`encode --engine ray`, workers",
    "encode, sums": "`encode`, linear codes, threads",
    "assemble": "`assemble`",
    "compress": "`compress`, all in one",
    "ranks": "`compress` on ranks",
}
_CORES = 32
"""CPUs of a machine in the plan."""
_TABLES = 6
"""How many times the rows are in memory while they are learned from, at most."""
_CODEBOOK_SIZE, _FLOAT = 256, 4


def _rows() -> list[Record]:
    return rows_of("distributed") if _RESULTS.exists() else []


def _settings() -> Record:
    settings: Record = json.loads(_RESULTS.read_text(encoding="utf-8"))["settings"]
    return settings


def measured() -> str:
    """Every command that was measured."""
    heads = ["rows", "command", "workers", "time", "rows per second", "largest process", "all together", "efficiency"]
    lines = [
        [
            f"{row['rows']:,}",
            _WORDS[row["command"]],
            str(row["workers"]),
            _clock(row["seconds"]),
            f"{row['rows_per_second']:,.0f}",
            f"{row['largest_mb'] / 1024:.1f} GB",
            f"{row['total_mb'] / 1024:.1f} GB",
            f"{row['efficiency']:.2f}" if "efficiency" in row else "–",
        ]
        for row in _rows()
    ]
    return table(heads, lines) if lines else ""


def planned() -> str:
    """What 100 million and a billion rows would take."""
    rows = _rows()
    if not rows:
        return ""
    product = max((row for row in rows if row["command"] == "encode, local"), key=lambda row: row["workers"])
    sums = next(row for row in rows if row["command"] == "encode, sums")
    efficiency = min(row["efficiency"] for row in rows if row["command"] == "encode, ray" and "efficiency" in row)
    columns = [_plan(count, product, sums, efficiency, _settings()["bits"]) for count in (10**8, 10**9)]
    lines = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return table(["computed for", "100 million rows", "1 billion rows"], lines)


def _plan(count: int, product: Record, sums: Record, efficiency: float, bits: int) -> dict[str, str]:
    """The column of so many rows."""
    vectors, codes = _FLOAT * count * product["dim"], count * bits // 8
    found = {
        "float32 vectors": _bytes(vectors),
        f"codes of {bits} bits": _bytes(codes),
        "memory of a worker, whatever the rows": f"{sums['largest_mb'] / 1024:.1f} GB",
    }
    for name, row in {"product": product, "linear": sums}.items():
        speed = row["rows_per_second"]
        seconds = count / (speed / 2 * _CORES * efficiency)
        found[f"{name} codes: encoding on 2 cores, as measured"] = _hours(count / speed)
        found[f"… on a machine with {_CORES} cores ({name})"] = _hours(seconds)
        found[f"… reads from its disk or network ({name})"] = f"{vectors / seconds / 1e6:,.0f} MB/s"
        found[f"… machines to encode in an hour ({name})"] = str(max(1, -(-int(seconds) // 3600)))
    found["codes sent to where they are assembled"] = _bytes(codes)
    found["memory of each of 64 ranks that learn from all rows"] = _bytes(_TABLES * vectors / 64)
    return found


def _hours(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def traffic() -> str:
    """What ranks send to each other in a round."""
    if not _RESULTS.exists():
        return ""
    length, dim = _settings()["bits"] // 8, _rows()[0]["dim"]
    words = _CODEBOOK_SIZE * length
    product = _FLOAT * (_CODEBOOK_SIZE * dim + words)
    linear = _FLOAT * (words * dim + words * words)
    lines = [
        ["product", "K·d sums and K·D counts", _bytes(product)],
        ["linear", "D·K·d sums and (D·K)² counts of pairs", _bytes(linear)],
    ]
    return table([f"K={_CODEBOOK_SIZE}, D={length}, d={dim}", "sent by a rank in a round", "bytes"], lines)


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}" if count < 10 * size else f"{count / size:.0f} {unit}"
    return f"{count / 1e3:.0f} KB"


def _clock(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


SCALE_PARTS: dict[str, Callable[[], str]] = {
    "distributed": measured,
    "distributed_plan": planned,
    "distributed_traffic": traffic,
}
