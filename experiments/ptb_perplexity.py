"""Table 1 of the paper: perplexity of a language model whose embedding table is replaced by KD codes.

    python experiments/ptb_perplexity.py --data FOLDER --work FOLDER [--model large-shortened] [--rows linear-lstm]

The conventional model is trained first. Codes are learned from its embedding (by Algorithm 1, and by the library's
improved learner, with the linear and with the LSTM composition) or drawn, then fixed, and the model is trained again
from scratch with codewords and composition in place of the table. Every row keeps a checkpoint in the work folder,
after each epoch and every few minutes, and goes on from it. Its result is
`results/runs/ptb_perplexity-MODEL/ROW-seedN.json`; rows that have one are not run again. `summary.py` makes the table
of all seeds and the figure.
"""

from __future__ import annotations

import math
import time
from argparse import ArgumentParser
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from conventional import conventional_table, train_conventional
from experiment import Experiment
from language_model import (
    LARGE,
    LARGE_SHORTENED,
    SMALL,
    LanguageModel,
    OnSteps,
    Recipe,
    Trainer,
    Training,
    keep_freed_memory,
    perplexity,
    start_weights,
)
from penn_treebank import DATA, Corpus, made_up_corpus, read_corpus
from shared_lstm import SharedLstmEmbedding
from table_1_rows import LEARNERS, ROWS
from torch import Tensor, nn

import kdcode
from kdcode.codec_torch import make_module
from kdcode.nn import KDEmbedding

RECIPES = {"small": SMALL, "large": LARGE, "large-shortened": LARGE_SHORTENED}
CODES = {"codebook_size": 50, "code_length": 10, "codeword_dim": 200}
TINY_RECIPE = replace(SMALL, hidden=16, epochs=2, unroll=10, lanes=4)
TINY_CODES = {"codebook_size": 8, "code_length": 4, "codeword_dim": 16, "epochs": 3}


class Coded(NamedTuple):
    """(N, D) codes, their relative error on the table, and how long it took to learn them; drawn ones have neither."""

    codes: Tensor
    error: float | None = None
    seconds: float = 0.0


class Table1:
    """All rows for one model and one seed, with checkpoints and codes in a folder.

    Args:
        corpus: the text.
        recipe: of the language model.
        options: of the codes, by name.
        seed: of the weights and codes.
        folder: for checkpoints and codes.
        device: where to train.
    """

    def __init__(
        self, corpus: Corpus, recipe: Recipe, options: dict[str, Any], *, seed: int, folder: Path, device: str = "cpu"
    ) -> None:
        self.corpus, self.recipe, self.options, self.seed, self.device = corpus, recipe, options, seed, device
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, row: str, experiment: Experiment) -> tuple[dict[str, Any], dict[str, float]]:
        """The record of a row that is trained to the end, or gone on with, and what took how many seconds."""
        if row == "conventional":
            model, run = train_conventional(
                self.corpus, self.recipe, seed=self.seed, folder=self.folder, on_steps=self._show(row, experiment)
            )
            coded = None
        else:
            coded = self.codes(row, experiment)
            model = self.fresh_model(row, coded)
            trainer = Trainer(model, self.recipe, self.folder / f"{row}.pt")
            run = trainer.train(self.corpus, self._show(row, experiment))
        started = time.perf_counter()
        record = self.record(row, model, run, coded)
        seconds = {"training": sum(run.seconds), "evaluation": time.perf_counter() - started}
        return record, {"codes": coded.seconds if coded else 0.0, **seconds}

    def _show(self, row: str, experiment: Experiment) -> OnSteps:
        def show(run: Training, done: int, of: int) -> None:
            if done % 200 == 0 or done == of:
                valid = f", valid {run.valid_perplexity[-1]:.1f}" if run.valid_perplexity else ""
                experiment.say(f"{row}: epoch {run.epoch + 1} of {self.recipe.epochs}, step {done} of {of}{valid}")

        return show

    def fresh_model(self, row: str, coded: Coded | None) -> LanguageModel:
        """The language model of a row with its first weights."""
        torch.manual_seed(self.seed)
        words, hidden = len(self.corpus.words), self.recipe.hidden
        composition = ROWS[row].composition
        if coded is None or composition is None:
            embedding: nn.Module = nn.Embedding(words, hidden)
        elif composition == "shared-lstm":
            embedding = SharedLstmEmbedding(
                coded.codes, self.options["codebook_size"], self.options["codeword_dim"], hidden
            )
        else:
            embedding = self.coded_embedding(coded.codes, composition)
        model = LanguageModel(embedding, words, self.recipe)
        start_weights(model, self.recipe, self.seed)
        return model.to(self.device)

    def coded_embedding(self, codes: Tensor, composition: str) -> KDEmbedding:
        """A fresh layer over fixed codes."""
        options = kdcode.CompressOptions.of(**self.options, learner="straight-through", composition=composition)
        spec = options.spec(self.recipe.hidden)
        module = make_module(spec, generator=torch.Generator().manual_seed(self.seed))
        return KDEmbedding.from_codes(codes, spec.codebook_size, self.recipe.hidden, composition=module)

    def codes(self, row: str, experiment: Experiment | None = None) -> Coded | None:
        """The codes of a row: drawn, or learned from the embedding of the conventional model; None for a full table."""
        learner = ROWS[row].codes
        if learner is None:
            return None
        if learner == "random":
            size, length = self.options["codebook_size"], self.options["code_length"]
            draw = torch.Generator().manual_seed(self.seed)
            return Coded(torch.randint(size, (len(self.corpus.words), length), generator=draw))
        path = self.folder / f"codes-{learner}.kdc"
        if not path.exists():
            show = None if experiment is None else self._show("conventional", experiment)
            table = conventional_table(self.corpus, self.recipe, seed=self.seed, folder=self.folder, on_steps=show)
            coded = kdcode.compress(table, **self.options, **LEARNERS[learner], seed=self.seed, device=self.device)
            coded.provenance["seconds"] = coded.learning_seconds
            kdcode.save(coded, path)
        kept = kdcode.load(path)
        codes = torch.from_numpy(kept.codes.astype(np.int64))
        return Coded(codes, kept.provenance["relative_error"], kept.provenance["seconds"])

    def record(self, row: str, model: LanguageModel, run: Training, coded: Coded | None) -> dict[str, Any]:
        """What a finished row is judged by."""
        table_numbers = len(self.corpus.words) * self.recipe.hidden
        parameters = count_parameters(model.embedding)
        lanes = self.recipe.lanes
        return {
            "row": row,
            "seed": self.seed,
            "train_perplexity": round(perplexity(model, self.corpus.train, lanes), 2),
            "valid_perplexity": round(run.valid_perplexity[-1], 2),
            "test_perplexity": round(perplexity(model, self.corpus.test), 2),
            "embedding_parameters": parameters,
            "ratio": round(parameters / table_numbers, 4),
            "file_bytes": self._file_bytes(row, model.embedding),
            "code_error": None if coded is None else coded.error,
            "epochs": run.epoch,
            "seconds_per_epoch": round(float(np.median(run.seconds)), 1),
            "valid_by_epoch": [round(value, 2) for value in run.valid_perplexity],
            "train_by_epoch": [round(value, 2) for value in run.train_perplexity],
        }

    def _file_bytes(self, row: str, embedding: nn.Module) -> int | None:
        """Bytes of the table as it is saved; None where the library has no such composition."""
        if isinstance(embedding, KDEmbedding):
            return kdcode.save(embedding.to_coded(self.corpus.words), self.folder / f"{row}.kdc")
        return 4 * embedding.weight.numel() if isinstance(embedding, nn.Embedding) else None


