"""Table 1 of the paper: perplexity of a language model whose embedding table is replaced by KD codes.

    python experiments/ptb_perplexity.py --data FOLDER --work FOLDER [--model large] [--rows linear-lstm,lstm-lstm]

The conventional model is trained first. Codes are learned from its embedding (at random, with the linear and with the
LSTM composition), then fixed, and the model is trained again from scratch with codewords and composition in place of
the table. Every row keeps a checkpoint per epoch in the work folder and goes on from it; finished rows are not run
again. Rows can be run side by side by processes of their own; each writes all rows that are finished by then.
"""

from __future__ import annotations

import json
import math
import time
from argparse import ArgumentParser
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiment import Experiment, kept
from figure import COLORS, panels
from language_model import (
    LARGE,
    SMALL,
    LanguageModel,
    Recipe,
    Trainer,
    Training,
    keep_freed_memory,
    perplexity,
    start_weights,
    trained_table,
)
from penn_treebank import DATA, Corpus, made_up_corpus, read_corpus
from torch import Tensor, nn

import kdcode
from kdcode.codec_torch import make_module
from kdcode.nn import KDEmbedding

ROWS = (
    "conventional",
    "random-linear",
    "random-lstm",
    "linear-linear",
    "linear-lstm",
    "lstm-linear",
    "lstm-lstm",
)
"""Code learner and composition in the task, as the paper names its rows."""

PAPER = {  # test perplexity and embedding parameters in millions: small, large
    "conventional": ((114.53, 2.0), (84.04, 15.0)),
    "random-linear": ((144.32, 0.1), (103.44, 0.4)),
    "random-lstm": ((147.13, 0.37), (119.62, 0.63)),
    "linear-linear": ((118.40, 0.1), (87.42, 0.4)),
    "linear-lstm": ((111.13, 0.37), (88.82, 0.63)),
    "lstm-linear": ((117.21, 0.1), (84.61, 0.4)),
    "lstm-lstm": ((111.31, 0.37), (85.37, 0.63)),
}
COLOR_OF_CODES = {"conventional": COLORS[-1], "random": COLORS[1], "linear": COLORS[0], "lstm": COLORS[2]}
CODES = {"codebook_size": 50, "code_length": 10, "codeword_dim": 200}
TINY_RECIPE = replace(SMALL, hidden=16, epochs=2, unroll=10, lanes=4)
TINY_CODES = {"codebook_size": 8, "code_length": 4, "codeword_dim": 16, "epochs": 3}


