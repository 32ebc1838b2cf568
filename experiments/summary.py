"""The tables of README.md, taken from the result files: every item of the paper, and codes learned inside tasks.

    python experiments/summary.py

Rewrites the tables in place. What is said in words stays here; what is measured is read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from task_summary import HEADS, TaskItem, task_items

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
BEGIN, END = "<!-- the table, made by summary.py -->", "<!-- the end of the table -->"
TASKS_BEGIN = "<!-- the table of tasks, made by summary.py -->"
TRIAL = "--steps 100 --rows conventional,random-linear,random-lstm"
VERDICTS = {
    "conventional": "holds",
    "random-linear": "worse, as it should be, but far less than in the paper",
    "random-lstm": "worse than all others, as in the paper",
    "linear-linear": "better than the paper's row, and than the full table",
    "linear-lstm": "holds",
    "lstm-linear": "better than the paper's row, and than the full table",
    "lstm-lstm": "holds",
}


class Item(NamedTuple):
    """One line of the table."""

    what: str
    command: str
    seconds: float
    paper: str
    ours: str
    verdict: str

    def line(self) -> str:
        """As Markdown."""
        cells = (self.what, f"`{self.command}`", _time(self.seconds), self.paper, self.ours, self.verdict)
        return f"| {' | '.join(cells)} |"


def result(name: str) -> dict[str, Any]:
    """A committed result."""
    return dict(json.loads((HERE / "results" / f"{name}.json").read_text(encoding="utf-8")))


def items() -> Iterator[Item]:
    """All lines, in the paper's order."""
    yield _temperature()
    yield _clustering()
    yield _glove_codes()
    yield from _table_1()
    yield from _trials()
    yield _random_codes()
    yield from _vary()
    yield from _code_space()
    yield _lightrnn()
    yield _related()


def _temperature() -> Item:
    kept = result("temperature")
    furthest = max(row["largest_difference_from_known"] for row in kept["rows"])
    ours = f"the library's own estimator, within {furthest:.0e} of the formula"
    return Item("temperature, K = 2", "temperature.py", kept["seconds"], "from smooth to a step", ours, "holds")


def _clustering() -> Item:
    kept = result("clustering")
    nmi = {row["variant"]: (row["nmi_min"], row["nmi_max"]) for row in kept["summary"]}
    parts = {
        "with the schedule": "straight-through, schedule",
        "at constant T": "straight-through, constant T",
        "soft": "soft, schedule",
        "from a greedy warm start": "greedy warm start, schedule",
    }
    ours = "NMI " + ", ".join(f"{name} {nmi[key][0]:.3f} to {nmi[key][1]:.3f}" for name, key in parts.items())
    paper = "best with the schedule; at constant T codes keep changing; soft falls, then rises"
    return Item("clustering, K = 100, D = 1", "clustering.py", kept["seconds"], paper, ours, "holds")


def _glove_codes() -> Item:
    kept = result("glove_codes")
    inside = kept["similarity"][0]
    codes = [run["codes_of_weekdays"] for run in kept["runs"]]
    ours = (
        f"cosine {inside['mean_cosine']:.2f} in a code, {inside['random_mean']:.2f} in random groups; weekdays in "
        f"{kept['word_sets'][0]['codes']} codes ({min(codes)} to {max(codes)} over {len(codes)} runs)"
    )
    paper = "words of a code belong together"
    return Item(
        "codes of words, K = 6, D = 4", "glove_codes.py", kept["seconds"], paper, ours, "holds; which meet is chance"
    )


def _table_1() -> Iterator[Item]:
    kept = result("ptb_perplexity-small")
    rows = [row for row in kept["rows"] if row["seed"] == 0]
    base = rows[0]
    for row in rows:
        name = row["row"].replace("-", " + ").replace("lstm", "LSTM")
        yield Item(
            f"Table 1, small, {name}",
            f"ptb_perplexity.py --rows {row['row']}",
            row["seconds_per_epoch"] * row["epochs"],
            _beside(row["paper_test_perplexity"], base["paper_test_perplexity"]),
            f"{_beside(row['test_perplexity'], base['test_perplexity'])}; {row['embedding_parameters']:,} numbers",
            VERDICTS[row["row"]],
        )


def _beside(value: float, base: float) -> str:
    """A perplexity, and how far it is from the full table's."""
    return f"{value:.1f}" if value == base else f"{value:.1f} ({100 * (value / base - 1):+.0f}%)"


def _trials() -> Iterator[Item]:
    small = result("ptb_perplexity-small-trial")
    steps = {row["row"]: row["seconds_per_step"] for row in small["rows"]}
    ours = ", ".join(f"{name} {steps[f'random-{name}'] / steps['conventional']:.2f}" for name in ("linear", "lstm"))
    yield Item(
        "time of a step over the full table's",
        f"ptb_perplexity.py {TRIAL}",
        small["seconds"],
        "–",
        ours.replace("lstm", "LSTM"),
        "–",
    )
    large = result("ptb_perplexity-large-trial")
    rows = {row["row"]: row for row in large["rows"]}
    first, last = (rows["conventional"][f"{end}_perplexity"] for end in ("first", "last"))
    numbers = ", ".join(f"{rows[f'random-{name}']['embedding_parameters'] / 1e6:.2f}M" for name in ("linear", "lstm"))
    yield Item(
        "Table 1, large: does it train",
        f"ptb_perplexity.py --model large {TRIAL.replace('100', '200', 1)}",
        large["seconds"],
        "0.4M and 0.63M numbers",
        f"{numbers}; perplexity from {first:,.0f} to {last:,.0f} in {large['settings']['steps']} steps; "
        f"{rows['conventional']['full_run_hours']:.0f} hours for a whole row here",
        "a whole run is for a GPU",
    )


