"""What a short fine-tune wins back: codewords trained so that the model predicts what the original predicts.

Codes stay as they are, and so does the rest of the model; one set of codewords serves the token table and the output
head. The loss is the KL divergence from the original's distributions of the next token, on training text.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import torch
from next_tokens import OriginalModel, Text
from torch import Tensor, nn

import kdcode
from kdcode.files import replacing
from kdcode.nn import KDEmbedding


class Recipe(NamedTuple):
    """How to fine-tune.

    Args:
        steps: windows of the training text, one a step.
        learning_rate: of Adam at the first step; it falls in a straight line to a tenth.
        save_every: steps between checkpoints.
    """

    steps: int = 100
    learning_rate: float = 5e-5
    save_every: int = 20


def divergence(original: OriginalModel, layer: KDEmbedding, ids: Tensor, before: Tensor) -> Tensor:
    """The mean KL divergence over a window of (length,) ids, whose states in the original are `before`, (length, d)."""
    copy = layer.weight
    with torch.no_grad():
        logs = nn.functional.log_softmax(before @ original.head.t(), dim=1)
    found = nn.functional.log_softmax(original.hidden_of(copy[ids]) @ copy.t(), dim=1)
    return nn.functional.kl_div(found, logs, reduction="batchmean", log_target=True)


def distilled(
    original: OriginalModel, coded: kdcode.CodedTable, text: Text, recipe: Recipe, checkpoint: Path
) -> tuple[kdcode.CodedTable, list[float]]:
    """The same codes with better codewords, in the same bytes, and the loss of every step.

    Args:
        original: the model.
        coded: where codewords start.
        text: what is trained on: a window a step.
        recipe: how.
        checkpoint: the file that a run is resumed from.
    """
    layer = KDEmbedding.from_coded(coded)
    optimizer = torch.optim.Adam(layer.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=recipe.steps)
    losses: list[float] = []
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        losses = state["losses"]
        for part, name in ((layer, "layer"), (optimizer, "optimizer"), (schedule, "schedule")):
            part.load_state_dict(state[name])
    states, started, first = original.hidden(text), time.perf_counter(), len(losses)
    for step in range(first, recipe.steps):
        place = step % len(text.ids)
        loss = divergence(original, layer, text.ids[place], states[place])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if len(losses) % recipe.save_every == 0 or len(losses) == recipe.steps:
            seconds = (time.perf_counter() - started) / (len(losses) - first)
            few = losses[-recipe.save_every :]
            print(f"step {len(losses)}: KL divergence {sum(few) / len(few):.4f}, {seconds:.1f} s a step", flush=True)
            state = {
                "layer": layer.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
            }
            with replacing(checkpoint) as temporary:
                torch.save({**state, "losses": losses}, temporary)
    better = layer.to_coded(codebook_dtype=coded.spec.codebook_dtype)
    return better, losses
