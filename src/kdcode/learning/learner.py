"""The loop that learns codes and codewords by gradient (Algorithm 1), one batch of rows at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from kdcode.learning.loss import LOSSES
from kdcode.learning.progress import StepReport
from kdcode.learning.randomness import generator_for, shuffled_rows
from kdcode.learning.row_optimizer import RowOptimizer
from kdcode.learning.run import Run
from kdcode.learning.starts import Start, first_logits
from kdcode.learning.straight_through import CHOICES, lookup
from kdcode.learning.target import CHUNK_ROWS, Target
from kdcode.learning.temperature import temperature_of
from kdcode.options import CompressOptions

_OTHER_WEIGHTS_RATE = {"linear": 0.2, "lstm": 0.02, "product": 0.0, "grouped": 0.0}
"""Rate of H, U and b relative to codewords: all rows share them, so small steps move every vector."""
_SETTLED_WEIGHTS_RATE = 0.5
"""The same from a settled start, where codes hold still and the composition is what there is to learn."""
_REVIVE_UNTIL = 0.7
"""Share of the run in which unused codewords are revived; later ones would not settle."""


@dataclass
class Best:
    """The best solution met so far: its relative error, (N, D) codes and the composition's weights."""

    error: float
    codes: Tensor
    weights: dict[str, Tensor] = field(repr=False)


