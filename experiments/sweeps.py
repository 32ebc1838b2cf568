"""K and D varied, from the runs of all seeds: what is said of them, and the figure."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from figure import COLORS, panels
from matplotlib.axes import Axes
from runs import Record, Spread, is_noise, runs_of, spread
from vary_k_d import FIXED_LENGTH, FIXED_SIZE, FULL, POINTS

BEFORE = Path(__file__).parent / "results" / "vary_k_d.json"
"""One seed, from before there were runs: shown until every point has one."""
FULL_ROW = "full table"


class Sweep(NamedTuple):
    """One of K and D varied.

    Args:
        moving: "code_length" or "codebook_size".
        points: the runs of each point, in rising order.
        full: the runs of the full table.
    """

    moving: str
    points: list[list[Record]]
    full: list[Record]

    @property
    def letters(self) -> tuple[str, str]:
        """What is varied, and what is held."""
        return ("D", f"K = {FIXED_SIZE}") if self.moving == "code_length" else ("K", f"D = {FIXED_LENGTH}")


def sweeps() -> tuple[list[Sweep], float]:
    """Both sweeps, and how many seconds they took."""
    found = runs_of("vary_k_d")
    if not set(POINTS) - {FULL} <= set(found) or FULL_ROW not in found:
        found = _before()
    seconds = sum(record["run_seconds"] for records in found.values() for record in records)
    full = found.pop(FULL_ROW)
    both = []
    for moving, fixed, value in (
        ("code_length", "codebook_size", FIXED_SIZE),
        ("codebook_size", "code_length", FIXED_LENGTH),
    ):
        chosen = [records for records in found.values() if records[0][fixed] == value]
        both.append(Sweep(moving, sorted(chosen, key=lambda records, key=moving: records[0][key]), full))
    return both, seconds


def _before() -> dict[str, list[Record]]:
    kept = json.loads(BEFORE.read_text(encoding="utf-8"))
    seconds = kept["seconds"] / len(kept["rows"])
    points = {f"{row['codebook_size']}x{row['code_length']}": [{**row, "run_seconds": seconds}] for row in kept["rows"]}
    full = {"short_test_perplexity": kept["settings"]["full_table_perplexity"], "run_seconds": 0.0}
    return {**points, FULL_ROW: [full]}


def in_words(sweep: Sweep) -> str:
    """Errors and perplexities at the ends, where perplexity is lowest, and what happens after that."""
    letter = sweep.letters[0]
    values = [records[0][sweep.moving] for records in sweep.points]
    errors = [spread(records, "relative_error").mean for records in sweep.points]
    measured = _perplexities(sweep)
    full = spread(sweep.full, "short_test_perplexity")
    lowest = min(measured, key=lambda value: measured[value].mean)
    last = max(measured)
    text = (
        f"error {errors[0]:.2f} to {errors[-1]:.2f} for {letter} = {values[0]} to {values[-1]}; shortened perplexity "
        f"{measured[min(measured)].shown()} at {min(measured)}, lowest at {lowest} with {measured[lowest].shown()}"
    )
    if last != lowest:
        text += f", {measured[last].shown()} at {last}{_in_words(is_noise(measured[last], measured[lowest]))}"
    return f"{text} (full: {full.shown()}; {full.count} seed{'s' if full.count > 1 else ''})"


def verdict(sweep: Sweep) -> str:
    """From where on a larger K or D is no better than the one before, as far as the noise tells."""
    measured = _perplexities(sweep)
    values = sorted(measured)
    for low, high in pairwise(values):
        noise = is_noise(measured[low], measured[high])
        gains = measured[low].mean - measured[high].mean > (0.01 * measured[low].mean if noise is None else 0)
        if noise or not gains:
            return f"holds below {sweep.letters[0]} = {low}" if low != values[0] else "does not hold"
    return "holds"


def _in_words(noise: bool | None) -> str:
    if noise is None:
        return ", a rise that one seed cannot tell from noise"
    return ", a difference below the noise" if noise else ", a rise above the noise"


def _perplexities(sweep: Sweep) -> dict[int, Spread]:
    return {
        records[0][sweep.moving]: spread(records, "short_test_perplexity")
        for records in sweep.points
        if records[0]["short_test_perplexity"] is not None
    }


def draw(path: Path, both: list[Sweep]) -> None:
    """Error and perplexity against D with K fixed, and against K with D fixed."""
    with panels(path, 2) as axes:
        for axis, sweep in zip(axes, both, strict=True):
            _draw_panel(axis, sweep)
            letter, held = sweep.letters
            axis.set(xlabel=f"{letter} ({held})", title=f"{held}, {letter} varied")


def _draw_panel(axis: Axes, sweep: Sweep) -> None:
    values = [records[0][sweep.moving] for records in sweep.points]
    errors = [spread(records, "relative_error").mean for records in sweep.points]
    axis.plot(values, errors, "o-", label="relative error")
    axis.set_xscale("log", base=2)
    axis.set_xticks(values, [str(value) for value in values])
    axis.minorticks_off()
    axis.set(ylabel="relative error of the table", ylim=(0, 1))
    axis.legend(loc="upper right")
    other = axis.twinx()
    other.spines["right"].set_visible(True)
    other.grid(visible=False)
    measured = _perplexities(sweep)
    means, deviations = ([one.mean for one in measured.values()], [one.deviation or 0.0 for one in measured.values()])
    other.errorbar(list(measured), means, deviations, fmt="s--", color=COLORS[1], label="perplexity")
    full = spread(sweep.full, "short_test_perplexity").mean
    other.axhline(full, color=COLORS[-1], linewidth=1, linestyle=":", label=FULL_ROW)
    other.set_ylabel("test perplexity, shortened recipe")
    other.legend(loc="upper right", bbox_to_anchor=(1, 0.88))
