"""Text classification on TREC and SST-2 with a full table, with codes of it, and with codes learned in the task.

    python experiments/text_classification.py --data FOLDER --glove FOLDER --work FOLDER

`--data` holds trec/ and sst2/, `--glove` vectors.npy and symbols.txt. A convolutional classifier is trained from GloVe
vectors and from random ones; the embedding is trained with it in every row:

- full table: an nn.Embedding;
- codes after training: the same model, its trained table replaced by codes of it;
- codes before training (from GloVe): codes of the first table stay fixed, codewords are trained in the task;
- codes learned in the task: KDEmbedding, codes and codewords are trained. From GloVe, it starts with the codes of the
  first table; from random, all words start with the same code.

The epoch with the best validation accuracy is the one that is tested. TREC has no validation file: every tenth training
question is held out. Finished runs are kept in the work folder.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiment import Experiment
from labelled_text import FILES, PADDING, UNKNOWN, TextTask, made_up_task, read_task
from result_file import measured_rows
from task_accuracy import Sentences, batches, read_table
from task_training import TaskTrainer, mean_and_deviation, optimizer_for, size_of
from torch import Tensor, nn
from torch.nn import functional as F

import kdcode
from kdcode.nn import KDEmbedding

FULL, AFTER, BEFORE, LEARNED = (
    "full table",
    "codes after training",
    "codes before training",
    "codes learned in the task",
)
ROWS = {"glove": (FULL, AFTER, BEFORE, LEARNED), "random": (FULL, AFTER, LEARNED)}
"""By the start of the embedding."""

ALL_ROWS = 1 << 30


@dataclass(frozen=True)
class Recipe:
    """How a classifier is trained; everything was chosen on validation data.

    Args:
        epochs: passes over the sentences.
        rate: learning rate of Adam; it falls to zero.
        dim: d.
        widths: of the convolutions, in words.
        filters: of each width.
        dropout: share of the numbers dropped before the output layer.
        word_dropout: share of the numbers of word vectors dropped.
        unknown_share: of the words that become the unknown word, so that its vector is trained.
        spread: standard deviation of vectors that start at random.
        random_word_dropout: `word_dropout` where codes are learned from random.
        random_code_dropout: share of codewords dropped there.
        random_rate_factor: by how much the rate is multiplied where codes are learned from random.
        glove_row_rate: learning rate of the logits, where codes start with those of GloVe.
        random_row_rate: the same, where they start at random.
        size: how small the codes are.
    """

    epochs: int
    rate: float
    dim: int = 100
    widths: tuple[int, ...] = (2, 3, 4)
    filters: int = 100
    dropout: float = 0.5
    word_dropout: float = 0.2
    unknown_share: float = 0.02
    spread: float = 0.1
    random_word_dropout: float = 0.2
    random_code_dropout: float = 0.0
    random_rate_factor: float = 0.5
    glove_row_rate: float = 0.03
    random_row_rate: float = 0.1
    size: str = "20x"


RECIPES = {
    "trec": Recipe(epochs=6, rate=4e-3),
    "sst2": Recipe(
        epochs=5,
        rate=2e-3,
        widths=(1, 2, 3),
        word_dropout=0.5,
        unknown_share=0.1,
        random_word_dropout=0.4,
        random_code_dropout=0.2,
        glove_row_rate=0.01,
    ),
}
TINY = replace(RECIPES["trec"], epochs=4, rate=1e-2, dim=16, filters=8, size="4x")


class Classifier(nn.Module):
    """Convolutions of several widths over word vectors, the largest value of each filter, and one linear layer.

    The convolutions are one matrix product whose results are shifted and added: quicker than torch's on short rows.

    Args:
        embedding: full or coded.
        classes: how many.
        recipe: sizes and dropout.
    """

    def __init__(self, embedding: nn.Embedding | KDEmbedding, classes: int, recipe: Recipe) -> None:
        super().__init__()
        self.embedding, self.widths, self.filters = embedding, recipe.widths, recipe.filters
        self.word_dropout = nn.Dropout(recipe.word_dropout)
        self.taps = nn.Linear(recipe.dim, recipe.filters * sum(recipe.widths), bias=False)
        self.bias = nn.Parameter(torch.zeros(len(recipe.widths) * recipe.filters))
        self.output = nn.Sequential(nn.Dropout(recipe.dropout), nn.Linear(len(self.bias), classes))

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """(batch, length) ids and (batch, length, 1) which of them count, to (batch, classes) logits."""
        words = self.word_dropout(self.embedding(ids)) * real
        taps = self.taps(words).unflatten(2, (sum(self.widths), self.filters))
        found, begin = [], 0
        for width in self.widths:
            part = taps[:, :, begin : begin + width]
            begin += width
            moved = [F.pad(part[:, :, tap], (0, 0, width - 1 - tap, tap)) for tap in range(width)]
            found.append(torch.stack(moved).sum(dim=0).amax(dim=1))
        return self.output(torch.relu(torch.cat(found, dim=1) + self.bias))


class Classification:
    """All rows of one task, from one start and with one seed.

    Args:
        task: the sentences.
        first: makes the first table, (words, dim), from a seed.
        start: "glove" or "random".
        recipe: of the classifier.
        seed: of weights, order and dropout.
        folder: for the trained full models, which other rows begin with.
    """

    def __init__(
        self,
        task: TextTask,
        first: Callable[[int], Tensor],
        *,
        start: str,
        recipe: Recipe,
        seed: int,
        folder: Path,
    ) -> None:
        self.task, self.first, self.start, self.recipe, self.seed, self.folder = (
            task,
            first,
            start,
            recipe,
            seed,
            folder,
        )

    def measure(self, row: str) -> dict[str, Any]:
        """Train one row and test it."""
        started = time.process_time()
        torch.manual_seed(self.seed)
        model = Classifier(self._layer(row), self.task.classes, self.recipe)
        if self._is_from_random(row):
            model.word_dropout.p = self.recipe.random_word_dropout
        record: dict[str, Any] = {"start": self.start, "row": row, "seed": self.seed}
        if row == AFTER:
            model.load_state_dict(torch.load(self._full_model, weights_only=True))
            model.embedding = KDEmbedding.from_coded(self._codes(model.embedding.weight.detach()), PADDING)
            model.eval()
        else:
            optimizer = optimizer_for(model, *self._rates(row))
            trainer = TaskTrainer(model, optimizer, self.recipe.epochs, self.seed)
            run = trainer.fit(
                self._batches, lambda part: self._loss(model, part), lambda: accuracy(model, self.task.valid)
            )
            record |= {"best_epoch": run.best_epoch + 1}
        if row == FULL:
            self.folder.mkdir(parents=True, exist_ok=True)
            torch.save(model.state_dict(), self._full_model)
        parts = {part: accuracy(model, getattr(self.task, part)) for part in ("valid", "test")}
        return record | parts | size_of(model.embedding) | {"processor_seconds": time.process_time() - started}

    def _rates(self, row: str) -> tuple[float, float]:
        """Learning rates of weights, and of the rows that codes come from."""
        recipe = self.recipe
        if self.start == "glove":
            return recipe.rate, recipe.glove_row_rate
        factor = recipe.random_rate_factor if self._is_from_random(row) else 1
        return recipe.rate * factor, recipe.random_row_rate

    def _is_from_random(self, row: str) -> bool:
        """Whether codes are learned, and begin at random."""
        return row == LEARNED and self.start == "random"

    def _layer(self, row: str) -> nn.Embedding | KDEmbedding:
        if self._is_from_random(row):
            layer = KDEmbedding(len(self.task.words), self.recipe.dim, PADDING, size=self.recipe.size)
            layer.code_dropout = self.recipe.random_code_dropout
            return layer
        table = self.first(self.seed)
        if row in (FULL, AFTER):
            return nn.Embedding(*table.shape, padding_idx=PADDING, _weight=table)
        return KDEmbedding.from_coded(self._codes(table), PADDING, learn_codes=row == LEARNED)

    def _codes(self, table: Tensor) -> kdcode.CodedTable:
        """Codes of a table, in which frequent words count more."""
        weights = np.sqrt(self.task.counts + 0.5)
        source = kdcode.as_table(table.numpy(), weights=weights)
        return kdcode.compress(source, self.recipe.size, codewords=True, effort="fast", seed=self.seed)

    def _batches(self) -> Iterator[Sentences]:
        """All training sentences in random order, some of their words unknown."""
        for part in batches(self.task.train, torch.randperm(len(self.task.train.labels))):
            lost = (torch.rand(part.ids.shape) < self.recipe.unknown_share) & (part.ids != PADDING)
            yield part._replace(ids=part.ids.masked_fill(lost, UNKNOWN))

    def _loss(self, model: Classifier, part: Sentences) -> Tensor:
        return F.cross_entropy(model(part.ids, part.real), part.labels)

    @property
    def _full_model(self) -> Path:
        return self.folder / f"{self.start}-full-seed{self.seed}.pt"


@torch.no_grad()
def accuracy(model: nn.Module, data: Sentences) -> float:
    """The percentage of sentences that get their label."""
    parts = batches(data, torch.arange(len(data.labels)))
    right = sum(int((model(part.ids, part.real).argmax(dim=1) == part.labels).sum()) for part in parts)
    return 100 * right / len(data.labels)


def first_table(task: TextTask, recipe: Recipe, vectors: dict[str, np.ndarray], seed: int) -> Tensor:
    """(words, dim): known vectors, and random ones for words that have none; padding is zero."""
    table = recipe.spread * torch.randn(len(task.words), recipe.dim, generator=torch.Generator().manual_seed(seed))
    for place, word in enumerate(task.words):
        if word in vectors:
            table[place] = torch.from_numpy(vectors[word])
    table[PADDING] = 0
    return table


def all_runs(arguments: Namespace, work: Path) -> Iterator[tuple[Path, Callable[[], dict[str, Any]]]]:
    """The file of every run and what measures it; seeds outermost, so that all rows have the same seeds at any time."""
    vectors: dict[str, np.ndarray] = {}
    if not arguments.tiny:
        glove = read_table(arguments.glove, ALL_ROWS)
        vectors = dict(zip(glove.symbols, glove.matrix, strict=True))
    tasks = {}
    for name, start in product(task_names(arguments), ROWS):
        known = vectors if start == "glove" else {}
        task = made_up_task() if arguments.tiny else read_task(arguments.data, name, known)
        tasks[name, start] = (task, partial(first_table, task, recipe_of(name), known))
    for seed, (name, start) in product(range(arguments.seed, arguments.seed + arguments.seeds), tasks):
        task, first = tasks[name, start]
        run = Classification(task, first, start=start, recipe=recipe_of(name), seed=seed, folder=work / name)
        for row in ROWS[start]:
            file = work / name / f"{start}-{row.replace(' ', '-')}-seed{seed}.json"
            yield file, lambda run=run, row=row, name=name: {"task": name, **run.measure(row)}  # type: ignore[misc]


def summarised(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each task, start and kind of embedding: means and deviations over seeds."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in runs:
        found.setdefault((run["task"], run["start"], run["row"]), []).append(run)
    rows = []
    for (task, start, row), same in found.items():
        record: dict[str, Any] = {"task": task, "start": start, "row": row, "seeds": len(same)}
        for part in ("valid", "test"):
            mean, deviation = mean_and_deviation([run[part] for run in same])
            record |= {part: round(mean, 2), f"{part}_deviation": round(deviation, 2)}
        shape = ("codebook_size", "code_length", "composition")
        record |= {"bytes": max(run["bytes"] for run in same), "smaller": min(run["smaller"] for run in same)}
        rows.append(record | {key: same[0][key] for key in shape if key in same[0]})
    return rows


def task_names(arguments: Namespace) -> tuple[str, ...]:
    """Of the tasks that are run."""
    return ("made",) if arguments.tiny else tuple(FILES)


def recipe_of(name: str) -> Recipe:
    """The recipe of a task."""
    return RECIPES.get(name, TINY)


def main() -> None:
    """Run what is not finished, and write everything down."""
    experiment = Experiment(__file__, __doc__, data="folder that holds trec/ and sst2/", resumes=True)
    experiment.parser.add_argument("--glove", type=Path, help="folder with vectors.npy and symbols.txt")
    experiment.parser.add_argument("--seeds", type=int, default=5, help="how many runs of each row")
    experiment.parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run after this time")
    experiment.parser.add_argument("--threads", type=int, default=1, help="processor threads")
    arguments = experiment.read_arguments()
    if not arguments.tiny and arguments.glove is None:
        experiment.parser.error("give --glove, or --tiny for a quick trial without data")
    torch.set_num_threads(arguments.threads)
    runs = measured_rows(all_runs(arguments, experiment.work / experiment.name), arguments.minutes)
    rows = summarised(runs)
    settings = {
        "recipes": {name: asdict(recipe_of(name)) for name in task_names(arguments)},
        "seeds": arguments.seeds,
        "threads": arguments.threads,
    }
    experiment.write(settings, rows, runs=runs, seconds=sum(run["processor_seconds"] for run in runs))
    for row in rows:
        name = f"{row['task']:6}{row['start']:8}{row['row']:28}{row['smaller']:6.1f}x"
        print(f"{name}  valid {row['valid']:.1f}  test {row['test']:.1f} ± {row['test_deviation']:.1f}")


if __name__ == "__main__":
    main()
