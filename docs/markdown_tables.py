"""What the tables of the pages share: committed results, and numbers as people read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
Record = dict[str, Any]


def rows_of(name: str, folder: str = "benchmarks") -> list[Record]:
    """The rows of a committed result."""
    rows: list[Record] = json.loads((ROOT / folder / "results" / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return rows


def measured_rows(name: str) -> list[Record]:
    """The rows of a benchmark's result; none where it was not measured yet."""
    return rows_of(name) if (ROOT / "benchmarks" / "results" / f"{name}.json").exists() else []


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, or nothing without rows."""
    if not rows:
        return ""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("| --- ", "|---").replace("|--- |", "|---|") for line in lines)


def megabytes(count: int) -> str:
    """Like 5.1 MB."""
    return f"{count / 1e6:.1f} MB" if count < 1e7 else f"{count / 1e6:.0f} MB"


def percent(share: float) -> str:
    """Like 90.2%."""
    return f"{100 * share:.1f}%"


def error_cell(value: float) -> str:
    """Like 0.135."""
    if value == 0:
        return "0"
    return "< 0.001" if value < 0.0005 else f"{value:.3f}"
