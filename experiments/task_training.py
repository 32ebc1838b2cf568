"""How models are trained in a task, be their embedding a table, fixed codes or codes that are learned."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from kdcode.files import replacing
from kdcode.nn import KDEmbedding, make_optimizer
from kdcode.nn.assignment import LearnedAssignment

Batch = TypeVar("Batch")


@dataclass
class Progress:
    """Where a training run stands, and the best state so far."""

    epoch: int = 0
    valid: list[float] = field(default_factory=list)
    best_epoch: int = -1
    best_state: dict[str, Any] = field(default_factory=dict)


class TaskTrainer:
    """Trains a model for some epochs with a learning rate that falls to zero, and keeps its best epoch.

    Args:
        model: with its first weights; it has the best ones after `fit`.
        optimizer: of all that is to be trained.
        epochs: how many.
        seed: of the order of batches and of dropout.
        checkpoint: written after every epoch where given; a trainer that finds one goes on from it.
    """

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, epochs: int, seed: int, checkpoint: Path | None = None
    ) -> None:
        self.model, self.optimizer, self.epochs, self.seed, self.checkpoint = model, optimizer, epochs, seed, checkpoint
        self.rates = [group["lr"] for group in optimizer.param_groups]
        self.progress = Progress()
        if checkpoint is not None and checkpoint.exists():
            self._resume(checkpoint)

    def fit(
        self,
        batches: Callable[[], Iterable[Batch]],
        loss_of: Callable[[Batch], Tensor],
        valid_score: Callable[[], float],
        say: Callable[[str], None] | None = None,
    ) -> Progress:
        """All epochs that are left.

        Args:
            batches: those of one epoch, in random order.
            loss_of: the loss of one batch.
            valid_score: on validation data; the highest is the best.
            say: called with a line after every epoch.
        """
        run = self.progress
        while run.epoch < self.epochs:
            torch.manual_seed(1000 * self.seed + run.epoch)  # the same after a resume
            self.model.train()
            parts = list(batches())
            for number, batch in enumerate(parts):
                self._step(loss_of(batch), (run.epoch + number / len(parts)) / self.epochs)
            self.model.eval()
            run.valid.append(valid_score())
            if run.valid[-1] >= max(run.valid):
                run.best_epoch, run.best_state = run.epoch, copy.deepcopy(self.model.state_dict())
            run.epoch += 1
            if say:
                say(f"epoch {run.epoch} of {self.epochs}, valid {run.valid[-1]:.4f}")
            if self.checkpoint is not None:
                self._save(self.checkpoint)
        self.model.load_state_dict(run.best_state)
        self.model.eval()
        return run

    def _step(self, loss: Tensor, done: float) -> None:
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * (1 - done)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def _save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), **vars(self.progress)}
        with replacing(path) as temporary:
            torch.save(state, temporary)

    def _resume(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        self.model.load_state_dict(state.pop("model"))
        self.optimizer.load_state_dict(state.pop("optimizer"))
        self.progress = Progress(**state)


def optimizer_for(model: nn.Module, rate: float, row_rate: float | None = None) -> torch.optim.Optimizer:
    """Adam; where the model learns codes, the library's optimiser, whose `row_rate` is its default where left out."""
    if any(isinstance(module, LearnedAssignment) for module in model.modules()):
        given = {} if row_rate is None else {"row_lr": row_rate}
        return make_optimizer(model, lr=rate, **given)
    return torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=rate, fused=True)


def size_of(layer: nn.Embedding | KDEmbedding) -> dict[str, Any]:
    """Bytes of a layer as it is served, how many times smaller than float32 rows that is, and the shape of its code."""
    count, dim = layer.num_embeddings, layer.embedding_dim
    if isinstance(layer, nn.Embedding):
        return {"bytes": 4 * count * dim, "smaller": 1.0}
    coded = layer.to_coded()
    return {
        "bytes": coded.sizes.embedding,
        "smaller": round(coded.sizes.ratio(count, dim), 2),
        "codebook_size": coded.codebook_size,
        "code_length": coded.code_length,
        "composition": coded.codec.spec.composition,
    }


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    """Over seeds; the deviation of one is 0."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0
