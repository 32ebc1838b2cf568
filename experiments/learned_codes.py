"""Codes learned inside a language model, from random or guided by a full table: what the paper leaves as future work.

    python experiments/learned_codes.py --data FOLDER --work FOLDER [--rows learned,guided]

The model, its recipe and the text are those of Table 1 (ptb_perplexity.py). Rows:

- conventional: a full table.
- conventional-dropout: the same, with dropout of the numbers of word vectors.
- post-hoc: codes of the conventional row's table, by `kdcode.compress` at the size of the other rows, are fixed; the
  model is trained again from scratch with codewords in place of the table, as in the paper.
- learned: codes, codewords and model are learned together from random, with no vectors given.
- learned-dropout: the same, with `code_dropout`.
- begun: the same, but codes and codewords begin with those of the conventional row's table.
- guided: as learned-dropout, and composed vectors are pulled to the table of the conventional row.
- alongside: as guided, with a full table that is trained alongside and thrown away.

All but the first row and `learned` have the same dropout. Products are computed in bfloat16 while training, and
perplexities in float32 with the frozen layer, whose codewords are as the file stores them. Every row keeps a checkpoint
in the work folder and goes on from it. Its result is `results/runs/learned_codes/ROW-seedN.json`; rows that have one
are not run again.
"""

from __future__ import annotations

import copy
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from conventional import conventional_table
from experiment import Experiment
from language_model import (
    SMALL,
    SMALL_BFLOAT16,
    LanguageModel,
    Recipe,
    Trainer,
    Training,
    keep_freed_memory,
    perplexity,
    start_weights,
)
from penn_treebank import DATA, Corpus, made_up_corpus, read_corpus
from torch import Tensor, nn
from torch.nn import functional as F

import kdcode
from kdcode.nn import FullTableGuidance, KDEmbedding, TableGuidance, UsageMeter

ROWS = (
    *("conventional", "conventional-dropout", "post-hoc", "learned", "learned-dropout", "begun", "guided"),
    "alongside",
)
FIXED = ("conventional", "conventional-dropout", "post-hoc")
"""The rows that learn no codes."""
POST_HOC = ("post-hoc", "begun")
"""The rows that begin with codes of the conventional row's table."""
WITHOUT_DROPOUT = ("conventional", "learned")
RECIPE = SMALL_BFLOAT16
CODES = {"codebook_size": 16, "code_length": 25, "composition": "product"}
CODEBOOK_DTYPE = "float16"
DROPOUT = 0.1
BEGUN_ROW_RATE = 0.03
"""Row rate of codes that begin with those of a table."""
PULL = 1.0
"""Weight of guidance, beside the loss of a lane's words."""
TINY_RECIPE = replace(SMALL, hidden=16, epochs=2, unroll=10, lanes=4)
TINY_CODES = {"codebook_size": 4, "code_length": 4, "composition": "linear"}


class GuidedEmbedding(nn.Module):
    """A layer with a full table alongside: in training, task gradients reach both, and `pull` is the guidance loss."""

    def __init__(self, layer: KDEmbedding) -> None:
        super().__init__()
        self.layer, self.guidance = layer, FullTableGuidance(layer)
        self.pull = torch.zeros(())

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape to vectors."""
        if not self.training:
            return self.layer(ids)
        vectors, self.pull = self.guidance(ids)
        return vectors


class DroppedEmbedding(nn.Embedding):
    """A full table with dropout of the numbers of its vectors."""

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape to vectors."""
        return F.dropout(super().forward(ids), DROPOUT, self.training)