class Table1:
    """All rows for one model and one seed, kept in a folder.

    Args:
        corpus: the text.
        recipe: of the language model.
        options: of the codes, by name.
        seed: of the weights and codes.
        folder: for checkpoints, codes and finished rows.
        device: where to train.
    """

    def __init__(
        self, corpus: Corpus, recipe: Recipe, options: dict[str, Any], *, seed: int, folder: Path, device: str
    ) -> None:
        self.corpus, self.recipe, self.options, self.seed, self.device = corpus, recipe, options, seed, device
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, row: str, experiment: Experiment) -> dict[str, Any]:
        """The record of a row: trained to the end, or gone on with, unless that is done already."""

        def show(run: Training, done: int, of: int) -> None:
            if done % 200 == 0 or done == of:
                valid = f", valid {run.valid_perplexity[-1]:.1f}" if run.valid_perplexity else ""
                experiment.say(f"{row}: epoch {run.epoch + 1} of {self.recipe.epochs}, step {done} of {of}{valid}")

        def to_the_end() -> dict[str, Any]:
            model = self.fresh_model(row)
            run = Trainer(model, self.recipe, self.folder / f"{row}.pt").train(self.corpus, show)
            return self.record(row, model, run)

        return kept(self.folder / f"{row}.json", to_the_end)

    def fresh_model(self, row: str) -> LanguageModel:
        """The language model of a row with its first weights."""
        torch.manual_seed(self.seed)
        words, hidden = len(self.corpus.words), self.recipe.hidden
        if row == "conventional":
            embedding: nn.Module = nn.Embedding(words, hidden)
        else:
            learner, composition = row.split("-")
            embedding = self.coded_embedding(self.codes(learner), composition)
        model = LanguageModel(embedding, words, self.recipe)
        start_weights(model, self.recipe, self.seed)
        return model.to(self.device)

    def coded_embedding(self, codes: Tensor, composition: str) -> KDEmbedding:
        """A fresh layer over fixed codes."""
        options = kdcode.CompressOptions.of(**self.options, learner="straight-through", composition=composition)
        spec = options.spec(self.recipe.hidden)
        module = make_module(spec, generator=torch.Generator().manual_seed(self.seed))
        return KDEmbedding.from_codes(codes, spec.codebook_size, self.recipe.hidden, composition=module)

    def codes(self, learner: str) -> Tensor:
        """(N, D) codes found by a learner from the embedding of the conventional model."""
        size, length = self.options["codebook_size"], self.options["code_length"]
        if learner == "random":
            draw = torch.Generator().manual_seed(self.seed)
            return torch.randint(size, (len(self.corpus.words), length), generator=draw)
        path = self.folder / f"codes-{learner}.kdc"
        if not path.exists():
            # Differs from the paper: codes are learned with the curvature term, and refined at the end. Both kinds
            # start from random codes, as there.
            coded = kdcode.compress(
                self.table(),
                **self.options,
                learner="straight-through",
                composition=learner,
                start="random",
                seed=self.seed,
                device=self.device,
            )
            kdcode.save(coded, path)
        return torch.from_numpy(kdcode.load(path).codes.astype(np.int64))

    def table(self) -> kdcode.VectorTable:
        """The embedding of the conventional model."""
        if not (self.folder / "conventional.json").exists():
            raise SystemExit(f"codes are learned from the conventional model, which is not finished in {self.folder}")
        return trained_table(self.folder / "conventional.pt", self.corpus)

    def record(self, row: str, model: LanguageModel, run: Training) -> dict[str, Any]:
        """What a finished row is judged by."""
        table_numbers = len(self.corpus.words) * self.recipe.hidden
        parameters = sum(weight.numel() for weight in model.embedding.parameters())
        if isinstance(model.embedding, KDEmbedding):
            coded = model.embedding.to_coded(self.corpus.words)
            file_bytes = kdcode.save(coded, self.folder / f"{row}.kdc")
        else:
            file_bytes = table_numbers * 4
        learner = row.split("-", maxsplit=1)[0]
        codes = self.folder / f"codes-{learner}.kdc"
        return {
            "row": row,
            "seed": self.seed,
            "valid_perplexity": round(run.valid_perplexity[-1], 2),
            "test_perplexity": round(perplexity(model, self.corpus.test), 2),
            "embedding_parameters": parameters,
            "ratio": round(parameters / table_numbers, 4),
            "file_bytes": file_bytes,
            "code_error": kdcode.load(codes).provenance["relative_error"] if codes.exists() else None,
            "epochs": run.epoch,
            "seconds_per_epoch": round(float(np.median(run.seconds)), 1),
            "valid_by_epoch": [round(value, 2) for value in run.valid_perplexity],
        }


def trial(table: Table1, row: str, experiment: Experiment, steps: int) -> dict[str, Any]:
    """A row's first steps: does it train, how large is it, and how long would the whole recipe take?"""
    model = table.fresh_model(row)
    ends = [time.perf_counter()]
    trainer = Trainer(model, replace(table.recipe, epochs=1))

    def clock(_run: Training, done: int, of: int) -> None:
        ends.append(time.perf_counter())
        if done % 50 == 0:
            experiment.say(f"{row}: step {done} of {of}, perplexity {math.exp(np.mean(trainer.losses[-50:])):.0f}")

    few = replace(table.corpus, valid=table.corpus.valid[:10_000])
    run = trainer.train(few, clock, max_steps=steps)
    parameters = sum(weight.numel() for weight in model.embedding.parameters())
    seconds = float(np.median(np.diff(ends)))
    per_epoch = len(table.corpus.train) // table.recipe.lanes // table.recipe.unroll
    edge = min(50, steps)
    return {
        "row": row,
        "seed": table.seed,
        "steps": steps,
        "first_perplexity": round(math.exp(np.mean(trainer.losses[:edge])), 1),
        "last_perplexity": round(math.exp(np.mean(trainer.losses[-edge:])), 1),
        "valid_perplexity": round(run.valid_perplexity[-1], 1),
        "embedding_parameters": parameters,
        "ratio": round(parameters / (len(table.corpus.words) * table.recipe.hidden), 4),
        "seconds_per_step": round(seconds, 4),
        "full_run_hours": round(seconds * per_epoch * table.recipe.epochs / 3600, 1),
    }


