"""A network from vectors to codes, learned with Gumbel-softmax (Shu and Nakayama, 2017).

"Compressing Word Embeddings via Deep Compositional Code Learning". Codes are no free parameters here but what a small
network makes of a vector, so that vectors which were not in the table have codes too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kdcode.errors import OptionError
from kdcode.learning.learner import Best, weight_groups
from kdcode.learning.progress import StepReport
from kdcode.learning.randomness import generator_for, shuffled_rows
from kdcode.learning.run import Run
from kdcode.learning.starts import Start
from kdcode.learning.straight_through import gumbel_noise
from kdcode.learning.target import CHUNK_ROWS, Target
from kdcode.learning.temperature import temperature_of
from kdcode.options import CompressOptions

_NETWORK_RATE = 0.4
"""Rate of the network relative to that of free logits: every row shares its weights."""
_MAX_GRADIENT = 0.001
"""Norm that gradients are clipped to, as in the authors' own program. Adam is blind to their size, so it makes every
batch count the same."""


class Encoder(nn.Module):
    """Vectors to codes: log softplus(tanh(x W + b) W' + b') is the logit of each codeword, the largest one the code.

    The hidden layer has D·K/2 units. A fresh encoder knows nothing yet; `learn_encoder` gives back a learned one.

    Args:
        embedding_dim: d.
        code_length: D.
        codebook_size: K.
        generator: draws the first weights.
    """

    shift: Tensor
    scale: Tensor

    def __init__(
        self, embedding_dim: int, code_length: int, codebook_size: int, *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.embedding_dim, self.code_length, self.codebook_size = embedding_dim, code_length, codebook_size
        values = code_length * codebook_size
        self.hidden = _weights(embedding_dim, values // 2, generator)
        self.hidden_bias = nn.Parameter(torch.zeros(values // 2))
        self.output = _weights(values // 2, values, generator)
        self.output_bias = nn.Parameter(torch.zeros(values))
        self.register_buffer("shift", torch.zeros(embedding_dim))
        self.register_buffer("scale", torch.ones(()))

    def forward(self, vectors: Tensor) -> Tensor:
        """(n, d) vectors, as the table has them, to (n, D, K) logits."""
        return self.logits((vectors - self.shift) / self.scale)

    def logits(self, standardised: Tensor) -> Tensor:
        """(n, d) vectors with mean 0 and spread 1, as they are learned from, to (n, D, K) logits."""
        values = torch.tanh(standardised @ self.hidden + self.hidden_bias) @ self.output + self.output_bias
        # What is added keeps the logarithm finite where softplus rounds to zero.
        return torch.log(F.softplus(values) + 1e-8).view(-1, self.code_length, self.codebook_size)

    @torch.no_grad()
    def encode(self, vectors: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Codes of vectors, of the table or not; `CodedTable.compose` turns them into vectors again.

        Args:
            vectors: (d,) or (n, d) finite numbers.

        Returns:
            (D,) or (n, D) integers.
        """
        with np.errstate(over="ignore"):  # what overflows float32 becomes inf and is refused
            array = np.asarray(vectors, dtype=np.float32)
        if array.ndim not in (1, 2) or array.shape[-1] != self.embedding_dim or not np.isfinite(array).all():
            raise OptionError(f"expected finite vectors of size {self.embedding_dim}, got shape {array.shape}")
        rows = torch.from_numpy(np.require(np.atleast_2d(array), requirements="W")).to(self.hidden.device)
        codes = torch.cat([self(part).argmax(dim=-1) for part in rows.split(CHUNK_ROWS)])
        return codes.cpu().numpy().reshape(*array.shape[:-1], self.code_length)

    def extra_repr(self) -> str:
        """D, K and d for printing."""
        return f"embedding_dim={self.embedding_dim}, code_length={self.code_length}, codebook_size={self.codebook_size}"


@dataclass
class BestEncoder(Best):
    """The best solution met so far, and the encoder's weights that gave its codes."""

    encoder: dict[str, Tensor]


