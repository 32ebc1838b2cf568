"""Varying K or D on the language model's task: small K or D hurts, even where there are far more codes than words.

    python experiments/vary_k_d.py --data FOLDER --work FOLDER [--points 50x16,8x10]

The table is the embedding that `ptb_perplexity.py` trained (its conventional row, in the work folder). For each K and D
codes are learned from it with the linear composition; then a language model is trained with these codes fixed, by the
shortened recipe of `shortened.py`, and its test perplexity taken. These perplexities compare with each other alone:
a quarter of the text is read, four times. Finished points are kept in the work folder and not run again.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiment import Experiment, kept
from figure import COLORS, panels
from language_model import keep_freed_memory, trained_table
from matplotlib.axes import Axes
from penn_treebank import DATA, Corpus, made_up_corpus, read_corpus
from shortened import SHARE_OF_TEXT, SHORT, measured, shortened_perplexity

import kdcode

FIXED_SIZE, FIXED_LENGTH = 50, 10
LENGTHS = (2, 4, 6, 8, 10, 16, 32)
SIZES = (4, 8, 16, 32, 50, 100, 256)
WITHOUT_PERPLEXITY = {(50, 6), (50, 32), (16, 10), (32, 10)}
"""Points whose reconstruction error alone is measured, for want of time."""

Point = tuple[int, int]


class Sweep:
    """The points of the sweep, each measured once and kept.

    Args:
        table: what codes are learned from.
        corpus: text of the language model.
        work: folder for finished points.
        seed: of codes and weights.
        tiny: whether everything is cut short.
    """

    def __init__(self, table: kdcode.VectorTable, corpus: Corpus, work: Path, *, seed: int, tiny: bool) -> None:
        self.table, self.corpus, self.seed, self.tiny = table, corpus, seed, tiny
        self.folder = work / f"vary_k_d-seed{seed}"

    def codes(self, point: Point) -> kdcode.CodedTable:
        """The table in codes of K and D."""
        size, length = point
        path = self.folder / f"{size}x{length}.kdc"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            few = {"epochs": 2} if self.tiny else {}
            options = {"learner": "straight-through", "codebook_size": size, "code_length": length, **few}
            coded = kdcode.compress(self.table, **options, seed=self.seed)
            coded.provenance["seconds"] = coded.learning_seconds
            kdcode.save(coded, path)
        return kdcode.load(path)

    def perplexity(self, point: Point | None) -> dict[str, Any]:
        """Test perplexity with the codes of a point, or with a full table."""
        name = "full" if point is None else f"{point[0]}x{point[1]}"

        def measure() -> dict[str, Any]:
            codes = None if point is None else self.codes(point).codes
            size = 0 if point is None else point[0]
            checkpoint = self.folder / f"{name}.pt"
            record = measured(
                lambda: shortened_perplexity(
                    codes, size, self.corpus, seed=self.seed, checkpoint=checkpoint, tiny=self.tiny
                )
            )
            checkpoint.unlink(missing_ok=True)
            return record

        return kept(self.folder / f"{name}.json", measure)

    def row(self, point: Point, with_perplexity: bool) -> dict[str, Any]:
        """One row of the result."""
        coded = self.codes(point)
        size, length = point
        return {
            "codebook_size": size,
            "code_length": length,
            "log10_codes_per_symbol": round(float(length * np.log10(size) - np.log10(len(self.table))), 2),
            "relative_error": round(coded.provenance["relative_error"], 4),
            "embedding_parameters": size * length * self.table.embedding_dim,
            "embedding_bytes": coded.sizes.embedding,
            "short_test_perplexity": self.perplexity(point)["perplexity"] if with_perplexity else None,
        }


def draw(path: Path, rows: list[dict[str, Any]], full: float) -> None:
    """Error and perplexity against D with K fixed, and against K with D fixed."""
    with panels(path, 2) as axes:
        for axis, moving, fixed, value in (
            (axes[0], "code_length", "codebook_size", FIXED_SIZE),
            (axes[1], "codebook_size", "code_length", FIXED_LENGTH),
        ):
            chosen = sorted((row for row in rows if row[fixed] == value), key=lambda row: row[moving])
            letter, held = ("D", f"K = {value}") if moving == "code_length" else ("K", f"D = {value}")
            _draw_panel(axis, chosen, moving, full)
            axis.set(xlabel=f"{letter} ({held})", title=f"{held}, {letter} varied")


def _draw_panel(axis: Axes, rows: list[dict[str, Any]], moving: str, full: float) -> None:
    measured = [row for row in rows if row["short_test_perplexity"] is not None]
    axis.plot([row[moving] for row in rows], [row["relative_error"] for row in rows], "o-", label="relative error")
    axis.set_xscale("log", base=2)
    axis.set_xticks([row[moving] for row in rows], [str(row[moving]) for row in rows])
    axis.minorticks_off()
    axis.set(ylabel="relative error of the table", ylim=(0, 1))
    axis.legend(loc="upper right")
    other = axis.twinx()
    other.spines["right"].set_visible(True)
    other.grid(visible=False)
    perplexities = [row["short_test_perplexity"] for row in measured]
    other.plot([row[moving] for row in measured], perplexities, "s--", color=COLORS[1], label="perplexity")
    other.axhline(full, color=COLORS[-1], linewidth=1, linestyle=":", label="full table")
    other.set_ylabel("test perplexity, shortened recipe")
    other.legend(loc="upper right", bbox_to_anchor=(1, 0.88))


def main() -> None:
    """Measure every point, write, print and draw them."""
    experiment = Experiment(__file__, __doc__, data=DATA, resumes=True)
    experiment.parser.add_argument("--points", help="measure only these, as 50x16,8x10 (K x D), and write no result")
    experiment.parser.add_argument("--threads", type=int, default=2, help="processor threads")
    arguments = experiment.read_arguments()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    if arguments.tiny:
        corpus = made_up_corpus()
        draws = np.random.default_rng(0).normal(size=(len(corpus.words), 16)).astype(np.float32)
        table = kdcode.VectorTable(corpus.words, draws)
    else:
        corpus = read_corpus(arguments.data)
        table = trained_table(experiment.work / f"small-seed{arguments.seed}" / "conventional.pt", corpus)
    sweep = Sweep(table, corpus, experiment.work, seed=arguments.seed, tiny=arguments.tiny)
    if arguments.points:
        for point in arguments.points.split(","):
            size, length = map(int, point.split("x"))
            experiment.say(f"K={size}, D={length}: {sweep.perplexity((size, length))}")
        return
    lengths, sizes = ((2, 10), (4, 50)) if arguments.tiny else (LENGTHS, SIZES)
    points = [(FIXED_SIZE, length) for length in lengths]
    points += [(size, FIXED_LENGTH) for size in sizes if size != FIXED_SIZE]
    rows = []
    for point in points:
        rows.append(sweep.row(point, point not in WITHOUT_PERPLEXITY))
        experiment.say(f"K={point[0]}, D={point[1]}: {rows[-1]}")
    full = sweep.perplexity(None)["perplexity"]
    seconds = sum(sweep.codes(point).provenance["seconds"] for point in points)
    trained = [None, *(point for point in points if point not in WITHOUT_PERPLEXITY)]
    seconds += sum(sweep.perplexity(point)["seconds"] for point in trained)
    settings = {"recipe": asdict(SHORT), "share_of_text": SHARE_OF_TEXT, "full_table_perplexity": full}
    experiment.write(settings, rows, seconds=seconds)
    draw(experiment.figure_path(), rows, full)
    print(f"full table: {full}")
    for row in rows:
        print(
            f"K={row['codebook_size']:<4} D={row['code_length']:<3} error {row['relative_error']:.4f}  "
            f"perplexity {row['short_test_perplexity']}"
        )


if __name__ == "__main__":
    main()
