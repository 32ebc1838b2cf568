"""MovieLens-100K: ratings predicted from user and item vectors, full, coded, and with codes learned in the task.

    python experiments/recommendation.py --data FOLDER --work FOLDER

Biased matrix factorisation: a rating is a mean, a bias of the user, one of the item, and the product of their vectors.
User and item vectors are coded, biases are not. Full tables of short vectors, about as large as the codes, show what a
smaller model does. Ratings are split at random, by a fixed seed: 80% for training, 10% for validation, 10% for testing.
The epoch with the lowest validation error is the one that is tested. Tables as small as these (943 and 1,682 rows)
leave little for codes to save, since codebooks do not shrink with the number of rows. Finished runs are kept in the
work folder.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from experiment import Experiment
from result_file import measured_rows
from task_training import TaskTrainer, mean_and_deviation, optimizer_for, size_of
from torch import Tensor, nn
from torch.nn import functional as F

import kdcode
from kdcode.nn import KDEmbedding

FULL, AFTER, LEARNED = "full tables", "codes after training", "codes learned in the task"
BIASES, SHORT = "no vectors, biases alone", "full tables of short vectors"
ROWS = (BIASES, FULL, SHORT, AFTER, LEARNED)
SPLIT_SEED = 0


@dataclass(frozen=True)
class Recipe:
    """How a model is trained; everything was chosen on validation data.

    Args:
        dim: d.
        short_dim: of vectors so short that full tables take about what codes take.
        size: how small the codes of both tables are.
        epochs: passes over the ratings.
        batch: ratings in a step.
        rate: learning rate of Adam; it falls to zero.
        row_rate: learning rate of the logits that codes come from.
        decay: weight of the squares of all vectors and biases of a step.
        dropout: share of the numbers of user vectors that are dropped.
        spread: standard deviation of the first vectors.
    """

    dim: int = 64
    short_dim: int = 6
    size: str = "10x"
    epochs: int = 15
    batch: int = 1000
    rate: float = 1e-2
    row_rate: float = 0.1
    decay: float = 0.1
    dropout: float = 0.0
    spread: float = 0.1


TINY = replace(Recipe(), dim=16, short_dim=8, size="2x", epochs=8, batch=50, rate=2e-2)


class Ratings(NamedTuple):
    """(count,) users, items and ratings."""

    user: Tensor
    item: Tensor
    rating: Tensor

    def take(self, places: Tensor) -> Ratings:
        """Some of them."""
        return Ratings(*(column[places] for column in self))


@dataclass(frozen=True)
class RatingTask:
    """Ratings in three parts, and how many users and items there are."""

    users: int
    items: int
    train: Ratings
    valid: Ratings
    test: Ratings


class Factorization(nn.Module):
    """Biased matrix factorisation.

    Args:
        users: an embedding layer, full or coded; None for a model of biases alone.
        items: the same.
        task: its sizes and the mean of its ratings.
        recipe: dropout.
    """

    def __init__(self, users: nn.Module | None, items: nn.Module | None, task: RatingTask, recipe: Recipe) -> None:
        super().__init__()
        self.users, self.items = users, items
        self.user_bias, self.item_bias = nn.Embedding(task.users, 1), nn.Embedding(task.items, 1)
        for bias in (self.user_bias, self.item_bias):
            nn.init.zeros_(bias.weight)
        self.mean = float(task.train.rating.mean())
        self.dropout = nn.Dropout(recipe.dropout)
        self.decay = recipe.decay

    def forward(self, part: Ratings) -> tuple[Tensor, Tensor]:
        """(n,) predicted ratings, and the mean square size of what they are made from."""
        biases = torch.cat([self.user_bias(part.user), self.item_bias(part.item)], dim=1)
        size = biases.square().sum(dim=1)
        found = self.mean + biases.sum(dim=1)
        if self.users is not None and self.items is not None:
            users, items = self.users(part.user), self.items(part.item)
            found = found + (self.dropout(users) * items).sum(dim=1)
            size = size + users.square().sum(dim=1) + items.square().sum(dim=1)
        return found, size.mean()

    def loss(self, part: Ratings) -> Tensor:
        """The mean squared error, and the weight of sizes."""
        found, size = self(part)
        return F.mse_loss(found, part.rating) + self.decay * size

    @torch.no_grad()
    def error(self, part: Ratings) -> float:
        """The root of the mean squared error; ratings are between 1 and 5."""
        return float(F.mse_loss(self(part)[0].clamp(1, 5), part.rating).sqrt())


class Recommendation:
    """All rows with one seed.

    Args:
        task: the ratings.
        recipe: of the models.
        seed: of weights, order and dropout.
        folder: for the trained full models, which other rows begin with.
    """

    def __init__(self, task: RatingTask, recipe: Recipe, seed: int, folder: Path) -> None:
        self.task, self.recipe, self.seed = task, recipe, seed
        self.full_model = folder / f"full-seed{seed}.pt"

    def measure(self, row: str) -> dict[str, Any]:
        """Train one row and test it."""
        started = time.process_time()
        torch.manual_seed(self.seed)
        model = Factorization(*self._layers(row), self.task, self.recipe)
        record: dict[str, Any] = {"row": row, "seed": self.seed}
        if row == AFTER:
            model.load_state_dict(torch.load(self.full_model, weights_only=True))
            for name, part in (("users", self.task.train.user), ("items", self.task.train.item)):
                setattr(model, name, self._coded(getattr(model, name).weight.detach(), part))
            model.eval()
        else:
            trainer = TaskTrainer(
                model, optimizer_for(model, self.recipe.rate, self.recipe.row_rate), self.recipe.epochs, self.seed
            )
            run = trainer.fit(self._batches, model.loss, lambda: -model.error(self.task.valid))
            record["best_epoch"] = run.best_epoch + 1
        if row == FULL:
            self.full_model.parent.mkdir(parents=True, exist_ok=True)
            torch.save(model.state_dict(), self.full_model)
        errors = {f"{part}_rmse": model.error(getattr(self.task, part)) for part in ("valid", "test")}
        return record | errors | self._size(model) | {"processor_seconds": time.process_time() - started}

    def _layers(self, row: str) -> tuple[nn.Module | None, nn.Module | None]:
        if row == BIASES:
            return None, None
        recipe = self.recipe
        users, items = (self._layer(row, count, recipe) for count in (self.task.users, self.task.items))
        return users, items

    def _layer(self, row: str, count: int, recipe: Recipe) -> nn.Module:
        if row == LEARNED:
            return KDEmbedding(count, recipe.dim, size=recipe.size)
        dim = recipe.short_dim if row == SHORT else recipe.dim
        return nn.Embedding(count, dim, _weight=recipe.spread * torch.randn(count, dim))

    def _coded(self, table: Tensor, ids: Tensor) -> KDEmbedding:
        """Codes of a table, in which rows that occur often count more."""
        weights = torch.bincount(ids, minlength=len(table)).double().add(0.5).sqrt().numpy()
        source = kdcode.as_table(table.numpy(), weights=weights)
        return KDEmbedding.from_coded(kdcode.compress(source, self.recipe.size, codewords=True, seed=self.seed))

    def _size(self, model: Factorization) -> dict[str, Any]:
        """Bytes of everything that is served, and how many times smaller it is than with full tables."""
        biases = 4 * (self.task.users + self.task.items)
        if model.users is None:
            return {"bytes": biases, "table_bytes": 0}
        sizes = [size_of(layer) for layer in (model.users, model.items)]
        found = {"bytes": biases + sum(size["bytes"] for size in sizes)}
        found["table_bytes"] = found["bytes"] - biases
        full = 4 * self.recipe.dim * (self.task.users + self.task.items)
        return found | {"smaller": round(full / found["table_bytes"], 2)} | _shapes(sizes)

    def _batches(self) -> Iterator[Ratings]:
        for places in torch.randperm(len(self.task.train.rating)).split(self.recipe.batch):
            yield self.task.train.take(places)


def _shapes(sizes: list[dict[str, Any]]) -> dict[str, Any]:
    """K and D of both tables."""
    if "codebook_size" not in sizes[0]:
        return {}
    return {"shapes": ", ".join(f"K={size['codebook_size']} D={size['code_length']}" for size in sizes)}


def read_ratings(folder: Path) -> RatingTask:
    """Read ml-100k.inter: user, item, rating and time, with tabs between, below one line of names."""
    columns = np.loadtxt(folder / "ml-100k.inter", skiprows=1, delimiter="\t", usecols=(0, 1, 2), dtype=np.int64)
    users, items = (np.unique(columns[:, place], return_inverse=True)[1] for place in (0, 1))
    return split(users, items, columns[:, 2].astype(np.float32))


def made_up_ratings(users: int = 60, items: int = 80, count: int = 1500) -> RatingTask:
    """Ratings of users and items in groups that like each other or not: for `--tiny` runs."""
    draw = np.random.default_rng(0)
    user, item = draw.integers(users, size=count), draw.integers(items, size=count)
    likes = draw.integers(1, 6, size=(4, 4))
    return split(user, item, likes[user % 4, item % 4].astype(np.float32))


def split(users: np.ndarray, items: np.ndarray, ratings: np.ndarray) -> RatingTask:
    """80% for training, 10% for validation, 10% for testing."""
    columns = Ratings(*(torch.from_numpy(column) for column in (users, items, ratings)))
    order = torch.from_numpy(np.random.default_rng(SPLIT_SEED).permutation(len(ratings)))
    cut = len(order) * 8 // 10, len(order) * 9 // 10
    parts = (columns.take(places) for places in order.tensor_split(cut))
    return RatingTask(1 + int(users.max()), 1 + int(items.max()), *parts)


def all_runs(
    task: RatingTask, recipe: Recipe, arguments: Namespace, work: Path
) -> Iterator[tuple[Path, Callable[[], dict[str, Any]]]]:
    """The file of every run and what measures it."""
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        run = Recommendation(task, recipe, seed, work)
        for row in ROWS:
            file = work / f"{row.replace(' ', '-').replace(',', '')}-seed{seed}.json"
            yield file, lambda run=run, row=row: run.measure(row)  # type: ignore[misc]


def summarised(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each kind of table: means and deviations over seeds."""
    rows = []
    for row in ROWS:
        same = [run for run in runs if run["row"] == row]
        record: dict[str, Any] = {"row": row, "seeds": len(same)}
        for part in ("valid_rmse", "test_rmse"):
            mean, deviation = mean_and_deviation([run[part] for run in same])
            record |= {part: round(mean, 4), f"{part}_deviation": round(deviation, 4)}
        shape = ("bytes", "table_bytes", "smaller", "shapes")
        rows.append(record | {key: same[0][key] for key in shape if key in same[0]})
    return rows


