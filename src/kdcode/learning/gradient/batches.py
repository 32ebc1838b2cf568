"""BatchLearner: the loop of learners that go over the table in batches of rows."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from kdcode.learning.gradient.tensors import Best, TensorResumable, TensorStart, TensorTable, generator_for
from kdcode.learning.progress import StepReport
from kdcode.learning.run import Run, State
from kdcode.options import BatchOptions


class BatchLearner(TensorResumable):
    """Updates by batches of shuffled rows; what an update does is up to the subclass.

    Args:
        training: what to approximate.
        start: where to start; its module is trained in place.
        options: epochs, batch size, temperature and learning rates.
        seed: of everything random.
    """

    best: Best

    def __init__(self, training: TensorTable, start: TensorStart, options: BatchOptions, seed: int) -> None:
        self.training = training
        self.device = training.vectors.device
        self.module = start.module
        self.options = options
        self.seed = seed
        self.step = 0
        total = training.share.total
        self.steps_per_epoch = -(-total // options.batch_size)
        self.total_steps = self.steps_per_epoch * options.epochs_for(total)
        self.unused = 0
        self.codes = start.codes.to(torch.int64, copy=True)
        self._shuffled: tuple[int, Tensor] | None = None

    def run(self, run: Run, stage: int = 0) -> Best:
        """Learn to the end, from the run's checkpoint where it was written in this stage."""
        run.begin(stage, self._resume, self.by_row)
        while self.step < self.total_steps:
            report = self._next_batch()
            if self.step % self.steps_per_epoch == 0:
                self.training.ranks.agree(list(self.module.parameters()))  # other processors round otherwise
                self.end_epoch()
            run.after_step(report, self.state)
        return self.best

    def _resume(self, state: State) -> int:
        self.load_state(state)
        return self.step

    def update(self, rows: Tensor, batch: Tensor, temperature: float) -> tuple[Tensor, float]:
        """Learn from a batch of rows.

        Args:
            rows: (n,) places of those that are here.
            batch: numbers of all of them in the whole table.
            temperature: T.

        Returns:
            (n, D) codes of those that are here, and the sum of the losses of all.
        """
        raise NotImplementedError

    def end_epoch(self) -> None:
        """Look at the whole table, and keep the state if it is the best."""
        raise NotImplementedError

    def temperature_at(self, epoch: int) -> float:
        """T_0 / (1 + decay · t) (Algorithm 1), with epochs as t.

        The paper does not say what t counts. A schedule that reaches a low T within the first epochs freezes codes
        before they are any good.
        """
        return self.options.temperature / (1 + self.options.temperature_decay * epoch)

    @property
    def fading(self) -> float:
        """What learning rates are multiplied by: a cosine from 1 to 0 over the run."""
        return 0.5 * (1 + math.cos(math.pi * self.step / self.total_steps))

    def _next_batch(self) -> StepReport:
        epoch, place = divmod(self.step, self.steps_per_epoch)
        batch = self._order(epoch)[place * self.options.batch_size : (place + 1) * self.options.batch_size]
        rows, ranks = self.training.own(batch), self.training.ranks
        temperature = self.temperature_at(epoch)
        codes, loss = self.update(rows, batch, temperature)
        changed = float((codes != self.codes[rows]).float().mean()) if len(rows) else 0.0
        if not ranks.is_alone:
            changed = ranks.total(changed * len(rows)) / len(batch)
        self.codes[rows] = codes
        self.step += 1
        relative = self.training.relative(loss, len(batch))
        return StepReport(self.step, self.total_steps, relative, changed, temperature, self.unused)

    def _order(self, epoch: int) -> Tensor:
        """(N,) numbers of all ranks' rows in the order in which an epoch sees them."""
        if self._shuffled is None or self._shuffled[0] != epoch:
            order = torch.randperm(self.training.share.total, generator=generator_for(self.seed, "order", epoch))
            self._shuffled = (epoch, order.to(self.device))
        return self._shuffled[1]


_OTHER_WEIGHTS_RATE = {"linear": 0.2, "lstm": 0.02, "product": 0.0, "grouped": 0.0}
"""Learning rate of H, U and b relative to codewords: all rows share them, so small steps move every vector."""
_LEARNED_START_RATE = 0.5
"""The same from learned codes, which hold still, so that the composition is what there is to learn."""


def weight_groups(start: TensorStart) -> list[dict[str, Any]]:
    """Parameter groups with rates relative to the codeword rate, which is meant for codewords of variance 1/D."""
    module = start.module
    other = _LEARNED_START_RATE if start.origin == "learned" else _OTHER_WEIGHTS_RATE[module.spec.composition]
    spread = float(module.codebook.detach().square().mean().sqrt()) * module.spec.code_length**0.5
    return [
        {"params": [value], "relative_rate": (spread or 1.0) if name == "codebook" else other}
        for name, value in module.named_parameters()
    ]
