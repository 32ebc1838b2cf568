"""A shortened language-model recipe, for comparing many embeddings: a quarter of the text, four epochs.

Its perplexities are comparable with each other and with nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from language_model import SMALL_BFLOAT16, LanguageModel, Trainer, perplexity, start_weights
from penn_treebank import Corpus
from torch import nn

from kdcode.nn import KDEmbedding

SHARE_OF_TEXT = 0.25
SHORT = replace(SMALL_BFLOAT16, epochs=4, constant_epochs=2)
TINY = replace(SMALL_BFLOAT16, hidden=16, epochs=1, unroll=10, lanes=4)


def shortened_perplexity(
    codes: np.ndarray | None,
    codebook_size: int,
    corpus: Corpus,
    *,
    seed: int,
    checkpoint: Path | None = None,
    tiny: bool = False,
) -> dict[str, float]:
    """The record of a model with fixed (N, D) codes and linear composition, or with a full table for None."""
    hidden = (TINY if tiny else SHORT).hidden
    torch.manual_seed(seed)
    if codes is None:
        embedding: nn.Module = nn.Embedding(len(corpus.words), hidden)
    else:
        embedding = KDEmbedding.from_codes(torch.from_numpy(codes.astype(np.int64)), codebook_size, hidden)
    return perplexity_of(embedding, corpus, seed=seed, checkpoint=checkpoint, tiny=tiny)


def perplexity_of(
    embedding: nn.Module,
    corpus: Corpus,
    *,
    seed: int,
    checkpoint: Path | None = None,
    tiny: bool = False,
    before: Callable[[LanguageModel], None] | None = None,
) -> dict[str, float]:
    """Train a model with this embedding; `before` may change it once its first weights are drawn.

    Returns:
        `perplexity` of the test text, `train_perplexity` of what it was trained on, and `seconds`.
    """
    recipe = TINY if tiny else SHORT
    model = LanguageModel(embedding, len(corpus.words), recipe)
    start_weights(model, recipe, seed)
    if before is not None:
        before(model)
    read = corpus.head(SHARE_OF_TEXT)
    run = Trainer(model, recipe, checkpoint).train(read)
    started = time.perf_counter()
    found = {"perplexity": perplexity(model, corpus.test)}
    found["train_perplexity"] = perplexity(model, read.train, recipe.lanes)
    seconds = sum(run.seconds) + time.perf_counter() - started
    return {name: round(value, 2) for name, value in found.items()} | {"seconds": round(seconds, 1)}
