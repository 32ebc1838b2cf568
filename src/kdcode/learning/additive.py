"""The additive learner: codes of sums of codewords, found by cooling.

Rounds alternate between codes for given codewords (`SumSearch`) and codewords for given codes (`solve_codewords`).
Plain descent ends soon and high, wherever it starts. So codes are drawn at a temperature instead: hot at first, until
nothing is left of the start, then cooler in small steps, while codewords follow. The scale of temperatures follows
from the table: rate-distortion theory has it that the best codes lower a row's squared error by 2θ for every nat that
they are longer, where θ is the error that is left in a direction (the water level). Around T = 2θ codes freeze.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kdcode.budget import CodeShape
from kdcode.composition import Block
from kdcode.learning.beam import encode_sums
from kdcode.learning.code_search import SumSearch
from kdcode.learning.composition import CompositionModule, SideBySideComposition
from kdcode.learning.kmeans import code_type
from kdcode.learning.learner import Best
from kdcode.learning.least_squares import solve_codewords
from kdcode.learning.progress import StepReport
from kdcode.learning.randomness import generator_for
from kdcode.learning.run import Run
from kdcode.learning.starts import Start
from kdcode.learning.target import CHUNK_ROWS, Target
from kdcode.options import CompressOptions

_BEAM, _SHORT = 5, 8
"""Partial codes that a beam keeps, and positions of a sum for which it finds good codes."""
_HOT, _WARM, _COLD = 2.8, 1.0, 0.4
"""Where cooling starts, from codes that say nothing or from good ones, and where it ends, when codes hardly change."""
_WARM_SWEEPS = 2
_PERFECT = 1e-12
"""An error that is nothing but rounding: there is no reason to go on."""
_LEVEL_ROWS = 1 << 16
_FEW_STEPS = 4
"""Of the least squares, where the next round changes the codes anyway."""


class Round(NamedTuple):
    """One search and one solve.

    Args:
        temperatures: of the sweeps, in units of the table's critical temperature 2θ; inf draws codes evenly.
        beam: partial codes kept per row, where a beam looks for codes in place of the sweeps; else 0. A row takes
            what it finds only where that is nearer.
        keep_better: whether a row takes a new code of the sweeps only where that is nearer.
        steps: of the least squares; None solves them exactly.
    """

    temperatures: tuple[float, ...] = ()
    beam: int = 0
    keep_better: bool = False
    steps: int | None = _FEW_STEPS


@dataclass(frozen=True)
class Effort:
    """How long to search: first from the start, warming it up a little, then from codes that say nothing.

    The second is better where it has time to cool, the first where codes are long. The better of the two is kept.

    Args:
        warm: rounds in which codes of the start cool down. Where codes are so short that a beam finds good ones, there
            are none of them.
        cooling: rounds in which codes that are drawn anew cool down.
        sweeps: visits to every position in such a round.
    """

    warm: int = 0
    cooling: int = 0
    sweeps: int = 2

    def rounds(self, shape: CodeShape) -> list[Round]:
        """Look for codes by a beam, which tells the table's scale; then cool down and descend, once or twice."""
        closing = Round((0.0,) * 4, keep_better=True, steps=None)
        planned = [Round(beam=_BEAM)]
        if self.warm and not _is_short_sum(shape):
            planned += [*_cooled(_WARM, self.warm, _WARM_SWEEPS), closing, closing]
        if self.cooling:
            planned += [Round((math.inf,)), *_cooled(_HOT, self.cooling, self.sweeps), closing, closing]
        return planned


def _is_short_sum(shape: CodeShape) -> bool:
    plain = shape.composition == "linear" and shape.codeword_dim == shape.embedding_dim and not shape.shared
    return plain and shape.code_length <= _SHORT


def _cooled(hot: float, rounds: int, sweeps: int) -> list[Round]:
    steps = [number / max(1, rounds - 1) for number in range(rounds)]
    return [Round((hot + (_COLD - hot) * step,) * sweeps) for step in steps]