class EncoderLearner:
    """Learns an encoder and codewords together, by the squared error of sums of codewords.

    Every row's vector is composed of all codewords, weighted by softmax((logits + Gumbel noise) / T); nothing is made
    hard until the end, when the code is the largest logit without noise.

    Differs from the published method: vectors are standardised; rates fall along a cosine from higher ones, in larger
    batches, so that minutes are enough; and the state that is kept is the one whose hard codes have the smallest error
    over the whole table, where theirs has the smallest relaxed error of a sample.

    Args:
        target: what to approximate.
        encoder: trained in place.
        start: of which the composition is trained in place; its codes are not used.
        options: rates, epochs, batches, temperature and seed.
    """

    def __init__(self, target: Target, encoder: Encoder, start: Start, options: CompressOptions) -> None:
        self.target = target
        self.encoder = encoder
        self.composition = start.composition
        self.options = options
        self.temperature = temperature_of(options)
        self.steps_per_epoch = -(-len(target) // options.batch_size)
        self.total_steps = self.steps_per_epoch * options.epochs_for(len(target))
        self.step = 0
        groups = weight_groups(start)
        for group in groups:
            group["first_rate"] = options.codeword_rate * group.pop("relative_rate")
        groups.append({"params": list(encoder.parameters()), "first_rate": options.logit_rate * _NETWORK_RATE})
        self.weights = [weight for group in groups for weight in group["params"]]
        self.optimizer = torch.optim.Adam(groups)
        self.best = self._solution()
        self.codes = self.best.codes.clone()
        self.unused = self._count_unused(self.codes)

    def run(self, run: Run, stage: int = 0) -> BestEncoder:
        """Learn to the end, from the run's checkpoint where it was written in this stage."""
        state = run.begin(stage)
        if state is not None:
            self.load_state(state)
        while self.step < self.total_steps:
            report = self._update()
            if self.step % self.steps_per_epoch == 0:
                found = self._solution()
                self.unused = self._count_unused(found.codes)
                if found.error < self.best.error:
                    self.best = found
            run.after_step(report, self.state)
        return self.best

    def _update(self) -> StepReport:
        """One batch: encode, relax, compose, compare, and move all weights."""
        epoch, place = divmod(self.step, self.steps_per_epoch)
        rows = self._order(epoch)[place * self.options.batch_size : (place + 1) * self.options.batch_size]
        temperature = self.temperature.at(self.step, epoch)
        vectors = self.target.vectors[rows]
        logits = self.encoder.logits(vectors)
        noise = gumbel_noise(logits, generator_for(self.options.seed, "choice", self.step, vectors.device))
        shares = torch.softmax((logits + noise) / temperature, dim=-1)
        # The sum over positions is taken in one product, so the composition gets one summed codeword per row.
        total = shares.flatten(1) @ self.composition.codebook.flatten(0, 1)
        squared = (self.composition(total[:, None]) - vectors).square().sum()
        self.optimizer.zero_grad(set_to_none=True)
        (squared / vectors.numel()).backward()
        nn.utils.clip_grad_norm_(self.weights, _MAX_GRADIENT)
        fading = 0.5 * (1 + math.cos(math.pi * self.step / self.total_steps))
        for group in self.optimizer.param_groups:
            group["lr"] = group["first_rate"] * fading
        self.optimizer.step()
        codes = logits.detach().argmax(dim=-1)
        changed = float((codes != self.codes[rows]).float().mean())
        self.codes[rows] = codes
        self.step += 1
        share = self.target.variance * len(rows) / len(self.target)
        loss = float(squared.detach()) / share if share else 0.0
        return StepReport(self.step, self.total_steps, loss, changed, temperature, self.unused)

    def _order(self, epoch: int) -> Tensor:
        if getattr(self, "_ordered_epoch", None) != epoch:
            self._ordered_epoch = epoch
            self._permutation = shuffled_rows(len(self.target), self.options.seed, epoch, self.target.vectors.device)
        return self._permutation

    def _count_unused(self, codes: Tensor) -> int:
        used = sum(len(column.unique()) for column in codes.t())
        return self.encoder.code_length * self.encoder.codebook_size - used

    @torch.no_grad()
    def _solution(self) -> BestEncoder:
        """The state as it is: hard codes of all rows, and copies of all weights."""
        codes = torch.cat([self.encoder.logits(part).argmax(-1) for part in self.target.vectors.split(CHUNK_ROWS)])
        error = self.target.error(codes, self.composition)
        return BestEncoder(error, codes, _copies(self.composition), _copies(self.encoder))

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on."""
        return {
            "step": self.step,
            "unused": self.unused,
            "codes": self.codes,
            "weights": self.composition.state_dict(),
            "encoder": self.encoder.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best": vars(self.best),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        device = self.target.vectors.device
        self.step, self.unused = state["step"], state["unused"]
        self.codes.copy_(state["codes"])
        self.composition.load_state_dict(state["weights"])
        self.encoder.load_state_dict(state["encoder"])
        self.optimizer.load_state_dict(state["optimizer"])
        best = state["best"]
        weights, encoder = ({name: value.to(device) for name, value in best[part].items()} for part in _PARTS)
        self.best = BestEncoder(best["error"], best["codes"].to(device), weights, encoder)


_PARTS = ("weights", "encoder")


def fresh_encoder(target: Target, code_length: int, codebook_size: int, seed: int) -> Encoder:
    """An encoder to learn for a target; it takes vectors in the table's own units."""
    generator = generator_for(seed, "encoder")
    encoder = Encoder(target.vectors.shape[1], code_length, codebook_size, generator=generator)
    encoder.shift.copy_(target.shift)
    encoder.scale.fill_(target.scale)
    return encoder.to(target.vectors.device)


def _weights(inputs: int, outputs: int, generator: torch.Generator | None) -> nn.Parameter:
    """(inputs, outputs) of variance 1/inputs: values of inputs with variance 1 have variance 1 too."""
    return nn.Parameter(torch.empty(inputs, outputs).normal_(0, inputs**-0.5, generator=generator))


def _copies(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}