def _random_codes() -> Item:
    kept = result("random_codes")
    found = {row["row"]: row["short_test_perplexity"] for row in kept["rows"]}
    full = found.pop("full table")
    learned = found.pop("learned codes")
    ours = (
        f"shortened recipe: full table {full:.0f}, learned codes {learned:.0f}, random codes "
        f"{found['random codes']:.0f}, and {found['random codes, codewords learn at a tenth']:.0f} with codewords at a "
        "tenth of the rate"
    )
    return Item("what random codes cost", "random_codes.py", kept["seconds"], "–", ours, "LOG.md")


def _vary() -> Iterator[Item]:
    kept = result("vary_k_d")
    full = kept["settings"]["full_table_perplexity"]
    for moving, fixed, value in (("code_length", "codebook_size", 50), ("codebook_size", "code_length", 10)):
        rows = sorted((row for row in kept["rows"] if row[fixed] == value), key=lambda row: row[moving])
        seen = [row for row in rows if row["short_test_perplexity"] is not None]
        letters = ("D", "K") if moving == "code_length" else ("K", "D")
        ours = (
            f"error {rows[0]['relative_error']:.2f} to {rows[-1]['relative_error']:.2f} for {letters[0]} = "
            f"{rows[0][moving]} to {rows[-1][moving]}; shortened perplexity {seen[0]['short_test_perplexity']:.0f} to "
            f"{seen[-1]['short_test_perplexity']:.0f} for {seen[0][moving]} to {seen[-1][moving]} (full: {full:.0f})"
        )
        paper = f"small {letters[0]} hurts"
        verdict = "holds" if letters[0] == "D" else "holds below K = 8"
        yield Item(f"{letters[1]} = {value}, {letters[0]} varied", "vary_k_d.py", kept["seconds"], paper, ours, verdict)


def _code_space() -> Iterator[Item]:
    kept = result("code_space")
    formula = next(row for row in kept["rows"] if row["part"] == "collisions by formula")
    drawn = [row for row in kept["rows"] if row["part"] == "collisions drawn"]
    furthest = max(abs(row["deviation_in_errors"]) for row in drawn)
    ours = (
        f"{100 * formula['no_collision']:.1f}% by formula; {len(drawn)} smaller cases drawn, all within "
        f"{furthest:.1f} standard errors of it"
    )
    paper = "no collision of 10^9 codes with K = 100, D = 10: 99.5%"
    yield Item("counting claims", "code_space.py", kept["seconds"], paper, ours, "holds")


def _lightrnn() -> Item:
    kept = result("lightrnn")
    ptb = [row for row in kept["rows"] if row["table"] == "ptb"]
    kinds = ("LightRNN", "KD, same K and D", "KD, same bytes")
    errors = [min(row["relative_error"] for row in ptb if row["row"] == kind) for kind in kinds]
    perplexity = {row["row"]: row["short_test_perplexity"] for row in ptb if row["short_test_perplexity"]}
    ours = (
        f"error {errors[0]:.2f}; KD of equal K and D {errors[1]:.2f}, of equal bytes {errors[2]:.2f}; shortened "
        f"perplexity {', '.join(f'{perplexity[kind]:.0f}' for kind in kinds)}"
    )
    paper = "compact codes are harder to optimise"
    command = "lightrnn.py --glove FOLDER"
    return Item("LightRNN, K = √N, D = 2", command, kept["seconds"], paper, ours, "holds")


def _related() -> Item:
    kept = result("related")
    found = {row["method"]: row["relative_error"] for row in kept["rows"] if row["codebook_size"] == 16}
    names = ("Algorithm 1", "straight-through", "encoder", "encoder with refinement", "1 hash")
    ours = "error at K = 16, D = 32: " + ", ".join(f"{name} {found[name]:.3f}" for name in names)
    return Item("encoder with Gumbel-softmax, hashing", "related.py", kept["seconds"], "–", ours, "–")


def _time(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )


def table() -> str:
    """The whole table as Markdown."""
    head = ["| the paper's item | command | time | the paper | ours | verdict |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *(item.line() for item in items())])


def task_table() -> str:
    """The table of tasks as Markdown."""
    lines = [_task_line(item) for item in task_items(result)]
    return "\n".join([f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}", *lines])


def _task_line(item: TaskItem) -> str:
    cells = item._replace(command=f"`{item.command}`")._asdict() | {"seconds": _time(item.seconds)}
    return f"| {' | '.join(cells.values())} |"


def page_with_tables(page: str) -> str:
    """A page with the tables in place of what is between their marks."""
    for begin, text in ((BEGIN, table()), (TASKS_BEGIN, task_table())):
        before, _, rest = page.partition(f"{begin}\n")
        _, _, after = rest.partition(END)
        if not after:
            sys.exit(f"{PAGE} has lost its marks, {begin!r} and {END!r}")
        page = f"{before}{begin}\n{text}\n{END}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
