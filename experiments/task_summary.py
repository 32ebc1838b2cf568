"""The second table of README.md: codes learned inside tasks beside full tables, taken from the result files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from runs import runs_of

Record = dict[str, Any]
Results = Callable[[str], Record]
"""A committed result, by its file's stem."""

HEADS = (
    *("task", "command", "time", "smaller", "full table", "codes after training"),
    *("codes fixed, codewords trained", "codes learned, first those of a table", "codes learned, first random"),
)
TASKS = {"trec": "TREC", "sst2": "SST-2"}
NOTHING = "–"


class TaskItem(NamedTuple):
    """One line of the table; a figure that was not measured is a dash."""

    what: str
    command: str
    seconds: float
    smaller: str
    full: str
    after: str
    fixed: str
    learned_from_table: str
    learned: str


def task_items(result: Results) -> Iterator[TaskItem]:
    """A line or more for each experiment."""
    for name, lines in _LINES.items():
        yield from lines(result(name))


def _classification(kept: Record) -> Iterator[TaskItem]:
    found: dict[tuple[str, str], dict[str, Record]] = {}
    for row in kept["rows"]:
        found.setdefault((row["task"], row["start"]), {})[row["row"]] = row
    for (task, start), rows in found.items():
        names = ["full table", "codes after training", "codes before training", NOTHING, NOTHING]
        names[3 if start == "glove" else 4] = "codes learned in the task"
        cells = [_spread(rows[name], "test", 1) if name in rows else NOTHING for name in names]
        named = "GloVe" if start == "glove" else start
        what = f"{TASKS.get(task, task)} from {named}: accuracy"
        yield TaskItem(what, "text_classification.py --glove FOLDER", kept["seconds"], _smaller(rows.values()), *cells)


def _link_prediction(kept: Record) -> Iterator[TaskItem]:
    rows = {row["row"]: row for row in kept["rows"]}
    names = ("full table", "codes after training", "the same, codewords trained on", "codes learned in the task")
    cells = [f"{rows[name]['test_mrr']:.3f}, {rows[name]['test_hits_at_10']:.3f}" for name in names]
    cells.insert(3, NOTHING)
    what = "FB15k-237: MRR, Hits@10"
    yield TaskItem(what, "link_prediction.py", kept["seconds"], _smaller(rows.values()), *cells)


def _recommendation(kept: Record) -> Iterator[TaskItem]:
    rows = {row["row"]: row for row in kept["rows"]}
    cells = [_spread(rows[name], "test_rmse", 3) for name in ("full tables", "codes after training")]
    cells += [NOTHING, NOTHING, _spread(rows["codes learned in the task"], "test_rmse", 3)]
    biases = rows["no vectors, biases alone"]["test_rmse"]
    what = f"MovieLens-100K: RMSE ({biases:.3f} without vectors)"
    yield TaskItem(what, "recommendation.py", kept["seconds"], _smaller(rows.values()), *cells)


def _language_model(kept: Record) -> Iterator[TaskItem]:
    rows = {row["row"]: row for row in kept["rows"]} | {
        row: records[0] for row, records in runs_of("learned_codes").items()
    }
    seconds = sum(row["seconds_per_epoch"] * row["epochs"] for row in rows.values())
    names = ("conventional", NOTHING, "post-hoc", "begun", "learned-dropout")
    cells = [f"{rows[name]['test_perplexity']:.1f}" if name in rows else NOTHING for name in names]
    smaller = min(row["times_smaller"] for row in rows.values() if row["times_smaller"] > 1)
    what = "Penn Treebank: perplexity"
    yield TaskItem(what, "learned_codes.py", seconds, f"{smaller:.0f}x", *cells)


def _smaller(rows: Any) -> str:  # noqa: ANN401 - an iterable of records
    """How many times smaller the largest coded row is."""
    return f"{min(row['smaller'] for row in rows if row.get('smaller', 1) > 1):.0f}x"


def _spread(row: Record, name: str, digits: int) -> str:
    return f"{row[name]:.{digits}f} ± {row[f'{name}_deviation']:.{digits}f}"


_LINES: dict[str, Callable[[Record], Iterator[TaskItem]]] = {
    "learned_codes": _language_model,
    "text_classification": _classification,
    "link_prediction": _link_prediction,
    "recommendation": _recommendation,
}
