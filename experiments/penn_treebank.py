"""The Penn Treebank as one stream of word numbers per part."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

END_OF_SENTENCE = "<eos>"
DATA = "folder with ptb.train.txt, ptb.valid.txt and ptb.test.txt"


@dataclass(frozen=True)
class Corpus:
    """Words, most frequent first, and the text of each part as (tokens,) int64 numbers of words."""

    words: list[str]
    train: Tensor
    valid: Tensor
    test: Tensor

    def head(self, share: float) -> Corpus:
        """The same corpus with only the first part of its training text."""
        return Corpus(self.words, self.train[: int(len(self.train) * share)], self.valid, self.test)


def read_corpus(folder: Path) -> Corpus:
    """Read `ptb.train.txt`, `ptb.valid.txt` and `ptb.test.txt`; the end of a line is one more word."""
    parts = {name: _tokens(folder / f"ptb.{name}.txt") for name in ("train", "valid", "test")}
    counts = Counter(parts["train"])
    words = sorted(counts, key=lambda word: (-counts[word], word))
    number = {word: place for place, word in enumerate(words)}
    return Corpus(words, **{name: torch.tensor([number[word] for word in text]) for name, text in parts.items()})


def made_up_corpus(words: int = 200, tokens: int = 4_000) -> Corpus:
    """A small corpus of made-up text in which every word makes a few others likely: for `--tiny` runs."""
    draw = np.random.default_rng(0)
    likely = draw.integers(words, size=(words, 4))
    text = [0]
    while len(text) < tokens:
        text.append(int(likely[text[-1], draw.integers(4)]) if draw.random() < 0.9 else int(draw.integers(words)))
    stream = torch.tensor(text)
    cut = tokens * 3 // 4, tokens * 7 // 8
    return Corpus([f"word{place}" for place in range(words)], *stream.tensor_split(cut))


def _tokens(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [word for line in lines for word in (*line.split(), END_OF_SENTENCE)]
