"""EncoderLearner: an encoder network and codewords learned together, with Gumbel-softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from kdcode.arrays import CHUNK_ROWS
from kdcode.learning.gradient.batches import BatchLearner, weight_groups
from kdcode.learning.gradient.encoder import Encoder
from kdcode.learning.gradient.gradients import sum_gradients
from kdcode.learning.gradient.tensors import (
    Best,
    TensorStart,
    TensorTable,
    copied_weights,
    generator_for,
    unused_codewords,
)
from kdcode.nn.estimators import gumbel_noise
from kdcode.options import EncoderOptions

_NETWORK_RATE = 0.4
"""Learning rate of the network relative to that of free logits: every row shares its weights."""
_MAX_GRADIENT = 0.001
"""Norm that gradients are clipped to, as in the authors' own program. Adam is blind to their size, so it makes every
batch count the same."""


@dataclass
class BestEncoder(Best):
    """The best solution met so far, and the encoder's weights that gave its codes."""

    encoder: dict[str, Tensor]


class EncoderLearner(BatchLearner):
    """Learns an encoder and codewords together, by the squared error of sums of codewords.

    Every row's vector is composed of all codewords, weighted by softmax((logits + Gumbel noise) / T); nothing is made
    hard until the end, when the code is the largest logit without noise.

    Differs from the published method: vectors are standardised; rates fall along a cosine from higher ones, in larger
    batches, so that minutes are enough; and the state that is kept is the one whose hard codes have the smallest error
    over the whole table, where theirs has the smallest relaxed error of a sample.

    Args:
        training: what to approximate.
        encoder: trained in place.
        start: of which the module is trained in place; its codes are not used.
        options: learning rates, epochs, batches and temperature.
        seed: of everything random.
    """

    saved: ClassVar[tuple[str, ...]] = ("step", "unused", "codes", "module", "encoder", "optimizer", "best")
    best: BestEncoder

    def __init__(
        self, training: TensorTable, encoder: Encoder, start: TensorStart, options: EncoderOptions, seed: int = 0
    ) -> None:
        super().__init__(training, start, options, seed)
        self.encoder = encoder
        groups = weight_groups(start)
        for group in groups:
            group["first_rate"] = options.codeword_lr * group.pop("relative_rate")
        groups.append({"params": list(encoder.parameters()), "first_rate": options.logit_lr * _NETWORK_RATE})
        self.weights = [weight for group in groups for weight in group["params"]]
        self.optimizer = torch.optim.Adam(groups)
        self.best = self._solution()
        self.codes = self.best.codes.clone()

    def update(self, rows: Tensor, batch: Tensor, temperature: float) -> tuple[Tensor, float]:
        """Encode, relax, compose, compare, and move all weights."""
        vectors = self.training.vectors[rows]
        logits = self.encoder.logits(vectors)
        drawn = generator_for(self.seed, "choice", self.step, vectors.device)
        noise = gumbel_noise(logits.new_empty(len(batch), *logits.shape[1:]), drawn)[self.training.has(batch)]
        shares = torch.softmax((logits + noise) / temperature, dim=-1)
        # The sum over positions is taken in one product: the composition gets one summed codeword per row.
        total = shares.flatten(1) @ self.module.codebook.flatten(0, 1)
        squared = (self._composed(total) - vectors).square().sum()
        self.optimizer.zero_grad(set_to_none=True)
        (squared / (len(batch) * vectors.shape[1])).backward()
        (loss,) = sum_gradients(self.weights, [float(squared.detach())], self.training.ranks)
        nn.utils.clip_grad_norm_(self.weights, _MAX_GRADIENT)
        for group in self.optimizer.param_groups:
            group["lr"] = group["first_rate"] * self.fading
        self.optimizer.step()
        return logits.detach().argmax(dim=-1), loss

    def _composed(self, total: Tensor) -> Tensor:
        """(n, e) summed codewords to (n, d) vectors."""
        return total if self.module.basis is None else total @ self.module.basis

    def end_epoch(self) -> None:
        """Measure the hard codes of all rows, and keep the state if it is the best."""
        found = self._solution()
        if found.error < self.best.error:
            self.best = found

    @torch.no_grad()
    def _solution(self) -> BestEncoder:
        """The state as it is: hard codes of all rows, and copies of all weights."""
        codes = torch.cat([self.encoder.logits(part).argmax(-1) for part in self.training.vectors.split(CHUNK_ROWS)])
        self.unused = unused_codewords(codes, self.encoder.codebook_size, self.training.ranks)
        error = self.training.error(codes, self.module)
        return BestEncoder(error, codes, copied_weights(self.module), copied_weights(self.encoder))
