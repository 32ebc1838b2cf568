"""GradientLearner: Algorithm 1 with a second-order term, row-wise steps, Adam, falling rates and revived codewords.

The paper's own is `Algorithm1Learner`.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from kdcode.arrays import CHUNK_ROWS
from kdcode.codec_torch.lookup import lookup
from kdcode.learning.gradient.batches import BatchLearner, weight_groups
from kdcode.learning.gradient.gradients import sum_gradients
from kdcode.learning.gradient.logits import first_logits
from kdcode.learning.gradient.row_optimizer import RowOptimizer
from kdcode.learning.gradient.tensors import (
    Best,
    TensorStart,
    TensorTable,
    generator_for,
    squared_distances,
    used_codewords,
)
from kdcode.nn.estimators import ESTIMATORS
from kdcode.options import GradientOptions

_REVIVE_UNTIL = 0.7
"""Share of the run in which unused codewords are revived; later ones would not find their place."""


class GradientLearner(BatchLearner):
    """Learns the codes of a table with a logit for every symbol, position and codeword.

    Args:
        training: what to approximate.
        start: where to start; its module is trained in place.
        options: learning rates, epochs and the rest.
        seed: of everything random.
    """

    saved: ClassVar[tuple[str, ...]] = (
        *("step", "epoch_loss", "unused", "gains", "codes", "logits", "row_optimizer"),
        *("module", "weight_optimizer", "best"),
    )
    by_row: ClassVar[tuple[str, ...]] = (
        *("codes", "best.codes", "logits"),
        *("row_optimizer.mean_square", "row_optimizer.visits"),
    )

    def __init__(self, training: TensorTable, start: TensorStart, options: GradientOptions, seed: int = 0) -> None:
        super().__init__(training, start, options, seed)
        self.curvature = options.curvature
        self.gentle = start.origin == "learned"
        self.epoch_loss = 0.0
        self.estimate = ESTIMATORS[options.estimator]
        self.gains: Tensor | None = None
        self.best = Best.of(training.error(self.codes, self.module), self.codes.clone(), self.module)
        self.logits = first_logits(training, start, seed)
        self.row_optimizer = RowOptimizer(self.logits)
        self.weight_optimizer = torch.optim.Adam(weight_groups(start), betas=(0.0, 0.999))

    def update(self, rows: Tensor, batch: Tensor, temperature: float) -> tuple[Tensor, float]:
        """Choose codewords, compose, compare, and move logits and weights."""
        vectors = self.training.vectors[rows]
        numbers = len(batch) * vectors.shape[1]
        values = self.logits[rows].requires_grad_()
        chosen = self.estimate(
            values,
            self.module.codebook,
            temperature,
            generator=generator_for(self.seed, self._purpose_of_draws, self.step, vectors.device),
            curvature=self._second_derivatives(rows, numbers),
        )
        lost = squared_distances(self.module(chosen.words), vectors)
        total = lost.sum() if self.training.weights is None else lost @ self.training.weights[rows]
        self.weight_optimizer.zero_grad(set_to_none=True)
        (total / numbers).backward()
        (loss,) = sum_gradients(self.module.parameters(), [float(total.detach())], self.training.ranks)
        fading = self.fading
        for group in self.weight_optimizer.param_groups:
            group["lr"] = self.options.codeword_lr * group["relative_rate"] * fading
        self.weight_optimizer.step()
        if values.grad is not None and len(rows):
            self.row_optimizer.step(rows, values.detach(), values.grad, self.options.logit_lr * fading)
        self.epoch_loss += loss
        return chosen.codes, loss

    @property
    def _purpose_of_draws(self) -> str:
        """Each rank draws for its own rows."""
        first = self.training.share.first
        return f"choice {first}" if first else "choice"

    def _second_derivatives(self, rows: Tensor, count: int) -> Tensor | None:
        """(D,) second derivatives of the mean squared error, phased in over the run; see `estimators`.

        At first codes may jump, and find their way; in the end they only move where the loss really falls. From learned
        codes there is no way to find, and the term is there in full throughout.
        """
        strength = self.curvature * (1.0 if self.gentle else self.step / self.total_steps)
        if strength == 0:
            return None
        if self.gains is None or self.step % self.steps_per_epoch == 0:
            self.gains = self._gains(rows[:256])
        return strength / count * self.gains

    def _gains(self, rows: Tensor) -> Tensor:
        """(D,) gains of the module near the codes of (n,) rows, on average over those of all ranks."""
        words = lookup(self.codes[rows], self.module.codebook.detach())
        ranks = self.training.ranks
        if ranks.is_alone:
            return self.module.gains(words)
        found = self.module.gains(words) * len(rows) if len(rows) else words.new_zeros(words.shape[1])
        return ranks.all_sum(found) / ranks.total(len(rows))

    def end_epoch(self) -> None:
        """Count codewords, revive unused ones, and keep the state if it is the best."""
        last = self.step == self.total_steps
        used = used_codewords(self.codes, self.module.spec.codebook_size, self.training.ranks)
        self.unused = int((used == 0).sum())
        relative = self.training.relative(self.epoch_loss)
        self.epoch_loss = 0.0
        if last or relative <= self.best.error:
            codes = torch.cat([part.argmax(dim=-1) for part in self.logits.split(CHUNK_ROWS)])
            error = self.training.error(codes, self.module)
            if error < self.best.error:
                self.best = Best.of(error, codes, self.module)
        if self.unused and not last and self.step < _REVIVE_UNTIL * self.total_steps:
            self._revive(used)

    @torch.no_grad()
    def _revive(self, used: Tensor) -> None:
        """Let each unused codeword take half the symbols of the most used one at its position."""
        ranks, first = self.training.ranks, self.training.share.first
        drawn = generator = generator_for(self.seed, "revive", self.step)
        if not ranks.is_alone:  # the rows here draw for themselves, and the codewords of all ranks draw alike
            drawn = generator_for(self.seed, f"revive {first}", self.step)
        codebook, logits = self.module.codebook, self.logits
        for position, dead in (used == 0).nonzero().tolist():
            busy = int(used[position].argmax())
            if used[position, busy] < 2:
                continue
            rows = (self.codes[:, position] == busy).nonzero().flatten()
            rows = rows[(torch.rand(len(rows), generator=drawn) < 0.5).to(rows.device)]
            spread = codebook[position].std(dim=0)
            noise = torch.randn(spread.shape, generator=generator).to(spread.device)
            codebook[position, dead] = codebook[position, busy] + 0.1 * spread * noise
            logits[rows, position, dead] = logits[rows, position].amax(dim=1) + 0.1
            self.codes[rows, position] = dead
            moved = int(ranks.total(len(rows)))
            used[position, busy] -= moved
            used[position, dead] = moved
