"""The tables of in-task.md: codes that are learned inside a task."""

from __future__ import annotations

from collections.abc import Callable

from markdown_tables import rows_of, table
from paper_results import learned_codes

LAYERS = {
    "query": '`KDEmbedding`, `assignment="query"`',
    "free": '`KDEmbedding`, `assignment="free"`',
    "full table": "`nn.Embedding(sparse=True)`, SparseAdam",
    "free, dense": '`assignment="free"`, Adam of torch, dense gradients',
}


def step_cost() -> str:
    """Time of a step against the number of symbols."""
    rows = rows_of("step_cost")
    counts = sorted({row["symbols"] for row in rows})
    found = {(row["layer"], row["symbols"]): row for row in rows}
    lines = []
    for layer, name in LAYERS.items():
        cells = [found.get((layer, count)) for count in counts]
        times = ["–" if cell is None else f"{cell['ms']:.1f} ms" for cell in cells]
        last = [cell for cell in cells if cell is not None][-1]
        lines.append([name, *times, f"{last['ratio']:.2f}"])
    heads = ["a step of 1,024 ids, one thread", *(f"{count:,} symbols" for count in counts), "last / first"]
    return table(heads, lines)


IN_TASK_PARTS: dict[str, Callable[[], str]] = {"step_cost": step_cost, "learned_codes": learned_codes}
