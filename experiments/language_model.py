"""The paper's language model: two LSTM layers, trained by the public Penn Treebank recipe.

The embedding is whatever module maps word numbers to vectors. All else stays as the recipe has it, so that two runs
differ by their embedding alone.
"""

from __future__ import annotations

import ctypes
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from lstm_bfloat16 import lstm_in_bfloat16
from penn_treebank import Corpus
from shared_lstm import SharedLstmEmbedding
from torch import Tensor, nn
from torch.nn import functional as F

import kdcode
from kdcode.files import replacing
from kdcode.nn import KDEmbedding, RowAdam
from kdcode.nn.assignment import LearnedAssignment
from kdcode.nn.optimizer import ROW_RATE

State = tuple[Tensor, Tensor]
_WIDE = 512
"""From this size on, torch's own LSTM is the slower one in bfloat16."""


@dataclass(frozen=True)
class Recipe:
    """How a language model is trained.

    Args:
        hidden: size of the embedding and of both LSTM layers.
        spread: weights start uniform within ± this.
        unroll: words per step and lane.
        epochs: passes over the text.
        constant_epochs: how long the first learning rate holds.
        decay: what the rate is multiplied with after each later epoch.
        clip: largest norm of a step's gradient.
        dropout: share of numbers dropped between layers.
        lanes: how many stretches of text are read side by side.
        rate: first learning rate of SGD.
        composition_rate: first learning rate of Adam, which trains an LSTM composition; it falls as `rate` does.
        row_rate: first learning rate of the row-wise steps that train learned codes; it falls as `rate` does.
        bfloat16: whether products of the LSTM and softmax layers are computed in bfloat16 while training. Weights,
            their updates, the embedding and losses are float32 all the same, and perplexities are measured in float32.
    """

    hidden: int
    spread: float
    unroll: int
    epochs: int
    constant_epochs: int
    decay: float
    clip: float
    dropout: float = 0.0
    lanes: int = 20
    rate: float = 1.0
    composition_rate: float = 1e-3
    row_rate: float = ROW_RATE
    bfloat16: bool = False

    def rate_factor(self, epoch: int) -> float:
        """What learning rates are multiplied with in an epoch, counted from 0."""
        return self.decay ** max(0, epoch + 1 - self.constant_epochs)


SMALL = Recipe(hidden=200, spread=0.1, unroll=20, epochs=13, constant_epochs=4, decay=0.5, clip=5.0)
SMALL_BFLOAT16 = replace(SMALL, bfloat16=True)
LARGE = Recipe(
    hidden=1500, spread=0.04, unroll=35, epochs=55, constant_epochs=14, decay=1 / 1.15, clip=10.0, dropout=0.65
)
LARGE_SHORTENED = replace(LARGE, epochs=7, constant_epochs=2, decay=1.15 ** (-41 / 5), bfloat16=True)
"""An eighth of the large model's epochs. As in the whole recipe, a quarter of them have the first rate, and the last
one has 1.15^-41 of it."""