class LearnedCodes:
    """All rows of one seed, kept in a folder.

    Args:
        corpus: the text.
        recipe: of the language model.
        shape: of the codes, by name.
        seed: of the weights and codes.
        work: folder of all scripts that resume; the conventional row is that of `ptb_perplexity.py`.
    """

    def __init__(self, corpus: Corpus, recipe: Recipe, shape: dict[str, Any], *, seed: int, work: Path) -> None:
        self.corpus, self.recipe, self.shape, self.seed = corpus, recipe, shape, seed
        self.folder, self.conventional = work / f"learned_codes-seed{seed}", work / f"small-seed{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, row: str, experiment: Experiment) -> tuple[dict[str, Any], dict[str, float]]:
        """Train the model of a row, or go on with it, and measure it with its frozen layer; its record, and seconds."""
        embedding, model = self.fresh_model(row)
        layer = embedding.layer if isinstance(embedding, GuidedEmbedding) else embedding
        meter = None if row in FIXED else UsageMeter(layer)
        usage: list[dict[str, float | None]] = []

        def show(run: Training, done: int, of: int) -> None:
            if done % 500 == 0 or done == of:
                valid = f", valid {run.valid_perplexity[-1]:.1f}" if run.valid_perplexity else ""
                experiment.say(f"{row}: epoch {run.epoch + 1} of {self.recipe.epochs}, step {done} of {of}{valid}")
            if done == of and meter is not None:
                usage.append(meter().as_dict())

        recipe = replace(self.recipe, row_rate=BEGUN_ROW_RATE) if row == "begun" else self.recipe
        checkpoint = (self.conventional if row == "conventional" else self.folder) / f"{row}.pt"
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        run = Trainer(model, recipe, checkpoint, self.penalty(row, embedding)).train(self.corpus, show)
        started = time.perf_counter()
        record = self.record(row, model, layer, run) | {"last_usage": usage[-1] if usage else None}
        codes = self.post_hoc_codes().provenance["seconds"] if row in POST_HOC else 0.0
        return record, {"codes": codes, "training": sum(run.seconds), "evaluation": time.perf_counter() - started}

    def fresh_model(self, row: str) -> tuple[nn.Module, LanguageModel]:
        """The embedding of a row and the model around it, before training."""
        torch.manual_seed(self.seed)
        embedding = self.fresh_embedding(row)
        layer = embedding.layer if isinstance(embedding, GuidedEmbedding) else embedding
        first = copy.deepcopy(layer.codec.state_dict()) if row == "begun" else None
        model = LanguageModel(embedding, len(self.corpus.words), self.recipe)
        start_weights(model, self.recipe, self.seed)
        if isinstance(layer, KDEmbedding):
            layer.code_dropout = 0.0 if row in WITHOUT_DROPOUT else DROPOUT
            if first is not None:
                layer.codec.load_state_dict(first)
            elif row not in FIXED:
                layer.reset_codewords(self.recipe.spread / 3**0.5)  # the deviation of uniform numbers
        if isinstance(embedding, GuidedEmbedding):
            embedding.guidance.table.weight.data.copy_(layer.eval().weight)
        return embedding, model

    def fresh_embedding(self, row: str) -> nn.Module:
        """The embedding of a row, before weights are drawn."""
        words, hidden = len(self.corpus.words), self.recipe.hidden
        if row == "conventional":
            return nn.Embedding(words, hidden)
        if row == "conventional-dropout":
            return DroppedEmbedding(words, hidden)
        if row == "post-hoc":
            coded = self.post_hoc_codes()
            codes = torch.from_numpy(coded.codes[:, : coded.code_length].astype(np.int64))
            return KDEmbedding.from_codes(codes, coded.codebook_size, hidden, composition=coded.spec.composition)
        if row == "begun":
            return KDEmbedding.from_coded(self.post_hoc_codes(), learn_codes=True)
        layer = KDEmbedding(words, hidden, **self.shape)
        return GuidedEmbedding(layer) if row == "alongside" else layer

    def penalty(self, row: str, embedding: nn.Module) -> Any:  # noqa: ANN401 - a function of words, or None
        """What is added to the loss of a row."""
        if row == "guided":
            table = torch.tensor(self.conventional_table().matrix)
            guidance = TableGuidance(embedding, table)
            return lambda words: PULL * guidance(words)
        return (lambda _words: PULL * embedding.pull) if row == "alongside" else None

    def conventional_table(self) -> kdcode.VectorTable:
        """The embedding of the conventional model."""
        return conventional_table(self.corpus, self.recipe, seed=self.seed, folder=self.conventional)

    def post_hoc_codes(self) -> kdcode.CodedTable:
        """Codes of the conventional table, in as many bytes as the layers that learn codes take."""
        path = self.folder / "post-hoc-codes.kdc"
        if not path.exists():
            same = KDEmbedding(len(self.corpus.words), self.recipe.hidden, **self.shape)
            options = {name: self.shape[name] for name in ("codebook_size", "code_length", "composition")}
            coded = kdcode.compress(self.conventional_table(), **options, codebook_dtype=CODEBOOK_DTYPE, seed=self.seed)
            if coded.sizes.embedding > same.to_coded(codebook_dtype=CODEBOOK_DTYPE).sizes.embedding:
                raise SystemExit("post-hoc codes take more bytes than learned ones")
            coded.provenance["seconds"] = coded.learning_seconds
            kdcode.save(coded, path)
        return kdcode.load(path)

    def record(self, row: str, model: LanguageModel, layer: nn.Module, run: Training) -> dict[str, Any]:
        """What a finished row is judged by."""
        full_bytes = 4 * len(self.corpus.words) * self.recipe.hidden
        bytes_taken, file_bytes = full_bytes, full_bytes
        if isinstance(layer, KDEmbedding):
            coded = layer.to_coded(self.corpus.words, CODEBOOK_DTYPE)
            file_bytes = kdcode.save(coded, self.folder / f"{row}.kdc")
            bytes_taken = coded.sizes.embedding
            model.embedding = layer.freeze(CODEBOOK_DTYPE)
        return {
            "row": row,
            "seed": self.seed,
            "train_perplexity": round(perplexity(model, self.corpus.train, self.recipe.lanes), 2),
            "valid_perplexity": round(perplexity(model, self.corpus.valid, self.recipe.lanes), 2),
            "test_perplexity": round(perplexity(model, self.corpus.test), 2),
            "bytes": bytes_taken,
            "times_smaller": round(full_bytes / bytes_taken, 1),
            "file_bytes": file_bytes,
            "epochs": run.epoch,
            "seconds_per_epoch": round(float(np.median(run.seconds)), 1),
            "valid_by_epoch": [round(value, 2) for value in run.valid_perplexity],
            "train_by_epoch": [round(value, 2) for value in run.train_perplexity],
        }


