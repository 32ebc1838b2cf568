"""The conventional row of Table 1, whose embedding codes are learned from: trained where a work folder lacks it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from language_model import LanguageModel, OnSteps, Recipe, Trainer, Training, start_weights, trained_table
from penn_treebank import Corpus
from torch import nn

import kdcode


class Trained(NamedTuple):
    """A model, and how its training went."""

    model: LanguageModel
    run: Training


def train_conventional(
    corpus: Corpus, recipe: Recipe, *, seed: int, folder: Path, on_steps: OnSteps | None = None
) -> Trained:
    """The model with a full table, trained to the end, or as it is kept in the folder."""
    torch.manual_seed(seed)
    words = len(corpus.words)
    model = LanguageModel(nn.Embedding(words, recipe.hidden), words, recipe)
    start_weights(model, recipe, seed)
    folder.mkdir(parents=True, exist_ok=True)
    return Trained(model, Trainer(model, recipe, folder / "conventional.pt").train(corpus, on_steps))


def conventional_table(
    corpus: Corpus, recipe: Recipe, *, seed: int, folder: Path, on_steps: OnSteps | None = None
) -> kdcode.VectorTable:
    """The embedding of that model."""
    train_conventional(corpus, recipe, seed=seed, folder=folder, on_steps=on_steps)
    return trained_table(folder / "conventional.pt", corpus)