class LanguageModel(nn.Module):
    """Embedding, two LSTM layers and an untied softmax layer, with dropout between them.

    Args:
        embedding: (unroll, lanes) word numbers to (unroll, lanes, hidden) vectors.
        num_words: size of the vocabulary.
        recipe: sizes and dropout.
    """

    def __init__(self, embedding: nn.Module, num_words: int, recipe: Recipe) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.LSTM(recipe.hidden, recipe.hidden, num_layers=2, dropout=recipe.dropout)
        self.output = nn.Linear(recipe.hidden, num_words)
        self.dropout = nn.Dropout(recipe.dropout)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.output.weight.device

    def forward(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """(unroll, lanes) words to (unroll · lanes, num_words) logits of the next ones, and the state after them."""
        hidden, state = self.layers(self.dropout(self.embedding(words)), state)
        return self.output(self.dropout(hidden).flatten(0, 1)), state

    def loss(self, words: Tensor, targets: Tensor, state: State | None, *, bfloat16: bool) -> tuple[Tensor, State]:
        """Summed cross-entropy of (unroll, lanes) targets, and the state after them, for training."""
        vectors = self.dropout(self.embedding(words))
        with torch.autocast(words.device.type, torch.bfloat16, enabled=bfloat16):
            if bfloat16 and self.layers.hidden_size >= _WIDE and words.device.type == "cpu":
                hidden, state = lstm_in_bfloat16(self.layers, vectors, state)
            else:
                hidden, state = self.layers(vectors, state)
            logits = self.output(self.dropout(hidden).flatten(0, 1))
        loss = F.cross_entropy(logits.float(), targets.flatten(), reduction="sum")
        return loss, (state[0].float(), state[1].float())


@dataclass
class Training:
    """Where a training run stands: what a checkpoint holds beside the weights.

    Args:
        epoch: epochs that are done.
        valid_perplexity: after each of them.
        train_perplexity: while learning in each of them, with dropout.
        seconds: of each of them, what came before a resume included, with those of measuring the valid perplexity.
        losses: mean loss per word of every step of the epoch that is under way, or of the last one.
        seconds_so_far: of the epoch that is under way.
    """

    epoch: int = 0
    valid_perplexity: list[float] = field(default_factory=list)
    train_perplexity: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    seconds_so_far: float = 0.0


OnSteps = Callable[[Training, int, int], None]
"""Called after every step with the state of the run, steps done in this epoch and steps of an epoch."""


def start_weights(model: LanguageModel, recipe: Recipe, seed: int) -> None:
    """Draw all weights uniform within ± spread, as the recipe does, but those of an LSTM composition.

    Differs from the paper, which says nothing of it: an LSTM composition starts with small codewords, which leave its
    gates half open, and with vectors as large as those of a linear composition. It learns quicker so: LOG.md.
    """
    draw = torch.Generator().manual_seed(seed)
    uniform, own, _ = _by_optimizer(model)
    with torch.no_grad():
        for weight in uniform:
            weight.copy_(torch.rand(weight.shape, generator=draw) * 2 * recipe.spread - recipe.spread)
        if isinstance(model.embedding, SharedLstmEmbedding):
            length = model.embedding.codes.shape[1]
            model.embedding.start(draw, recipe.spread * (length / 3) ** 0.5)
        elif own:
            codec = model.embedding.codec
            codec.reset_parameters(draw)
            codec.codebook.mul_(0.1)
            spread_of_sum = recipe.spread * (codec.spec.code_length / 3) ** 0.5
            codec.basis.mul_(spread_of_sum / model.embedding.weight.std())


class Trainer:
    """Trains a model by the recipe, in place, on the device that it is on.

    Args:
        model: with its first weights.
        recipe: how.
        checkpoint: written after every epoch and every few minutes; a trainer that finds one goes on from it, to the
            same weights.
        penalty: (unroll, lanes) words to a loss that is added to that of the next words, in training alone.
    """

    save_seconds = 180.0
    """How long to go on until the next checkpoint within an epoch."""

    def __init__(
        self,
        model: LanguageModel,
        recipe: Recipe,
        checkpoint: Path | None = None,
        penalty: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.model, self.recipe, self.checkpoint, self.penalty = model, recipe, checkpoint, penalty
        self.by_sgd, by_adam, rows = _by_optimizer(model)
        self.optimizers: dict[torch.optim.Optimizer, float] = {torch.optim.SGD(self.by_sgd): recipe.rate}
        if by_adam:
            self.optimizers[torch.optim.Adam(by_adam)] = recipe.composition_rate
        if rows:
            self.optimizers[RowAdam([{"params": rows, "row_wise": True}])] = recipe.row_rate
        self.run = Training()
        self._state: State | None = None
        self._saved_at = time.perf_counter()
        if checkpoint is not None and checkpoint.exists():
            self._resume(checkpoint)

    @property
    def losses(self) -> list[float]:
        """Mean loss per word of every step of the epoch."""
        return self.run.losses

    def train(self, corpus: Corpus, on_steps: OnSteps | None = None, max_steps: int | None = None) -> Training:
        """All epochs that are left, each of at most `max_steps` steps; what was measured in each."""
        text = in_lanes(corpus.train, self.recipe.lanes).to(self.model.device)
        steps = min((len(text) - 1) // self.recipe.unroll, max_steps or len(text))
        while self.run.epoch < self.recipe.epochs:
            for optimizer, rate in self.optimizers.items():
                optimizer.param_groups[0]["lr"] = rate * self.recipe.rate_factor(self.run.epoch)
            if self._state is None:  # else an epoch goes on
                torch.manual_seed(self.run.epoch)
                self.run.losses, self.run.seconds_so_far = [], 0.0
            self._epoch(text, steps, on_steps)
            started = time.perf_counter()
            self.run.train_perplexity.append(math.exp(sum(self.losses) / steps))
            self.run.valid_perplexity.append(perplexity(self.model, corpus.valid, self.recipe.lanes))
            self.run.seconds.append(self.run.seconds_so_far + time.perf_counter() - started)
            self.run.epoch += 1
            self._state = None
            self._save()
        return self.run

    def _epoch(self, text: Tensor, steps: int, on_steps: OnSteps | None) -> None:
        """The steps that are left of one pass over (length, lanes) text."""
        self.model.train()
        unroll = self.recipe.unroll
        started = time.perf_counter() - self.run.seconds_so_far
        for step in range(len(self.losses), steps):
            begin = step * unroll
            words, targets = text[begin : begin + unroll], text[begin + 1 : begin + unroll + 1]
            loss, self._state = self._step(words, targets, self._state)
            self.losses.append(loss / unroll)
            self.run.seconds_so_far = time.perf_counter() - started
            if time.perf_counter() - self._saved_at > self.save_seconds:
                self._save()
            if on_steps:
                on_steps(self.run, step + 1, steps)

    def _step(self, words: Tensor, targets: Tensor, state: State | None) -> tuple[float, State]:
        loss, (hidden, memory) = self.model.loss(words, targets, state, bfloat16=self.recipe.bfloat16)
        loss = loss / self.recipe.lanes
        self.model.zero_grad()
        (loss if self.penalty is None else loss + self.penalty(words)).backward()
        nn.utils.clip_grad_norm_(self.by_sgd, self.recipe.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        return float(loss.detach()), (hidden.detach(), memory.detach())

    def _save(self) -> None:
        self._saved_at = time.perf_counter()
        if self.checkpoint is None:
            return
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "run": vars(self.run),
            "state": self._state,
            "draws": torch.get_rng_state(),
        }
        with replacing(self.checkpoint) as temporary:
            torch.save(state, temporary)

    def _resume(self, path: Path) -> None:
        state = torch.load(path, weights_only=True, map_location=self.model.device)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.run, self._state = Training(**state["run"]), state["state"]
        torch.set_rng_state(state["draws"].cpu())


@torch.no_grad()
def perplexity(model: LanguageModel, tokens: Tensor, lanes: int = 1, unroll: int = 200) -> float:
    """Perplexity of a text read in some lanes side by side; every word but the first of a lane is predicted."""
    model.eval()
    text = in_lanes(tokens, lanes).to(model.device)
    state, total = None, 0.0
    for words, targets in zip(text[:-1].split(unroll), text[1:].split(unroll), strict=True):
        logits, state = model(words, state)
        total += float(F.cross_entropy(logits, targets.flatten(), reduction="sum"))
    return math.exp(total / text[1:].numel())


def trained_table(conventional: Path, corpus: Corpus) -> kdcode.VectorTable:
    """The embedding table of a language model, from the checkpoint of `ptb_perplexity.py`'s conventional row."""
    state = torch.load(conventional, weights_only=True, map_location="cpu")
    return kdcode.VectorTable(corpus.words, state["model"]["embedding.weight"].numpy())


def in_lanes(tokens: Tensor, lanes: int) -> Tensor:
    """(length, lanes): the text cut into equal stretches that are read side by side; a rest is left out."""
    length = len(tokens) // lanes
    return tokens[: length * lanes].reshape(lanes, length).t().contiguous()


def keep_freed_memory() -> None:
    """Ask the C library to keep freed memory: handing back each step's logits and fetching them anew takes time."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD, at its largest
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD


def _by_optimizer(model: LanguageModel) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The weights that the recipe's SGD trains, those of an LSTM composition, and the tables of learned codes.

    Differs from the paper, which says nothing of it: with SGD at rate 1 and one clipping for all, the gates of the
    composition saturate within a hundred steps and the model stays at the level of word frequencies.
    """
    own: list[Tensor] = []
    rows: list[Tensor] = []
    for layer in model.embedding.modules():
        if isinstance(layer, SharedLstmEmbedding):
            own += [weight for weight in layer.parameters() if weight.requires_grad]
        if isinstance(layer, KDEmbedding):
            own += layer.codec.parameters() if layer.codec.spec.composition == "lstm" else []
            rows += [layer.assignment.rows.weight] if isinstance(layer.assignment, LearnedAssignment) else []
    taken = {*own, *rows}
    others = [weight for weight in model.parameters() if weight.requires_grad and weight not in taken]
    return others, own, rows