def main() -> None:
    """Run what is not finished, and write everything down."""
    experiment = Experiment(__file__, __doc__, data="folder with ml-100k.inter", resumes=True)
    experiment.parser.add_argument("--seeds", type=int, default=5, help="how many runs of each row")
    experiment.parser.add_argument("--threads", type=int, default=1, help="processor threads")
    arguments = experiment.read_arguments()
    torch.set_num_threads(arguments.threads)
    task, recipe = (made_up_ratings(), TINY) if arguments.tiny else (read_ratings(arguments.data), Recipe())
    runs = measured_rows(all_runs(task, recipe, arguments, experiment.work / experiment.name))
    rows = summarised(runs)
    settings = {
        "users": task.users,
        "items": task.items,
        "ratings": {part: len(getattr(task, part).rating) for part in ("train", "valid", "test")},
        "split_seed": SPLIT_SEED,
        "recipe": asdict(recipe),
        "seeds": arguments.seeds,
        "threads": arguments.threads,
    }
    experiment.write(settings, rows, runs=runs, seconds=sum(run["processor_seconds"] for run in runs))
    for row in rows:
        print(f"{row['row']:28}{row['bytes']:9,} bytes  RMSE {row['test_rmse']:.4f} ± {row['test_rmse_deviation']:.4f}")


if __name__ == "__main__":
    main()
