"""AdditiveLearner: rounds that alternate between codes for given codewords and codewords for given codes."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from kdcode.arrays import CHUNK_ROWS, FloatArray, IntArray
from kdcode.codec.codeword_spec import Block
from kdcode.codec.sum_search import SumSearch, nearest_labels
from kdcode.learning.additive.annealing import Round, RoundPlan, water_level
from kdcode.learning.additive.basis import principal_basis, procrustes
from kdcode.learning.linalg.kmeans import CentroidSums, centroid_sums, moved_centroids
from kdcode.learning.linalg.least_squares import solve_codewords
from kdcode.learning.linalg.principal import principal_directions
from kdcode.learning.progress import StepReport
from kdcode.learning.run import Resumable, Run, State
from kdcode.learning.solution import Best, Start, code_dtype, unused_codewords
from kdcode.learning.training_table import TrainingTable
from kdcode.randomness import random_for
from kdcode.threads import parallel_chunks

_PERFECT = 1e-12
"""An error that is nothing but rounding: there is no reason to go on."""
_SPECTRUM_ROWS = 1 << 16


class AdditiveLearner(Resumable):
    """Learns the codes of a table for a codec that adds codewords, in one block or in several.

    Args:
        training: what to approximate.
        start: where to start; its model is changed in place.
        schedule: how long to search.
        seed: of everything random.
    """

    saved: ClassVar[tuple[str, ...]] = ("done", "codes", "model", "critical", "best")

    def __init__(self, training: TrainingTable, start: Start, schedule: RoundPlan, seed: int) -> None:
        self.training = training
        self.ranks = training.ranks
        self.model = start.model
        self.spec = start.model.spec
        self.codes: IntArray = start.codes.astype(code_dtype(self.spec.codebook_size))
        self.seed = seed
        self.rounds = schedule.plan(self.spec)
        self.critical = [0.0] * len(self.spec.blocks)
        self.done = 0
        if not self.spec.is_rotated:
            principal_basis(training, self.model)  # its rows are orthonormal from here on
        self.best = Best.of(self._error(), self.codes, self.model)

    def run(self, run: Run, stage: int = 0) -> Best:
        """Learn to the end, from the run's checkpoint where it was written in this stage."""
        run.begin(stage, self._resume, self.by_row)
        while self.done < len(self.rounds):
            run.after_step(self._round(), self.state)
        self.model.load_state_dict(self.best.weights)
        return self.best

    def _resume(self, state: State) -> int:
        self.load_state(state)
        return self.done

    def _round(self) -> StepReport:
        """Search, update codewords and basis, measure, and keep what is the best so far."""
        planned = self.rounds[self.done]
        before = self.codes
        vectors = self.model.coordinates(self.training.vectors)
        if (any(planned.temperatures) or planned.noise) and not any(self.critical):
            self.critical = [self._critical_temperature(block, vectors[:, block.columns]) for block in self.spec.blocks]
        is_product = self._is_product_step(planned)
        self.codes = self._product_codes(vectors, planned) if is_product else self._sums(vectors, planned)
        procrustes(self.training, self.codes, self.model)
        self.ranks.agree(list(self.model.weights.values()))
        error = self._error()
        if error <= self.best.error:
            self.best = Best.of(error, self.codes, self.model)  # a round makes new codes, and leaves these alone
        self.done = len(self.rounds) if self.best.error <= _PERFECT else self.done + 1
        positions = self.training.share.total * self.spec.code_length
        changed = self.ranks.total(int(np.count_nonzero(before != self.codes))) / positions
        unused = unused_codewords(self.codes, self.spec.codebook_size, self.ranks)
        temperature = max(planned.temperatures, default=0.0)
        return StepReport(self.done, len(self.rounds), error, changed, temperature, unused)

    def _is_product_step(self, planned: Round) -> bool:
        """Whether the best code of every block is one codeword, the nearest."""
        return self.spec.groups == self.spec.code_length > 1 and not any(planned.temperatures)

    def _product_codes(self, vectors: FloatArray, planned: Round) -> IntArray:
        """(N, D) codes of nearest codewords, which move to the means of their rows, in place."""
        codes, weights, size = np.empty_like(self.codes), self.training.weights, self.spec.codebook_size
        blocks = [(block, self.model.words(block)[0]) for block in self.spec.blocks]
        found: dict[int, CentroidSums] = {}

        def assign(number: int) -> None:
            block, words = blocks[number]
            part = np.ascontiguousarray(vectors[:, block.columns])
            labels = nearest_labels(self._noisy(number, part, planned), words)
            found[number] = centroid_sums(part, labels, size, weights)
            codes[:, number] = labels
            if self.ranks.is_alone:
                words[...] = moved_centroids(part, labels, words, weights, found[number])

        parallel_chunks(assign, range(len(blocks)))
        if not self.ranks.is_alone:  # ranks talk from one thread, block by block
            for number, (block, words) in enumerate(blocks):
                sums = CentroidSums(*self.ranks.all_sums(found[number]))
                part = vectors[:, block.columns]
                words[...] = moved_centroids(part, codes[:, number], words, weights, sums, self.ranks)
        return codes

    def _sums(self, vectors: FloatArray, planned: Round) -> IntArray:
        """(N, D) codes of all blocks, one after another."""
        parts = [np.ascontiguousarray(vectors[:, block.columns]) for block in self.spec.blocks]
        found = [self._improve(number, part, planned) for number, part in enumerate(parts)]
        return found[0] if len(found) == 1 else np.concatenate(found, axis=1)

    def _improve(self, number: int, vectors: FloatArray, planned: Round) -> IntArray:
        """Give a block better codes, which are returned, and codewords that suit them, in place."""
        words = self.model.words(self.spec.blocks[number])
        found = self._search(number, vectors, planned)
        words[...] = solve_codewords(
            vectors, found, words, self.training.weights, steps=planned.steps, ranks=self.ranks
        )
        return found

    def _search(self, number: int, vectors: FloatArray, planned: Round) -> IntArray:
        """(N, positions) codes of a block."""
        block = self.spec.blocks[number]
        call = self.done * len(self.spec.blocks) + number
        codes, words = self.codes[:, block.positions], self.model.words(block)
        if math.inf in planned.temperatures:
            random, size, width = random_for(self.seed, "draw", call), words.shape[1], codes.shape[1]
            return self.training.share.drawn(lambda rows: random.integers(size, size=(rows, width), dtype=codes.dtype))
        search = SumSearch(words, first_row=self.training.share.first)
        if planned.noise is not None:
            return search.encode(self._noisy(number, vectors, planned), beam=planned.beam).astype(codes.dtype)
        if planned.beam:
            return search.encode(vectors, beam=planned.beam, before=codes)
        if planned.descent:
            return search.icm(vectors, codes, len(planned.temperatures), seed=self.seed, number=call)
        temperatures = [temperature * self.critical[number] for temperature in planned.temperatures]
        return search.gibbs_sweeps(vectors, codes, temperatures, seed=self.seed, number=call)

    def _noisy(self, number: int, vectors: FloatArray, planned: Round) -> FloatArray:
        """(N, w) coordinates of a block with the noise of a round."""
        if not planned.noise:
            return vectors
        random, width = random_for(self.seed, "noise", self.done * len(self.spec.blocks) + number), vectors.shape[1]
        noise = self.training.share.drawn(lambda rows: random.standard_normal((rows, width), dtype=np.float32))
        noise *= np.float32(math.sqrt(planned.noise * self.critical[number] / 2))
        noise += vectors
        return noise

    def _critical_temperature(self, block: Block, vectors: FloatArray) -> float:
        """2θ of the error so far; see `annealing`."""
        weights, share, ranks = self.training.weights, self.training.share, self.ranks
        counted = np.ones(len(vectors), dtype=np.float32) if weights is None else weights
        some = share.every(-(-share.total // _SPECTRUM_ROWS))
        spectrum = principal_directions(vectors[some], counted[some], ranks=ranks).variances
        variances = spectrum / ranks.total(float(counted[some].sum()))
        search, codes, total = SumSearch(self.model.words(block)), self.codes[:, block.positions], 0.0
        for start in range(0, len(vectors), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            total += float(search.distances(vectors[part], codes[part]) @ counted[part])
        return 2 * water_level(variances.astype(np.float64), ranks.total(total) / ranks.total(float(counted.sum())))

    def _error(self) -> float:
        return self.training.error(self.codes, self.model)
