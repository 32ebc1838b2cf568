"""Varying K or D on the language model's task: small K or D hurts, even where there are far more codes than words.

    python experiments/vary_k_d.py --data FOLDER --work FOLDER [--points 50x16,8x10]

The table is the embedding of `ptb_perplexity.py`'s conventional row, trained where the work folder lacks it. For each K
and D codes are learned from it with the linear composition; then a language model is trained with these codes fixed, by
the shortened recipe of `shortened.py`, and its test perplexity taken. These perplexities compare with each other alone:
a quarter of the text is read, four times. The result of a point is `results/runs/vary_k_d/KxD-seedN.json`; points that
have one are not run again. `summary.py` draws the means of all seeds.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from conventional import conventional_table
from experiment import Experiment, kept
from language_model import SMALL_BFLOAT16, keep_freed_memory
from penn_treebank import DATA, Corpus, made_up_corpus, read_corpus
from shortened import SHARE_OF_TEXT, SHORT, shortened_perplexity

import kdcode

FIXED_SIZE, FIXED_LENGTH = 50, 10
LENGTHS = (2, 4, 6, 8, 10, 16, 32)
SIZES = (4, 8, 16, 32, 50, 100, 256)
FULL = "full"
"""The point that is no code: the full table."""
POINTS = (
    FULL,
    *(f"{FIXED_SIZE}x{length}" for length in LENGTHS),
    *(f"{size}x{FIXED_LENGTH}" for size in SIZES if size != FIXED_SIZE),
)
"""All points by name, K x D."""
LEARNER = "straight-through"

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
            options = {"learner": LEARNER, "codebook_size": size, "code_length": length, **few}
            coded = kdcode.compress(self.table, **options, seed=self.seed)
            coded.provenance["seconds"] = coded.learning_seconds
            kdcode.save(coded, path)
        return kdcode.load(path)

    def perplexity(self, point: Point | None) -> dict[str, Any]:
        """Test perplexity with the codes of a point, or with a full table."""
        name = FULL if point is None else f"{point[0]}x{point[1]}"

        def measure() -> dict[str, Any]:
            codes = None if point is None else self.codes(point).codes
            size = 0 if point is None else point[0]
            checkpoint = self.folder / f"{name}.pt"
            record = shortened_perplexity(
                codes, size, self.corpus, seed=self.seed, checkpoint=checkpoint, tiny=self.tiny
            )
            checkpoint.unlink(missing_ok=True)
            return record

        return kept(self.folder / f"{name}.json", measure)

    def row(self, point: Point | None) -> dict[str, Any]:
        """One row of the result: a point, or the full table."""
        found = self.perplexity(point)
        perplexities = {
            "short_test_perplexity": found["perplexity"],
            "short_train_perplexity": found["train_perplexity"],
        }
        if point is None:
            return {"row": "full table", "embedding_parameters": self.table.matrix.size, **perplexities}
        coded = self.codes(point)
        size, length = point
        return {
            "row": f"{size}x{length}",
            "codebook_size": size,
            "code_length": length,
            "log10_codes_per_symbol": round(float(length * np.log10(size) - np.log10(len(self.table))), 2),
            "relative_error": round(coded.provenance["relative_error"], 4),
            "embedding_parameters": size * length * self.table.embedding_dim,
            "embedding_bytes": coded.sizes.embedding,
            **perplexities,
        }

    def seconds(self, point: Point | None) -> dict[str, float]:
        """How long its codes and its model took."""
        codes = 0.0 if point is None else self.codes(point).provenance["seconds"]
        return {"codes": codes, "training and evaluation": self.perplexity(point)["seconds"]}


def main() -> None:
    """Measure every point that has no result yet."""
    experiment = Experiment(__file__, __doc__, data=DATA, resumes=True)
    experiment.parser.add_argument("--points", help="measure only these, as full,50x16,8x10 (K x D)")
    experiment.parser.add_argument("--threads", type=int, default=1, help="processor threads")
    arguments = experiment.read_arguments()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    if arguments.tiny:
        corpus = made_up_corpus()
        draws = np.random.default_rng(0).normal(size=(len(corpus.words), 16)).astype(np.float32)
        table = kdcode.VectorTable(corpus.words, draws)
    else:
        corpus = read_corpus(arguments.data)
        folder = experiment.work / f"small-seed{arguments.seed}"
        table = conventional_table(corpus, SMALL_BFLOAT16, seed=arguments.seed, folder=folder)
    sweep = Sweep(table, corpus, experiment.work, seed=arguments.seed, tiny=arguments.tiny)
    settings = {"recipe": asdict(SHORT), "share_of_text": SHARE_OF_TEXT, "learner": LEARNER}
    few = "full,50x2,50x10,4x10" if arguments.tiny else ",".join(POINTS)
    for name in (arguments.points or few).split(","):
        if not experiment.run_path(name).exists():
            point = None if name == FULL else as_point(name)
            row = sweep.row(point)
            experiment.write_run(name, settings, row, sweep.seconds(point))
            print("  ".join(f"{key} {value}" for key, value in row.items()))


def as_point(name: str) -> Point:
    """K and D of a point as it is written."""
    size, length = map(int, name.split("x"))
    return size, length


if __name__ == "__main__":
    main()