def count_parameters(embedding: nn.Module) -> int:
    """How many numbers of an embedding are trained."""
    return sum(weight.numel() for weight in embedding.parameters() if weight.requires_grad)


def trial(table: Table1, row: str, experiment: Experiment, steps: int) -> dict[str, Any]:
    """A row's first steps: does it train, how large is it, and how long would the whole recipe take?"""
    model = table.fresh_model(row, table.codes(row))
    ends = [time.perf_counter()]
    trainer = Trainer(model, replace(table.recipe, epochs=1))

    def clock(_run: Training, done: int, of: int) -> None:
        ends.append(time.perf_counter())
        if done % 50 == 0:
            experiment.say(f"{row}: step {done} of {of}, perplexity {math.exp(np.mean(trainer.losses[-50:])):.0f}")

    few = replace(table.corpus, valid=table.corpus.valid[:10_000])
    run = trainer.train(few, clock, max_steps=steps)
    parameters = count_parameters(model.embedding)
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


def main() -> None:
    """Run the rows that are asked for and have no result yet."""
    experiment = Experiment(__file__, __doc__, data=DATA, resumes=True)
    parser = experiment.parser
    parser.add_argument(
        "--model", choices=tuple(RECIPES), default="small", help="the paper's models, or the large one's"
    )
    parser.add_argument("--rows", default=",".join(ROWS), help="which rows to run, with commas between")
    parser.add_argument("--steps", type=int, help="only try each row for this many steps, and estimate the rest")
    parser.add_argument("--threads", type=int, default=1, help="processor threads")
    parser.add_argument("--device", default="cpu", help="where to train")
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default="bfloat16", help="of products")
    arguments = experiment.read_arguments()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    recipe, options = RECIPES[arguments.model], CODES
    if arguments.tiny:
        recipe, options = TINY_RECIPE, TINY_CODES
    recipe = replace(recipe, bfloat16=arguments.precision == "bfloat16")
    variant = arguments.model if recipe.bfloat16 else f"{arguments.model}-float32"
    corpus = made_up_corpus() if arguments.tiny else read_corpus(arguments.data)
    folder = experiment.work / f"{variant}-seed{arguments.seed}"
    table = Table1(corpus, recipe, options, seed=arguments.seed, folder=folder, device=arguments.device)
    settings = {"model": variant, "recipe": asdict(recipe), "codes": options, "device": arguments.device}
    rows = check_rows(arguments.rows.split(","), parser)
    if arguments.steps:
        tried = [trial(table, row, experiment, arguments.steps) for row in rows]
        experiment.write({**settings, "steps": arguments.steps}, tried, f"{variant}-trial")
        return
    for row in rows:
        if not experiment.run_path(row, variant).exists():
            learner = {"learner": LEARNERS.get(ROWS[row].codes or "")}
            record, seconds = table.run(row, experiment)
            experiment.write_run(row, {**settings, **learner}, record, seconds, variant)
            print(f"{row:28} valid {record['valid_perplexity']:8.2f}  test {record['test_perplexity']:8.2f}")


def check_rows(rows: list[str], parser: ArgumentParser) -> list[str]:
    """The rows, refused where one is unknown."""
    for row in rows:
        if row not in ROWS:
            parser.error(f"there is no row {row!r}; the rows are {', '.join(ROWS)}")
    return rows


if __name__ == "__main__":
    main()
