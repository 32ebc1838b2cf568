"""Algorithm1Learner: Algorithm 1 of the paper with nothing added; `GradientLearner` is what it was improved to."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from kdcode.arrays import CHUNK_ROWS
from kdcode.errors import OptionError
from kdcode.learning.gradient.batches import BatchLearner
from kdcode.learning.gradient.gradients import sum_gradients
from kdcode.learning.gradient.logits import first_logits
from kdcode.learning.gradient.tensors import Best, TensorStart, TensorTable, squared_distances, used_codewords
from kdcode.learning.run import Run
from kdcode.nn.estimators import straight_through
from kdcode.options import Algorithm1Options


class Algorithm1Learner(BatchLearner):
    """Straight-through gradients at T = T0 / (1 + decay · t), a step of plain SGD per batch, and the last state kept.

    The paper leaves open what t counts (`temperature_step`), how large batches and rates are, and where learning
    starts. Here rows come in a new order in each epoch, logits start at random near zero, and codewords and
    composition as a fresh module.

    Differs from the paper: vectors are scaled, and centred where codewords can take up the mean, as for all learners.
    Without that, rates would depend on the unit of the table.

    Args:
        training: what to approximate.
        start: codes and a fresh module, which is trained in place.
        options: learning rates, temperature, epochs and batch size.
        seed: of everything random.
    """

    saved: ClassVar[tuple[str, ...]] = ("step", "unused", "codes", "logits", "module", "best")
    by_row: ClassVar[tuple[str, ...]] = ("codes", "best.codes", "logits")
    options: Algorithm1Options

    def __init__(self, training: TensorTable, start: TensorStart, options: Algorithm1Options, seed: int = 0) -> None:
        super().__init__(training, start, options, seed)
        self.logits = first_logits(training, start, seed)
        self.best = self._solution()

    def run(self, run: Run, stage: int = 0) -> Best:
        """Learn to the end; what is given back is where it ended, and not the best that was met.

        Raises:
            OptionError: learning diverged.
        """
        super().run(run, stage)
        self.best = self._solution()
        if not math.isfinite(self.best.error):
            raise OptionError(
                f"codeword_lr and composition_lr: learning diverged with {self.options.codeword_lr} and "
                f"{self.options.composition_lr}; lower them"
            )
        return self.best

    def update(self, rows: Tensor, batch: Tensor, temperature: float) -> tuple[Tensor, float]:
        """One step of SGD on the logits of a batch, codewords and composition, all by the gradients of one pass."""
        values = self.logits[rows].requires_grad_()
        chosen = straight_through(values, self.module.codebook, temperature)
        lost = squared_distances(self.module(chosen.words), self.training.vectors[rows])
        total = lost.sum() if self.training.weights is None else lost @ self.training.weights[rows]
        self.module.zero_grad()
        total.backward()
        (loss,) = sum_gradients(self.module.parameters(), [float(total.detach())], self.training.ranks)
        with torch.no_grad():
            for name, weight in self.module.named_parameters():
                if weight.grad is not None:
                    weight.sub_(weight.grad, alpha=self._rate(name) / len(batch))
            if values.grad is not None:
                self.logits[rows] = values.sub_(values.grad, alpha=self.options.logit_lr)
        return chosen.codes, loss

    def temperature_at(self, epoch: int) -> float:
        """T_0 / (1 + decay · t), with epochs or updates as t."""
        return super().temperature_at(epoch if self.options.temperature_step == "epoch" else self.step)

    def end_epoch(self) -> None:
        """Count unused codewords, for reports alone."""
        used = used_codewords(self.codes, self.module.spec.codebook_size, self.training.ranks)
        self.unused = int((used == 0).sum())

    def _rate(self, name: str) -> float:
        """The learning rate of a weight, for the mean squared error of a batch."""
        spec, options = self.module.spec, self.options
        if name == "codebook":
            return options.codeword_lr * spec.codebook_size / spec.code_length
        return options.composition_lr

    def _solution(self) -> Best:
        codes = torch.cat([part.argmax(dim=-1) for part in self.logits.split(CHUNK_ROWS)])
        return Best.of(self.training.error(codes, self.module), codes, self.module)
