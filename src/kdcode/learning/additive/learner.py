"""AdditiveLearner: rounds that alternate between codes for given codewords and codewords for given codes."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from kdcode.arrays import CHUNK_ROWS
from kdcode.codec.codeword_spec import Block
from kdcode.codec_torch import BlockSumModule
from kdcode.codec_torch.beam_search import encode_sums
from kdcode.codec_torch.icm import SumSearch
from kdcode.codec_torch.lookup import code_dtype
from kdcode.codec_torch.nearest import nearest_labels
from kdcode.codec_torch.parallel import parallel_chunks
from kdcode.codec_torch.randomness import generator_for
from kdcode.errors import OptionError
from kdcode.learning.additive.annealing import Round, RoundPlan, water_level
from kdcode.learning.additive.basis import coordinates, principal_basis, procrustes
from kdcode.learning.linalg.kmeans import CentroidSums, centroid_sums, moved_centroids
from kdcode.learning.linalg.least_squares import solve_codewords
from kdcode.learning.linalg.principal import principal_directions
from kdcode.learning.progress import StepReport
from kdcode.learning.run import Resumable, Run, State
from kdcode.learning.solution import Best, Start, unused_codewords
from kdcode.learning.training_table import TrainingTable

_PERFECT = 1e-12
"""An error that is nothing but rounding: there is no reason to go on."""
_SPECTRUM_ROWS = 1 << 16


class AdditiveLearner(Resumable):
    """Learns the codes of a table for a codec that adds codewords, in one block or in several.

    Args:
        training: what to approximate.
        start: where to start; its module is changed in place.
        schedule: how long to search.
        seed: of everything random.
    """

    saved: ClassVar[tuple[str, ...]] = ("done", "codes", "module", "critical", "best")

    def __init__(self, training: TrainingTable, start: Start, schedule: RoundPlan, seed: int) -> None:
        if not isinstance(start.module, BlockSumModule):
            raise OptionError("the additive learner is for sums of codewords")
        self.training = training
        self.ranks = training.ranks
        self.device = training.vectors.device
        self.module = start.module
        self.spec = start.module.spec
        self.codes = start.codes.to(code_dtype(self.spec.codebook_size))
        self.seed = seed
        self.rounds = schedule.plan(self.spec)
        self.critical = [0.0] * len(self.spec.blocks)
        self.done = 0
        if not self.spec.is_rotated:
            principal_basis(training, self.module)  # its rows are orthonormal from here on
        self.best = Best.of(self._error(), self.codes, self.module)

    def run(self, run: Run, stage: int = 0) -> Best:
        """Learn to the end, from the run's checkpoint where it was written in this stage."""
        run.begin(stage, self._resume, self.by_row)
        while self.done < len(self.rounds):
            run.after_step(self._round(), self.state)
        self.module.load_state_dict(self.best.weights)
        return self.best

    def _resume(self, state: State) -> int:
        self.load_state(state)
        return self.done

    @torch.no_grad()
    def _round(self) -> StepReport:
        """Search, update codewords and basis, measure, and keep what is the best so far."""
        planned = self.rounds[self.done]
        before = self.codes
        vectors = coordinates(self.training.vectors, self.module)
        if (any(planned.temperatures) or planned.noise) and not any(self.critical):
            self.critical = [self._critical_temperature(block, vectors[:, block.columns]) for block in self.spec.blocks]
        is_product = self._is_product_step(planned)
        self.codes = self._product_codes(vectors, planned) if is_product else self._sums(vectors, planned)
        procrustes(self.training, self.codes, self.module)
        self.ranks.agree(list(self.module.parameters()))
        error = self._error()
        if error <= self.best.error:
            self.best = Best.of(error, self.codes, self.module)  # a round makes new codes, and leaves these alone
        self.done = len(self.rounds) if self.best.error <= _PERFECT else self.done + 1
        positions = self.training.share.total * self.spec.code_length
        changed = self.ranks.total(int(torch.count_nonzero(before != self.codes))) / positions
        unused = unused_codewords(self.codes, self.spec.codebook_size, self.ranks)
        temperature = max(planned.temperatures, default=0.0)
        return StepReport(self.done, len(self.rounds), error, changed, temperature, unused)

    def _is_product_step(self, planned: Round) -> bool:
        """Whether the best code of every block is one codeword, the nearest."""
        return self.spec.groups == self.spec.code_length > 1 and not any(planned.temperatures)

    def _product_codes(self, vectors: Tensor, planned: Round) -> Tensor:
        """(N, D) codes of nearest codewords, which move to the means of their rows, in place."""
        codes, weights, size = torch.empty_like(self.codes), self.training.weights, self.spec.codebook_size
        blocks = [(block, self._words(block)[0]) for block in self.spec.blocks]
        found: dict[int, CentroidSums] = {}

        def assign(number: int) -> None:
            block, words = blocks[number]
            part = vectors[:, block.columns].contiguous()
            labels = nearest_labels(self._noisy(number, part, planned), words)
            found[number] = centroid_sums(part, labels, size, weights)
            codes[:, number] = labels
            if self.ranks.is_alone:
                words.copy_(moved_centroids(part, labels, words, weights, found[number]))

        parallel_chunks(assign, range(len(blocks)), self.device)
        if not self.ranks.is_alone:  # ranks talk from one thread, block by block
            for number, (block, words) in enumerate(blocks):
                sums = CentroidSums(*self.ranks.all_sums(found[number]))
                part, labels = vectors[:, block.columns], codes[:, number].long()
                words.copy_(moved_centroids(part, labels, words, weights, sums, self.ranks))
        return codes

    def _sums(self, vectors: Tensor, planned: Round) -> Tensor:
        """(N, D) codes of all blocks, one after another."""
        blocks = enumerate(self.spec.blocks)
        found = [self._improve(number, vectors[:, block.columns], planned) for number, block in blocks]
        return found[0] if len(found) == 1 else torch.cat(found, dim=1)

    def _improve(self, number: int, vectors: Tensor, planned: Round) -> Tensor:
        """Give a block better codes, which are returned, and codewords that suit them, in place."""
        words = self._words(self.spec.blocks[number])
        found = self._search(number, vectors, planned)
        weights, ranks = self.training.weights, self.ranks
        words.copy_(solve_codewords(vectors, found, words.contiguous(), weights, steps=planned.steps, ranks=ranks))
        return found

    def _search(self, number: int, vectors: Tensor, planned: Round) -> Tensor:
        """(N, positions) codes of a block."""
        block = self.spec.blocks[number]
        call = self.done * len(self.spec.blocks) + number
        codes = self.codes[:, block.positions].contiguous()
        words = self._words(block).contiguous()
        if math.inf in planned.temperatures:
            generator, size, width = generator_for(self.seed, "draw", call), words.shape[1], codes.shape[1]
            drawn = self.training.share.drawn(lambda rows: torch.randint(size, (rows, width), generator=generator))
            return drawn.to(codes)
        if planned.noise is not None:
            found = encode_sums(self._noisy(number, vectors, planned), words, beam=planned.beam)
            return found.to(codes)
        if planned.beam:
            return encode_sums(vectors, words, beam=planned.beam, before=codes)
        search = SumSearch(words, first_row=self.training.share.first)
        if planned.descent:
            return search.icm(vectors, codes, len(planned.temperatures), seed=self.seed, number=call)
        temperatures = [temperature * self.critical[number] for temperature in planned.temperatures]
        return search.gibbs_sweeps(vectors, codes, temperatures, seed=self.seed, number=call)

    def _noisy(self, number: int, vectors: Tensor, planned: Round) -> Tensor:
        """(N, w) coordinates of a block with the noise of a round."""
        if not planned.noise:
            return vectors
        drawn, width = generator_for(self.seed, "noise", self.done * len(self.spec.blocks) + number), vectors.shape[1]
        noise = self.training.share.drawn(lambda rows: torch.randn(rows, width, generator=drawn)).to(vectors)
        return noise.mul_(math.sqrt(planned.noise * self.critical[number] / 2)).add_(vectors)

    def _critical_temperature(self, block: Block, vectors: Tensor) -> float:
        """2θ of the error so far; see `annealing`."""
        weights, share, ranks = self.training.weights, self.training.share, self.ranks
        counted = torch.ones(len(vectors), device=vectors.device) if weights is None else weights
        some = share.every(-(-share.total // _SPECTRUM_ROWS))
        spectrum = principal_directions(vectors[some], counted[some], ranks=ranks).variances
        variances = spectrum / ranks.all_sum(counted[some].sum())
        search = SumSearch(self._words(block).contiguous())
        codes = self.codes[:, block.positions]
        parts = zip(vectors.split(CHUNK_ROWS), codes.split(CHUNK_ROWS), counted.split(CHUNK_ROWS), strict=True)
        total = sum(float(search.distances(part, code) @ weight) for part, code, weight in parts)
        everywhere = ranks.total(total) / float(ranks.all_sum(counted.sum()))
        return 2 * water_level(variances.double(), everywhere)

    def _words(self, block: Block) -> Tensor:
        return self.module.codebook.detach()[block.positions, :, : block.width]

    def _error(self) -> float:
        return self.training.error(self.codes, self.module)
