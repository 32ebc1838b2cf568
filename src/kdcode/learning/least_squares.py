"""The best weights for given codes: exactly for linear and product codes, by L-BFGS where there is no closed form."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.learning.composition import CompositionModule, LinearComposition, SideBySideComposition
from kdcode.learning.label_sums import label_sums
from kdcode.learning.loss import squared_distances
from kdcode.learning.side_by_side import side_by_side
from kdcode.learning.straight_through import flat_codes
from kdcode.learning.target import CHUNK_ROWS, Target

_LBFGS_ITERATIONS = 15
_MOST_EQUATIONS = 8192
"""Up to this many codewords the matrix of the normal equations is formed (256 MiB)."""
_MOST_EXACT = 4096
"""Up to this many they are solved at once, with a matrix of float64."""
_MOST_STEPS = 50
_RIDGE, _STEP_RIDGE = 1e-6, 1e-4
"""Share by which codewords are held where they are, at once and in steps. Sums stay the same where one position gives
to another what they all have in common, so that without it rounding errors would decide along such directions."""
_SUM_ROWS = 1 << 13


def solve_weights(target: Target, codes: Tensor, composition: CompositionModule) -> None:
    """Improve codewords and composition, in place, for fixed (N, D) codes."""
    if isinstance(composition, SideBySideComposition):
        _solve_blocks(target, codes, composition)
    elif isinstance(composition, LinearComposition) and composition.projection is None:
        with torch.no_grad():
            words = composition.codebook.detach()
            composition.codebook.copy_(solve_codewords(target.vectors, codes, words, target.weights))
    else:
        _lbfgs(target, codes, composition)


@torch.no_grad()
def solve_codewords(
    vectors: Tensor,
    codes: Tensor,
    words: Tensor,
    weights: Tensor | None = None,
    *,
    steps: int | None = None,
    shared: bool = False,
) -> Tensor:
    """The codewords whose sums are nearest to vectors in squared distance, for fixed codes.

    The matrix of the normal equations counts how often codewords meet. Where it would be too large, it is never
    formed, and the equations are solved by conjugate gradients.

    Args:
        vectors: (N, e) what the sums approximate.
        codes: (N, D) of any integer type.
        words: (D, K, e) codewords to start from; those that no row uses stay where they are.
        weights: (N,) of the rows; all 1 where left out.
        steps: of conjugate gradients, a few of which go most of the way; None goes all of it.
        shared: whether all positions have the same codewords, and are to keep the same.

    Returns:
        (D, K, e) codewords.
    """
    length, size, _ = words.shape

    def composed(values: Tensor, part: slice) -> Tensor:
        return F.embedding_bag(flat_codes(codes[part], size), values, mode="sum")

    def tied(values: Tensor) -> Tensor:
        """(D·K, …) values of codewords, or (K, …) where positions share them."""
        return values.view(length, size, *values.shape[1:]).sum(dim=0) if shared else values

    def untied(change: Tensor) -> Tensor:
        return change.repeat(length, 1) if shared else change

    flat = words.flatten(0, 1)
    slope = tied(_sums_by_codeword(lambda part: vectors[part] - composed(flat, part), codes, words.shape, weights))
    if length * size <= _MOST_EQUATIONS:
        counts = tied(tied(_pair_counts(codes, size, weights)).t())
        if steps is None and length * size <= _MOST_EXACT:
            return words + untied(_solve_exactly(counts, slope)).view_as(words)
        counts = counts.float()
        used = counts.diagonal()

        def apply(change: Tensor) -> Tensor:
            return counts @ change
    else:
        used = tied(torch.cat([torch.bincount(column, weights, minlength=size) for column in codes.t()]).float())

        def apply(change: Tensor) -> Tensor:
            whole = untied(change)
            return tied(_sums_by_codeword(lambda part: composed(whole, part), codes, words.shape, weights))

    return words + untied(_conjugate_gradient(apply, slope, used, steps or _MOST_STEPS)).view_as(words)


def _solve_exactly(counts: Tensor, slope: Tensor) -> Tensor:
    """The change of (D·K, e) codewords, for (D·K, D·K) counts."""
    matrix = counts.double()
    used = matrix.diagonal()
    used.add_(torch.where(used > 0, _RIDGE * used, 1))
    factor = torch.linalg.cholesky(matrix)
    del matrix  # as large as the factor
    return torch.cholesky_solve(slope.double(), factor).float()


def _pair_counts(codes: Tensor, size: int, weights: Tensor | None) -> Tensor:
    """(D·K, D·K): how many rows, by weight, use both of two codewords.

    Whole numbers are exact in float32. Sums of weights are float64: rounded, they may belong to no table at all.
    """
    length = codes.shape[1]
    exact = torch.float32 if weights is None else torch.float64
    counts = torch.zeros(length, size, length, size, dtype=exact, device=codes.device)
    pairs = [(first, second) for first in range(length) for second in range(first, length)]

    def count(pair: tuple[int, int]) -> None:
        first, second = pair
        for start in range(0, len(codes), _SUM_ROWS):
            part = slice(start, start + _SUM_ROWS)
            both = codes[part, first].long() * size + codes[part, second]
            weight = None if weights is None else weights[part].double()
            counts[first, :, second] += torch.bincount(both, weight, minlength=size * size).view(size, size)
        if first != second:
            counts[second, :, first] = counts[first, :, second].t()

    side_by_side(count, pairs, codes.device)
    return counts.view(length * size, length * size)


def _sums_by_codeword(
    rows: Callable[[slice], Tensor], codes: Tensor, shape: torch.Size, weights: Tensor | None
) -> Tensor:
    """(D·K, e): for each codeword of a (D, K, e) codebook the sum of the rows that use it, by weight.

    Rows (n, e) are asked for a part of the table at a time, so that they need not all be there at once.
    """
    sums = torch.zeros(shape, device=codes.device)
    for start in range(0, len(codes), _SUM_ROWS):
        part = slice(start, start + _SUM_ROWS)
        summed, picked = rows(part), codes[part]
        weight = None if weights is None else weights[part]
        for position in range(len(sums)):
            sums[position] += label_sums(summed, picked[:, position], shape[1], weight)
    return sums.flatten(0, 1)


def _conjugate_gradient(apply: Callable[[Tensor], Tensor], slope: Tensor, diagonal: Tensor, steps: int) -> Tensor:
    """Solve A s = slope for (n, e) columns, each with step sizes of its own, preconditioned by A's (n,) diagonal."""
    scale = torch.where(diagonal > 0, 1 / diagonal.clamp_min(1e-30), 0)[:, None]
    step = torch.zeros_like(slope)
    residual = slope.clone()
    scaled = scale * residual
    direction = scaled
    power = (residual * scaled).sum(dim=0)
    first = power.sum()
    for _ in range(steps):
        if power.sum() <= 1e-10 * first:
            break
        moved = apply(direction) + _STEP_RIDGE * diagonal[:, None] * direction
        bend = (direction * moved).sum(dim=0)
        length = torch.where(bend > 0, power / bend, 0)  # rounding alone is left of a column that is solved
        step += length * direction
        residual -= length * moved
        scaled = scale * residual
        new_power = (residual * scaled).sum(dim=0)
        direction = scaled + torch.where(power > 0, new_power / power, 0) * direction
        power = new_power
    return step