class GradientLearner:
    """Learns the codes of a table, or, where codes are fixed, codewords and composition alone.

    Args:
        target: what to approximate.
        start: where to start; its composition is trained in place.
        options: rates, epochs and the rest.
        learn_codes: whether codes are learned too.
    """

    def __init__(self, target: Target, start: Start, options: CompressOptions, *, learn_codes: bool) -> None:
        self.target = target
        self.options = options
        self.settled = start.settled
        self.composition = start.composition
        self.codes = start.codes.to(torch.int64, copy=True)
        self.unused = 0
        self.step = 0
        self.epoch_loss = 0.0
        self.steps_per_epoch = -(-len(target) // options.batch_size)
        self.total_steps = self.steps_per_epoch * options.epochs_for(len(target))
        self.loss = LOSSES[options.loss]
        self.best = self._solution()
        self.choose = CHOICES[options.choice]
        self.temperature = temperature_of(options)
        self._gains: Tensor | None = None
        self.logits: Tensor | None = None
        if learn_codes:
            self.logits = first_logits(target, start, options.start_name, options.seed)
            self.row_optimizer = RowOptimizer(self.logits)
        self.weight_optimizer = torch.optim.Adam(weight_groups(start), betas=(0.0, 0.999))

    def run(self, run: Run, stage: int = 0) -> Best:
        """Learn to the end, from the run's checkpoint where it was written in this stage."""
        state = run.begin(stage)
        if state is not None:
            self.load_state(state)
        while self.step < self.total_steps:
            report = self._update()
            if self.step % self.steps_per_epoch == 0:
                self._end_epoch()
            run.after_step(report, self.state)
        return self.best

    def _update(self) -> StepReport:
        """One batch: choose codewords, compose, compare, and move logits and weights."""
        epoch, place = divmod(self.step, self.steps_per_epoch)
        rows = self._order(epoch)[place * self.options.batch_size : (place + 1) * self.options.batch_size]
        temperature = self.temperature.at(self.step, epoch)
        fading = 0.5 * (1 + math.cos(math.pi * self.step / self.total_steps))
        vectors = self.target.vectors[rows]
        values: Tensor | None = None
        if self.logits is None:
            codes = self.codes[rows]
            composed = self.composition.compose(codes)
        else:
            values = self.logits[rows].requires_grad_()
            noise = generator_for(self.options.seed, "choice", self.step, vectors.device)
            chosen = self.choose(
                values,
                self.composition.codebook,
                temperature,
                generator=noise,
                curvature=self._curvature(rows, vectors.numel()),
            )
            codes, composed = chosen.codes, self.composition(chosen.words)
        lost = self.loss(composed, vectors)
        total = lost.sum() if self.target.weights is None else lost @ self.target.weights[rows]
        self.weight_optimizer.zero_grad(set_to_none=True)
        (total / vectors.numel()).backward()
        for group in self.weight_optimizer.param_groups:
            group["lr"] = self.options.codeword_rate * group["relative_rate"] * fading
        self.weight_optimizer.step()
        if values is not None and values.grad is not None:
            self.row_optimizer.step(rows, values.detach(), values.grad, self.options.logit_rate * fading)
        changed = float((codes != self.codes[rows]).float().mean())
        self.codes[rows] = codes
        self.step += 1
        loss = float(total.detach())
        self.epoch_loss += loss
        share = self.target.variance * len(rows) / len(self.target)
        return StepReport(
            self.step, self.total_steps, loss / share if share else 0.0, changed, temperature, self.unused
        )

    def _curvature(self, rows: Tensor, count: int) -> Tensor | None:
        """(D,) second derivatives of the mean squared error, phased in over the run; see `straight_through`.

        At first codes may jump, and find their way; in the end they only move where the loss really falls. From a
        settled start there is no way to find, and the term is there in full throughout.
        """
        phase = 1.0 if self.settled else self.step / self.total_steps
        strength = self.options.curvature * phase
        if strength == 0:
            return None
        if self._gains is None or self.step % self.steps_per_epoch == 0:
            words = lookup(self.codes[rows[:256]], self.composition.codebook.detach())
            self._gains = self.composition.gains(words)
        return strength / count * self._gains

    def _order(self, epoch: int) -> Tensor:
        if getattr(self, "_ordered_epoch", None) != epoch:
            self._ordered_epoch = epoch
            self._permutation = shuffled_rows(len(self.target), self.options.seed, epoch, self.target.vectors.device)
        return self._permutation

    def _end_epoch(self) -> None:
        """Count codewords, revive unused ones, and keep the state if it is the best."""
        last = self.step == self.total_steps
        used = torch.stack([torch.bincount(column, minlength=self._size) for column in self.codes.t()])
        self.unused = int((used == 0).sum())
        relative = self.epoch_loss / self.target.variance if self.target.variance else 0.0
        self.epoch_loss = 0.0
        if last or relative <= self.best.error:
            found = self._solution()
            if found.error < self.best.error:
                self.best = found
        if self.logits is not None and self.unused and not last and self.step < _REVIVE_UNTIL * self.total_steps:
            self._revive(used)

    @torch.no_grad()
    def _revive(self, used: Tensor) -> None:
        """Let each unused codeword take half the symbols of the most used one at its position."""
        generator = generator_for(self.options.seed, "revive", self.step)
        codebook, logits = self.composition.codebook, self.logits
        if logits is None:
            return
        for position, dead in (used == 0).nonzero().tolist():
            busy = int(used[position].argmax())
            rows = (self.codes[:, position] == busy).nonzero().flatten()
            if len(rows) < 2:
                continue
            rows = rows[(torch.rand(len(rows), generator=generator) < 0.5).to(rows.device)]
            spread = codebook[position].std(dim=0)
            noise = torch.randn(spread.shape, generator=generator).to(spread.device)
            codebook[position, dead] = codebook[position, busy] + 0.1 * spread * noise
            logits[rows, position, dead] = logits[rows, position].amax(dim=1) + 0.1
            self.codes[rows, position] = dead
            used[position, busy] -= len(rows)
            used[position, dead] = len(rows)

    @property
    def _size(self) -> int:
        return self.composition.shape.codebook_size

    def _solution(self) -> Best:
        """The state as it is: hard codes of all rows, and a copy of the weights."""
        logits = getattr(self, "logits", None)
        codes = self.codes.clone()
        if logits is not None:
            codes = torch.cat([part.argmax(dim=-1) for part in logits.split(CHUNK_ROWS)])
        weights = {name: value.detach().clone() for name, value in self.composition.state_dict().items()}
        return Best(self.target.error(codes, self.composition, self.loss), codes, weights)

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on."""
        return {
            "step": self.step,
            "epoch_loss": self.epoch_loss,
            "unused": self.unused,
            "gains": self._gains,
            "codes": self.codes,
            "logits": self.logits,
            "rows": self.row_optimizer.state() if self.logits is not None else None,
            "weights": self.composition.state_dict(),
            "weight_optimizer": self.weight_optimizer.state_dict(),
            "best": {"error": self.best.error, "codes": self.best.codes, "weights": self.best.weights},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        device = self.target.vectors.device
        self.step, self.epoch_loss, self.unused = state["step"], state["epoch_loss"], state["unused"]
        self._gains = None if state["gains"] is None else state["gains"].to(device)
        self.codes.copy_(state["codes"])
        if self.logits is not None:
            self.logits.copy_(state["logits"])
            self.row_optimizer.load_state(state["rows"])
        self.composition.load_state_dict(state["weights"])
        self.weight_optimizer.load_state_dict(state["weight_optimizer"])
        best = state["best"]
        weights = {name: value.to(device) for name, value in best["weights"].items()}
        self.best = Best(best["error"], best["codes"].to(device), weights)


def weight_groups(start: Start) -> list[dict[str, Any]]:
    """Parameter groups with rates relative to the codeword rate, which is meant for codewords of variance 1/D."""
    composition = start.composition
    other = _SETTLED_WEIGHTS_RATE if start.settled else _OTHER_WEIGHTS_RATE[composition.shape.composition]
    spread = float(composition.codebook.detach().square().mean().sqrt()) * composition.shape.code_length**0.5
    return [
        {"params": [value], "relative_rate": (spread or 1.0) if name == "codebook" else other}
        for name, value in composition.named_parameters()
    ]