def main() -> None:
    """Run the rows that are asked for, then write every finished one."""
    experiment = Experiment(__file__, __doc__, data=DATA, resumes=True)
    parser = experiment.parser
    parser.add_argument("--rows", default=",".join(ROWS), help="which rows to run, with commas between")
    parser.add_argument("--threads", type=int, default=1, help="processor threads")
    arguments = experiment.read_arguments()
    rows = arguments.rows.split(",")
    for row in rows:
        if row not in ROWS:
            parser.error(f"there is no row {row!r}; the rows are {', '.join(ROWS)}")
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    recipe, shape = (TINY_RECIPE, TINY_CODES) if arguments.tiny else (RECIPE, CODES)
    corpus = made_up_corpus() if arguments.tiny else read_corpus(arguments.data)
    table = LearnedCodes(corpus, recipe, shape, seed=arguments.seed, work=experiment.work)
    settings = {"recipe": asdict(recipe), "codes": shape, "codebook_dtype": CODEBOOK_DTYPE}
    settings |= {"dropout": DROPOUT, "begun_row_rate": BEGUN_ROW_RATE, "pull": PULL}
    for row in rows:
        if not experiment.run_path(row).exists():
            record, seconds = table.run(row, experiment)
            experiment.write_run(row, settings, record, seconds)
            print(
                f"{row:22} valid {record['valid_perplexity']:8.2f}  test {record['test_perplexity']:8.2f}"
                f"{record['bytes']:12,} bytes, {record['times_smaller']:.1f}x smaller"
            )


if __name__ == "__main__":
    main()
