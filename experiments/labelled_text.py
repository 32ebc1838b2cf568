"""Labelled sentences for classifiers: TREC's question types and SST-2's sentiment, in three parts, as word numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

import experiment  # noqa: F401 - makes the benchmarks importable
import numpy as np
from task_accuracy import Sentences, padded

PADDING, UNKNOWN = 0, 1
VALID_SHARE = 10
"""One of so many training sentences is held out where a task has no validation file."""

FILES = {
    "trec": ("trec/TREC.train.all", None, "trec/TREC.test.all"),
    "sst2": ("sst2/stsa.binary.train", "sst2/stsa.binary.dev", "sst2/stsa.binary.test"),
}
Labelled = list[tuple[int, list[str]]]


@dataclass(frozen=True)
class TextTask:
    """A classification task.

    Args:
        words: the vocabulary: padding, the unknown word, the words of training, most frequent first, and words of the
            other parts of which vectors are known.
        counts: how often each occurs in training.
        classes: how many.
        train: sentences.
        valid: sentences.
        test: sentences.
    """

    words: list[str]
    counts: np.ndarray
    classes: int
    train: Sentences
    valid: Sentences
    test: Sentences


def read_task(folder: Path, name: str, known: Container[str] = ()) -> TextTask:
    """Read a task; where it has no validation file, every tenth of the shuffled training sentences is held out.

    Args:
        folder: that holds trec/ and sst2/.
        name: which of the two.
        known: words of which vectors are known: they are kept where only validation or test sentences have them.
    """
    train, valid, test = (_labelled(folder / file) if file else [] for file in FILES[name])
    if not valid:
        order = np.random.default_rng(0).permutation(len(train))
        cut = len(train) // VALID_SHARE
        valid, train = [train[place] for place in order[:cut]], [train[place] for place in order[cut:]]
    return make_task(train, valid, test, known)


def make_task(train: Labelled, valid: Labelled, test: Labelled, known: Container[str] = ()) -> TextTask:
    """A task of labelled sentences; words that are neither in training nor known become the unknown word."""
    counts = Counter(word for _, words in train for word in words)
    seen = sorted(counts, key=lambda word: (-counts[word], word))
    more = {word for part in (valid, test) for _, words in part for word in words if word in known} - counts.keys()
    vocabulary = ["<padding>", "<unknown>", *seen, *sorted(more)]
    row = {word: place for place, word in enumerate(vocabulary)}
    parts = [
        padded([[row.get(word, UNKNOWN) for word in words] for _, words in part], [label for label, _ in part])
        for part in (train, valid, test)
    ]
    uses = np.array([counts[word] for word in vocabulary], dtype=np.float64)
    return TextTask(vocabulary, uses, 1 + max(label for label, _ in train), *parts)


def made_up_task(count: int = 300) -> TextTask:
    """Sentences of words that are likelier in one of two classes: for `--tiny` runs."""
    draw = np.random.default_rng(0)
    labels = draw.integers(2, size=count)
    words = draw.integers(60, size=(count, 6)) + 40 * labels[:, None]
    sentences = [(int(label), [f"word{word}" for word in row]) for label, row in zip(labels, words, strict=True)]
    first, second = count * 6 // 10, count * 8 // 10
    return make_task(sentences[:first], sentences[first:second], sentences[second:])


def _labelled(path: Path) -> Labelled:
    lines = [line.lower().split() for line in path.read_text(encoding="latin-1").splitlines()]
    return [(int(words[0]), words[1:]) for words in lines]