EFFORTS = {
    "fast": Effort(warm=4),
    "normal": Effort(warm=4, cooling=60, sweeps=3),
    "best": Effort(warm=4, cooling=200, sweeps=4),
}
"""The efforts that options name."""


class AdditiveLearner:
    """Learns the codes of a table for a composition that is a sum, or sums side by side.

    Args:
        target: what to approximate.
        start: where to start; its composition is changed in place.
        options: the effort and the seed.
        effort: in place of the options'.
    """

    def __init__(self, target: Target, start: Start, options: CompressOptions, effort: Effort | None = None) -> None:
        self.target = target
        self.composition = start.composition
        self.codes = start.codes.to(code_type(start.composition.shape.codebook_size))
        self.seed = options.seed
        self.rounds = (effort or EFFORTS[options.effort]).rounds(start.composition.shape)
        self.blocks = blocks_of(start.composition)
        self.critical = [0.0] * len(self.blocks)
        self.done = 0
        self._take_principal_basis()
        self.best = self._solution(self._error())

    def run(self, run: Run, stage: int = 0) -> Best:
        """Learn to the end, from the run's checkpoint where it was written in this stage."""
        state = run.begin(stage)
        if state is not None:
            self.load_state(state)
        while self.done < len(self.rounds) and self.best.error > _PERFECT:
            run.after_step(self._round(), self.state)
        self.composition.load_state_dict(self.best.weights)
        return self.best

    @torch.no_grad()
    def _round(self) -> StepReport:
        """Search, solve, measure, and keep what is the best so far."""
        planned = self.rounds[self.done]
        before = self.codes
        vectors = self._vectors()
        if any(planned.temperatures) and not any(self.critical):
            self.critical = [self._critical_of(block, vectors[:, block.columns]) for block in self.blocks]
        found = [self._improve(block, vectors[:, block.columns], planned) for block in self.blocks]
        self.codes = found[0] if len(found) == 1 else torch.cat(found, dim=1)
        del found
        self._turn_basis()
        self.done += 1
        error = self._error()
        if error <= self.best.error:
            self.best = self._solution(error)
        changed = int(torch.count_nonzero(before != self.codes)) / before.numel()
        size = self.composition.shape.codebook_size
        used = sum(int((torch.bincount(column, minlength=size) > 0).sum()) for column in self.codes.t())
        return StepReport(
            self.done,
            len(self.rounds),
            error,
            changed,
            max(planned.temperatures, default=0.0),
            self.codes.shape[1] * size - used,
        )

    def _improve(self, block: Block, vectors: Tensor, planned: Round) -> Tensor:
        """Give a block better codes, which are returned, and codewords that suit them, in place."""
        words = self._words(block)
        found = self._search(block, vectors, planned)
        solved = solve_codewords(
            vectors,
            found,
            words.contiguous(),
            self.target.weights,
            steps=planned.steps,
            shared=self.composition.shape.shared,
        )
        words.copy_(solved)
        return found

    def _search(self, block: Block, vectors: Tensor, planned: Round) -> Tensor:
        """(N, positions) codes of a block."""
        place = self.blocks.index(block)
        number = self.done * len(self.blocks) + place
        part = self.codes[:, block.positions].contiguous()
        words = self._words(block).contiguous()
        if math.inf in planned.temperatures:
            drawn = torch.randint(words.shape[1], part.shape, generator=generator_for(self.seed, "melt", number))
            return drawn.to(part)
        if planned.beam:
            return encode_sums(vectors, words, beam=planned.beam, before=part)
        heats = [heat * self.critical[place] for heat in planned.temperatures]
        search = SumSearch(words)
        return search.improve(vectors, part, heats, seed=self.seed, number=number, keep_better=planned.keep_better)

    def _critical_of(self, block: Block, vectors: Tensor) -> float:
        """The critical temperature 2θ, of the error so far."""
        weights = (
            torch.ones(len(vectors), device=vectors.device) if self.target.weights is None else self.target.weights
        )
        some = slice(None, None, -(-len(vectors) // _LEVEL_ROWS))
        sample, counted = vectors[some], weights[some]
        spectrum = torch.linalg.eigvalsh((sample.t() @ (sample * counted[:, None]) / counted.sum()).double())
        codes = self.codes[:, block.positions]
        search = SumSearch(self._words(block).contiguous())
        parts = zip(vectors.split(CHUNK_ROWS), codes.split(CHUNK_ROWS), weights.split(CHUNK_ROWS), strict=True)
        total = sum(float(search.distances(part, code) @ weight) for part, code, weight in parts)
        return 2 * water_level(spectrum, total / float(weights.sum()))

    def _words(self, block: Block) -> Tensor:
        return self.composition.codebook.detach()[block.positions, :, : block.width]

    def _vectors(self) -> Tensor:
        """(N, e): the table in the coordinates in which codewords add up."""
        basis = self._basis
        return self.target.vectors if basis is None else self.target.vectors @ basis.t()

    @property
    def _basis(self) -> Tensor | None:
        """(e, d) the rows, orthonormal, that codewords of e numbers are coordinates in; None where that is all of d."""
        basis = self.composition.basis
        return None if basis is None else basis.detach()

    @torch.no_grad()
    def _take_principal_basis(self) -> None:
        """Turn an H of any kind into the table's strongest directions, and codewords with it."""
        basis = self._basis
        if basis is None or isinstance(self.composition, SideBySideComposition):
            return
        sample = self.target.vectors[:: -(-len(self.target) // _LEVEL_ROWS)]
        strongest = torch.linalg.eigh(sample.t() @ sample).eigenvectors[:, -len(basis) :].t()
        self.composition.codebook.copy_(self.composition.codebook @ (basis @ strongest.t()))
        basis.copy_(strongest)

    def _turn_basis(self) -> None:
        """The orthonormal basis that is the best for codes and codewords as they are (Procrustes)."""
        basis = self._basis
        if basis is None:
            return
        meeting = torch.zeros_like(basis)
        for start in range(0, len(self.codes), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            sums = self.composition.compose(self.codes[part]) @ basis.t()
            if self.target.weights is not None:
                sums *= self.target.weights[part, None]
            meeting += sums.t() @ self.target.vectors[part]
        left, _, right = torch.linalg.svd(meeting, full_matrices=False)
        basis.copy_(left @ right)

    def _error(self) -> float:
        return self.target.error(self.codes, self.composition)

    def _solution(self, error: float) -> Best:
        weights = {name: value.detach().clone() for name, value in self.composition.state_dict().items()}
        return Best(error, self.codes, weights)  # a round makes new codes, and leaves these as they are

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on."""
        return {
            "done": self.done,
            "codes": self.codes,
            "weights": self.composition.state_dict(),
            "critical": self.critical,
            "best": {"error": self.best.error, "codes": self.best.codes, "weights": self.best.weights},
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave."""
        device = self.target.vectors.device
        self.done = state["done"]
        self.codes = state["codes"].to(device)
        self.composition.load_state_dict(state["weights"])
        self.critical = state["critical"]
        best = state["best"]
        weights = {name: value.to(device) for name, value in best["weights"].items()}
        self.best = Best(best["error"], best["codes"].to(device), weights)


def blocks_of(composition: CompositionModule) -> list[Block]:
    """The sums that a composition consists of."""
    shape = composition.shape
    if isinstance(composition, SideBySideComposition):
        return composition.blocks
    return [Block(slice(0, shape.code_length), slice(0, shape.codeword_dim))]


def water_level(spectrum: Tensor, error: float) -> float:
    """The θ with Σ min(θ, λ) = error over the (d,) eigenvalues λ of a table's covariance."""
    low, high = 0.0, float(spectrum.max())
    for _ in range(60):
        middle = (low + high) / 2
        if float(spectrum.clamp(0, middle).sum()) < error:
            low = middle
        else:
            high = middle
    return high
