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

from sweeps import draw as draw_sweeps
from sweeps import in_words, sweeps, verdict
from table_1 import HIDDEN, draw_small, lines, sizes_table
from task_summary import HEADS, TaskItem, task_items

HERE = Path(__file__).parent
PAGE = HERE / "README.md"
BEGIN, END = "<!-- the table, made by summary.py -->", "<!-- the end of the table -->"
TASKS_BEGIN = "<!-- the table of tasks, made by summary.py -->"
FIRST_ORDER = "straight-through, first order, not refined"
SIZES_BEGIN = "<!-- the table of sizes, made by summary.py -->"
TRIAL = "--steps 100 --rows conventional,random-linear,random-lstm"


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
        "from the library's warm start": "warm start, schedule",
        "from a greedy warm start": "greedy warm start, schedule",
        "k-means++": "k-means++",
    }
    ours = "NMI " + ", ".join(f"{name} {nmi[key][0]:.3f} to {nmi[key][1]:.3f}" for name, key in parts.items())
    paper = "best with the schedule; at constant T codes keep changing; soft falls, then rises"
    failed = [f"{claim['claim']} ({claim['measured']:.4f})" for claim in kept["claims"] if not claim["holds"]]
    words = "holds among the paper's three; k-means++ is as good as the schedule"
    if failed:
        words += f"; a claim of ours fails: {'; '.join(failed)}"
    return Item("clustering, K = 100, D = 1", "clustering.py", kept["seconds"], paper, ours, words)


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
    for model in HIDDEN:
        for line in lines(model):
            yield Item(
                f"Table 1, {model.replace('-', ' ')}, {_shown(line.row)}",
                f"ptb_perplexity.py{'' if model == 'small' else f' --model {model}'} --rows {line.row}",
                line.seconds,
                line.paper,
                line.ours,
                line.verdict,
            )


def _shown(row: str) -> str:
    """A row as the paper writes it, such as LSTM + linear; and algorithm 1: linear + linear, linear + shared LSTM."""
    learner, _, rest = row.rpartition("algorithm-1-")
    words = rest.replace("shared-lstm", "shared lstm").replace("-", " + ").replace("lstm", "LSTM")
    return words if not learner and rest == row else f"algorithm 1: {words}"


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
    both, seconds = sweeps()
    for sweep in both:
        letter, held = sweep.letters
        what = f"{held}, {letter} varied"
        yield Item(what, "vary_k_d.py", seconds, f"small {letter} hurts", in_words(sweep), verdict(sweep))


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
    if kept["settings"]["methods"]["Algorithm 1"].get("learner") != "algorithm-1":  # as it was called before
        found[FIRST_ORDER] = found.pop("Algorithm 1")
    names = ("Algorithm 1", FIRST_ORDER, "straight-through", "encoder", "encoder with refinement", "1 hash")
    ours = "error at K = 16, D = 32: " + ", ".join(f"{name} {found[name]:.3f}" for name in names if name in found)
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
    for begin, text in ((BEGIN, table()), (SIZES_BEGIN, sizes_table()), (TASKS_BEGIN, task_table())):
        before, _, rest = page.partition(f"{begin}\n")
        _, _, after = rest.partition(END)
        if not after:
            sys.exit(f"{PAGE} has lost its marks, {begin!r} and {END!r}")
        page = f"{before}{begin}\n{text}\n{END}{after}"
    return page


if __name__ == "__main__":
    draw_small(HERE / "figures" / "ptb_perplexity-small.svg")
    draw_sweeps(HERE / "figures" / "vary_k_d.svg", sweeps()[0])
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
