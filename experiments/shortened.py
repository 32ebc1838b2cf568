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
from language_model import SMALL, LanguageModel, Trainer, perplexity, start_weights
from penn_treebank import Corpus
from torch import nn

from kdcode.nn import KDEmbedding

SHARE_OF_TEXT = 0.25
SHORT = replace(SMALL, epochs=4, constant_epochs=2)
TINY = replace(SMALL, hidden=16, epochs=1, unroll=10, lanes=4)


def measured(train: Callable[[], float]) -> dict[str, float]:
    """The record of a shortened run: its perplexity and its seconds."""
    started = time.perf_counter()
    return {"perplexity": round(train(), 2), "seconds": round(time.perf_counter() - started, 1)}


def shortened_perplexity(
    codes: np.ndarray | None,
    codebook_size: int,
    corpus: Corpus,
    *,
    seed: int,
    checkpoint: Path | None = None,
    tiny: bool = False,
) -> float:
    """Test perplexity with fixed (N, D) codes and linear composition, or with a full table where `codes` is None."""
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
) -> float:
    """Test perplexity of a model with this embedding; `before` may change it once its first weights are drawn."""
    recipe = TINY if tiny else SHORT
    model = LanguageModel(embedding, len(corpus.words), recipe)
    start_weights(model, recipe, seed)
    if before is not None:
        before(model)
    Trainer(model, recipe, checkpoint).train(corpus.head(SHARE_OF_TEXT))
    return perplexity(model, corpus.test)
