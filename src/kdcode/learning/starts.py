"""Where learning of sums starts: at random as in the paper, or from residual k-means.

Residual k-means makes each codebook by k-means of what the ones before left over, as residual quantization (RQ) does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kdcode.arrays import FloatArray, IntArray
from kdcode.codec import CodewordSpec
from kdcode.codec.sum_search import SumSearch, nearest_labels
from kdcode.learning.additive.basis import principal_basis
from kdcode.learning.linalg.kmeans import ROWS_PER_CENTROID, best_kmeans
from kdcode.learning.row_share import RowShare
from kdcode.learning.solution import Start, code_dtype
from kdcode.learning.sum_model import SumModel
from kdcode.learning.training_table import TrainingTable
from kdcode.randomness import random_for
from kdcode.threads import parallel_chunks


def random_start(training: TrainingTable, spec: CodewordSpec, seed: int) -> Start:
    """Codes drawn evenly and fresh codewords; a rotation to principal directions."""
    start = fresh_start(training, spec, seed)
    if spec.is_rotated:
        principal_basis(training, start.model)
    return start


def fresh_start(training: TrainingTable, spec: CodewordSpec, seed: int) -> Start:
    """Codes drawn evenly and fresh weights, with nothing known of the table."""
    codes = drawn_codes(training.share, spec, random_for(seed, "codes"))
    return Start(codes, SumModel(spec, random_for(seed, "start")), "random")


def drawn_codes(share: RowShare, spec: CodewordSpec, random: np.random.Generator) -> IntArray:
    """(N, D) codes drawn evenly, for the rows of a share."""
    size, length, kind = spec.codebook_size, spec.code_length, code_dtype(spec.codebook_size)
    return share.drawn(lambda rows: random.integers(size, size=(rows, length), dtype=kind))


def warm_start(training: TrainingTable, spec: CodewordSpec, seed: int) -> Start:
    """Residual k-means, block by block."""
    model = SumModel(spec, random_for(seed, "start"))
    principal_basis(training, model)
    vectors = model.coordinates(training.vectors)
    codes = np.empty((len(vectors), spec.code_length), dtype=code_dtype(spec.codebook_size))
    _learn_blocks(training, vectors, model, seed)

    def choose(number: int) -> None:
        block = spec.blocks[number]
        codes[:, block.positions] = residual_codes(vectors[:, block.columns], model.words(block))

    if spec.groups == 1:
        choose(0)  # on all threads
    else:
        parallel_chunks(choose, range(spec.groups))
    return Start(codes, model, "warm")


def _learn_blocks(training: TrainingTable, vectors: FloatArray, model: SumModel, seed: int) -> None:
    """Set the codewords of all blocks by residual k-means on samples of (N, inner_dim) coordinates.

    Ranks share the blocks among them: each learns from rows of all, and hands on what it found.
    """
    spec, ranks, size = model.spec, training.ranks, model.spec.codebook_size
    if not ranks.is_alone:
        model.codebook[...] = 0
    samples: dict[int, BlockSample] = {}

    def sample(number: int) -> BlockSample:
        columns, random = spec.blocks[number].columns, random_for(seed, "k-means", number)
        return BlockSample.of(vectors[:, columns], training.weights, size, training.share, random)

    def learn(number: int) -> None:
        block = spec.blocks[number]
        found = sample(number) if ranks.is_alone else samples.pop(number)
        model.words(block)[...] = residual_codewords(found, block.length, size)

    # Ranks talk from one thread; each keeps the samples of the blocks that it learns.
    for number in range(0 if ranks.is_alone else spec.groups):
        found = sample(number)
        if number % ranks.size == ranks.rank:
            samples[number] = found
    own = range(ranks.rank, spec.groups, ranks.size)
    if len(own) == 1:
        learn(own[0])  # on all threads
    else:
        parallel_chunks(learn, own)
    if not ranks.is_alone:
        model.codebook[...] = ranks.all_sum(model.codebook.copy())


class BlockSample(NamedTuple):
    """Rows to learn codewords from, which are written on, their weights, and the generator that drew them."""

    rows: FloatArray
    weights: FloatArray | None
    random: np.random.Generator

    @classmethod
    def of(
        cls,
        vectors: FloatArray,
        weights: FloatArray | None,
        codebook_size: int,
        share: RowShare,
        random: np.random.Generator,
    ) -> BlockSample:
        """Enough rows of all ranks for K codewords, as a copy; each rank gives its own, and all get the sample."""
        most = codebook_size * ROWS_PER_CENTROID
        drawn = np.arange(share.total) if share.total <= most else random.permutation(share.total)[:most]
        counted = None if weights is None else share.fetch(weights, drawn)
        return cls(share.fetch(vectors, drawn), counted, random)


def residual_codewords(sample: BlockSample, code_length: int, codebook_size: int) -> FloatArray:
    """(D, K, d) codewords, one k-means after another on what is left of a sample."""
    residual, weights, random = sample
    books: list[FloatArray] = []
    for position in range(code_length):
        books.append(best_kmeans(residual, codebook_size, random, weights, residual=position > 0))
        residual -= books[-1][nearest_labels(residual, books[-1])]
    return np.stack(books)


def residual_codes(vectors: FloatArray, words: FloatArray) -> IntArray:
    """(N, D): the nearest of (D, K, d) codewords to each row at one position after another."""
    if len(words) == 1:
        return nearest_labels(vectors, words[0])[:, None]
    return SumSearch(words).encode(vectors, beam=1)
