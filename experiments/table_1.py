"""Table 1 from the runs of all seeds: perplexities beside the paper's, sizes beside the paper's, and the figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from figure import COLORS, panels
from runs import Record, Spread, is_noise, runs_of, spread
from table_1_rows import BESIDE, PAPER, ROWS

BEFORE = Path(__file__).parent / "results" / "ptb_perplexity-small.json"
"""One seed of the paper's rows in float32, from before there were runs: shown for rows that have none."""
HIDDEN = {"small": 200, "large-shortened": 1500}
COLOR_OF_CODES = {"conventional": COLORS[-1], "random": COLORS[1], "linear": COLORS[0], "lstm": COLORS[2]}


class Line(NamedTuple):
    """What is said of a row."""

    row: str
    seconds: float
    paper: str
    ours: str
    verdict: str


def records_of(model: str) -> dict[str, list[Record]]:
    """The runs of every row of a model that has any, in the order of `ROWS`."""
    found = runs_of(f"ptb_perplexity-{model}")
    if model == "small" and BEFORE.exists():
        before = json.loads(BEFORE.read_text(encoding="utf-8"))["rows"]
        for record in before:
            seconds = record["seconds_per_epoch"] * record["epochs"]
            found.setdefault(record["row"], [{**record, "run_seconds": seconds}])
    return {row: found[row] for row in ROWS if row in found}


def lines(model: str) -> list[Line]:
    """Every row that was run."""
    records = records_of(model)
    column = 0 if model == "small" else 1
    return [_line(row, found, records.get("conventional"), column) for row, found in records.items()]


def _line(row: str, found: list[Record], full: list[Record] | None, column: int) -> Line:
    paper, full_paper = PAPER[BESIDE.get(row, row)][column], PAPER["conventional"][column]
    test = spread(found, "test_perplexity")
    base = None if full is None or row == "conventional" else spread(full, "test_perplexity")
    ratio = found[0]["ratio"]
    ours = f"{test.shown()}{_percent(test.mean, base.mean) if base else ''}"
    if "train_perplexity" in found[0]:
        ours += f", train {spread(found, 'train_perplexity').shown()}"
    ours += f"; {found[0]['embedding_parameters']:,} numbers, {ratio:.3g}; {_seeds(test)}"
    theirs = (
        f"{paper[0]:.1f}{_percent(paper[0], full_paper[0]) if base else ''}; {paper[1]:g}M, {_printed(row, column)}"
    )
    verdict = _verdict(test, base, paper[0] / full_paper[0] - 1)
    return Line(row, spread(found, "run_seconds").mean, theirs, ours, verdict)


def _verdict(test: Spread, base: Spread | None, paper: float) -> str:
    """Better or worse than the full table, beside what the paper found."""
    if base is None:
        return "–"
    noise = is_noise(test, base)
    here = "level with the full table, below the noise" if noise else _side(test.mean / base.mean - 1)
    if noise is None:
        here += ", of one seed"
    return f"{here}; in the paper {_side(paper)}"


def _side(change: float) -> str:
    return f"{100 * abs(change):.0f}% {'better' if change < 0 else 'worse'}"


def _percent(value: float, base: float) -> str:
    return f" ({100 * (value / base - 1):+.0f}%)"


def _seeds(found: Spread) -> str:
    return "1 seed" if found.count == 1 else f"{found.count} seeds"


def _printed(row: str, column: int) -> str:
    """The rate that the paper prints."""
    composition = ROWS[row].composition or ""
    return ("0.05", "0.033")[column] if composition == "linear" else ("0.185", "0.042")[column] if composition else "1"


def numbers_of(composition: str, dim: int, size: int = 50, length: int = 10, width: int = 200) -> int:
    """How many numbers an embedding has: codewords of all positions, of an LSTM U and b, and H where it is needed."""
    if composition == "linear":
        return size * length * width + (width * dim if width != dim else 0)
    codebooks = 1 if composition == "shared-lstm" else length
    matrices = 2 if composition == "shared-lstm" else 1
    return codebooks * size * width + 4 * (matrices * width * width + width) + width * dim


def sizes_table() -> str:
    """Sizes by the equations and by the reading that matches what is printed, as Markdown."""
    names = {
        "linear": "linear: 500 codewords of 200 numbers, and H where d is 1500",
        "lstm": "LSTM as the equations have it: codewords added to every gate, U, b and H",
        "shared-lstm": "standard LSTM with an input matrix, one codebook of 50 for all positions, and H",
    }
    head = "| embedding | small | rate | printed | large | rate | printed |\n|---|---|---|---|---|---|---|"
    printed = {"linear": ("0.1M, 0.05", "0.4M, 0.033")}
    rows = []
    for composition, words in names.items():
        theirs = printed.get(composition, ("0.37M, 0.185", "0.63M, 0.042"))
        cells = [words]
        for dim, cell in zip(HIDDEN.values(), theirs, strict=True):
            count = numbers_of(composition, dim)
            cells += [f"{count:,}", f"{count / (10_000 * dim):.3f}", cell]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([head, *rows])


def draw(path: Path, records: dict[str, list[Record]]) -> None:
    """Left: test perplexity beside the paper's. Right: valid perplexity over the epochs, dashed for the LSTM."""
    names = [row.replace("-", " + ").replace("lstm", "LSTM") for row in records]
    with panels(path, 2, height=3.6) as (left, right):
        places = np.arange(len(records))
        tests = [spread(found, "test_perplexity") for found in records.values()]
        errors = [test.deviation or 0.0 for test in tests]
        left.barh(places - 0.2, [test.mean for test in tests], 0.38, xerr=errors, label="ours")
        paper = [PAPER[row][0][0] for row in records]
        left.barh(places + 0.2, paper, 0.38, label="the paper", color=COLORS[-1])
        left.set(yticks=places, yticklabels=names, xlabel="test perplexity", xlim=(80, None))
        left.invert_yaxis()
        left.grid(visible=False, axis="y")
        left.legend(loc="lower right")
        for (row, found), name in zip(records.items(), names, strict=True):
            curve = np.mean([record["valid_by_epoch"] for record in found], axis=0)
            dashes = "--" if row.endswith("lstm") else "-"
            color = COLOR_OF_CODES[row.split("-")[0]]
            right.plot(range(1, len(curve) + 1), curve, dashes, color=color, label=name, linewidth=1.4)
        right.set(xlabel="epoch", ylabel="valid perplexity", ylim=(100, 240))
        right.legend(fontsize=8)


def draw_small(path: Path) -> None:
    """The figure of the small model, once all of the paper's rows have runs."""
    found = runs_of("ptb_perplexity-small")
    if set(PAPER) <= set(found):
        draw(path, {row: found[row] for row in PAPER})