def _lbfgs(target: Target, codes: Tensor, composition: CompositionModule) -> None:
    """Full-batch quasi-Newton steps on all weights, gradients added up over chunks of rows."""
    optimizer = torch.optim.LBFGS(
        composition.parameters(), max_iter=_LBFGS_ITERATIONS, history_size=10, line_search_fn="strong_wolfe"
    )

    def loss() -> float:
        optimizer.zero_grad()
        total, start = 0.0, 0
        for vectors, part in zip(target.vectors.split(CHUNK_ROWS), codes.split(CHUNK_ROWS), strict=True):
            rows = squared_distances(composition.compose(part), vectors)
            weights = None if target.weights is None else target.weights[start : start + len(part)]
            squared = (rows.sum() if weights is None else rows @ weights) / target.vectors.numel()
            squared.backward()
            total += float(squared.detach())
            start += len(part)
        return total

    optimizer.step(loss)
    optimizer.zero_grad()


@torch.no_grad()
def _solve_blocks(target: Target, codes: Tensor, composition: SideBySideComposition) -> None:
    for block in composition.blocks:
        words = composition.codebook[block.positions, :, : block.width]
        vectors, part = target.vectors[:, block.columns].contiguous(), codes[:, block.positions].contiguous()
        words.copy_(solve_codewords(vectors, part, words.contiguous(), target.weights))