def finished_rows(work: Path, model: str) -> list[dict[str, Any]]:
    """All rows of a model that are finished in the work folder, in the paper's order, of every seed."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in work.glob(f"{model}-seed*/*.json")]
    found = sorted(found, key=lambda record: (record["seed"], ROWS.index(record["row"])))
    column = ("small", "large").index(model)
    for record in found:
        paper_perplexity, paper_millions = PAPER[record["row"]][column]
        record.update(model=model, paper_test_perplexity=paper_perplexity, paper_parameters=int(paper_millions * 1e6))
    return found


def write_table(experiment: Experiment, work: Path, settings: dict[str, Any]) -> None:
    """Write down, print and draw all finished rows."""
    model = experiment.arguments.model
    rows = finished_rows(work, model)
    curves = {f"{record['row']}, seed {record['seed']}": record.pop("valid_by_epoch") for record in rows}
    seconds = sum(record["seconds_per_epoch"] * record["epochs"] for record in rows)
    settings = {**settings, "seeds": sorted({record["seed"] for record in rows})}
    experiment.write(settings, rows, model, valid_perplexity_by_epoch=curves, seconds=seconds)
    print(f"{'':16}{'valid':>8}{'test':>8}{'paper':>8}{'numbers':>10}{'ratio':>8}{'s/epoch':>9}")
    for record in rows:
        print(
            f"{record['row']:16}{record['valid_perplexity']:8.1f}{record['test_perplexity']:8.1f}"
            f"{record['paper_test_perplexity']:8.1f}{record['embedding_parameters']:10,}"
            f"{record['ratio']:8.3f}{record['seconds_per_epoch']:9.0f}"
        )
    draw(experiment.figure_path(model), rows, curves)


def draw(path: Path, rows: list[dict[str, Any]], curves: dict[str, list[float]]) -> None:
    """Left: test perplexity beside the paper's. Right: valid perplexity over the epochs, dashed for the LSTM."""
    first = [record for record in rows if record["seed"] == rows[0]["seed"]]
    names = [record["row"].replace("-", " + ").replace("lstm", "LSTM") for record in first]
    with panels(path, 2, height=3.6) as (left, right):
        places = np.arange(len(first))
        left.barh(places - 0.2, [record["test_perplexity"] for record in first], 0.38, label="ours")
        paper = [record["paper_test_perplexity"] for record in first]
        left.barh(places + 0.2, paper, 0.38, label="the paper", color=COLORS[-1])
        left.set(yticks=places, yticklabels=names, xlabel="test perplexity", xlim=(80, None))
        left.invert_yaxis()
        left.grid(visible=False, axis="y")
        left.legend(loc="lower right")
        for record, name in zip(first, names, strict=True):
            curve = curves[f"{record['row']}, seed {record['seed']}"]
            color = COLOR_OF_CODES[record["row"].split("-")[0]]
            dashes = "--" if record["row"].endswith("lstm") else "-"
            right.plot(range(1, len(curve) + 1), curve, dashes, color=color, label=name, linewidth=1.4)
        right.set(xlabel="epoch", ylabel="valid perplexity", ylim=(100, 240))
        right.legend(fontsize=8)


def main() -> None:
    """Run the rows that are asked for, then write every finished one."""
    experiment = Experiment(__file__, __doc__, data=DATA, resumes=True)
    parser = experiment.parser
    parser.add_argument("--model", choices=("small", "large"), default="small", help="the paper's two models")
    parser.add_argument("--rows", default=",".join(ROWS), help="which rows to run, with commas between")
    parser.add_argument("--steps", type=int, help="only try each row for this many steps, and estimate the rest")
    parser.add_argument("--threads", type=int, default=2, help="processor threads")
    parser.add_argument("--device", default="cpu", help="where to train")
    arguments = experiment.read_arguments()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    recipe, options = (SMALL if arguments.model == "small" else LARGE), CODES
    if arguments.tiny:
        recipe, options = TINY_RECIPE, TINY_CODES
    corpus = made_up_corpus() if arguments.tiny else read_corpus(arguments.data)
    folder = experiment.work / f"{arguments.model}-seed{arguments.seed}"
    table = Table1(corpus, recipe, options, seed=arguments.seed, folder=folder, device=arguments.device)
    settings = {"recipe": asdict(recipe), "codes": options, "threads": arguments.threads, "device": arguments.device}
    rows = check_rows(arguments.rows.split(","), parser)
    if arguments.steps:
        tried = [trial(table, row, experiment, arguments.steps) for row in rows]
        experiment.write({**settings, "steps": arguments.steps}, tried, f"{arguments.model}-trial")
        return
    for row in rows:
        table.run(row, experiment)
        write_table(experiment, experiment.work, settings)


def check_rows(rows: list[str], parser: ArgumentParser) -> list[str]:
    """The rows, refused where one is unknown."""
    for row in rows:
        if row not in ROWS:
            parser.error(f"there is no row {row!r}; the rows are {', '.join(ROWS)}")
    return rows


if __name__ == "__main__":
    main()
