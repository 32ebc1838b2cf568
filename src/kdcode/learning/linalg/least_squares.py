"""The best codewords for given codes: linear least squares, solved exactly or by conjugate gradients.

The matrix A of the normal equations counts how often codewords are used together. Where it would be too large, it is
never formed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.codec_torch.lookup import flat_codes
from kdcode.codec_torch.parallel import parallel_chunks
from kdcode.learning.linalg.kmeans import label_sums
from kdcode.learning.linalg.principal import multiply
from kdcode.learning.ranks import ALONE, Ranks

_MOST_EQUATIONS = 8192
"""Up to this many codewords the matrix of the normal equations is formed (256 MiB)."""
_MOST_EXACT = 4096
"""Up to this many the equations are solved by a Cholesky factorisation, with a matrix of float64."""
_MOST_STEPS = 50
_RIDGE, _STEP_RIDGE = 1e-6, 1e-4
"""Share by which codewords are held where they are, in the exact solution and in conjugate gradients. Sums stay the
same where one position gives to another what they all have in common; without a ridge, rounding errors would decide
along such directions."""
_SUM_ROWS = 1 << 13


@torch.no_grad()
def solve_codewords(
    vectors: Tensor,
    codes: Tensor,
    words: Tensor,
    weights: Tensor | None = None,
    *,
    steps: int | None = None,
    ranks: Ranks = ALONE,
) -> Tensor:
    """The codewords whose sums are nearest to vectors in squared distance, for fixed codes.

    Args:
        vectors: (N, e) what the sums approximate.
        codes: (N, D) of any integer type.
        words: (D, K, e) codewords to start from; those that no row uses stay where they are.
        weights: (N,) of the rows; all 1 where left out.
        steps: of conjugate gradients, a few of which go most of the way; None solves to the end.
        ranks: whose rows these are; each gives its own, with the same codewords.

    Returns:
        (D, K, e) codewords.
    """
    length, size, _ = words.shape

    def composed(values: Tensor, part: slice) -> Tensor:
        return F.embedding_bag(flat_codes(codes[part], size), values, mode="sum")

    flat = words.flatten(0, 1)
    left = _sums_by_codeword(lambda part: vectors[part] - composed(flat, part), codes, words.shape, weights)
    gradient = ranks.all_sum(left)
    if length * size <= _MOST_EQUATIONS:
        counts = ranks.all_sum(_pair_counts(codes, size, weights))
        if steps is None and length * size <= _MOST_EXACT:
            return words + _solve_exactly(counts, gradient).view_as(words)
        counts = counts.float()
        diagonal = counts.diagonal()

        def apply(change: Tensor) -> Tensor:
            return torch.from_numpy(multiply(counts.numpy(), change.numpy()))
    else:
        used = torch.cat([torch.bincount(column, weights, minlength=size) for column in codes.t()])
        diagonal = ranks.all_sum(used).float()

        def apply(change: Tensor) -> Tensor:
            sums = _sums_by_codeword(lambda part: composed(change, part), codes, words.shape, weights)
            return ranks.all_sum(sums)

    return words + _conjugate_gradients(apply, gradient, diagonal, steps or _MOST_STEPS).view_as(words)


def _solve_exactly(counts: Tensor, gradient: Tensor) -> Tensor:
    """The change of (D·K, e) codewords, for (D·K, D·K) counts."""
    matrix = counts.double()
    diagonal = matrix.diagonal()
    diagonal.add_(torch.where(diagonal > 0, _RIDGE * diagonal, 1))
    factor = torch.linalg.cholesky(matrix)
    del matrix  # as large as the factor
    return torch.cholesky_solve(gradient.double(), factor).float()


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

    parallel_chunks(count, pairs, codes.device)
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
        summed, chosen = rows(part), codes[part]
        weight = None if weights is None else weights[part]
        parallel_chunks(partial(_add_sums, sums, summed, chosen, weight), range(len(sums)), codes.device)
    return sums.flatten(0, 1)


def _add_sums(sums: Tensor, rows: Tensor, codes: Tensor, weights: Tensor | None, position: int) -> None:
    """Add (n, e) rows to the (D, K, e) sums of the codewords that (n, D) codes have at one position."""
    sums[position] += torch.from_numpy(
        label_sums(
            rows.numpy(), codes[:, position].numpy(), sums.shape[1], None if weights is None else weights.numpy()
        )
    )


def _conjugate_gradients(apply: Callable[[Tensor], Tensor], b: Tensor, diagonal: Tensor, steps: int) -> Tensor:
    """Solve A x = b for (n, e) columns, each with step sizes of its own, preconditioned by A's (n,) diagonal.

    The letters are the usual ones: residual r, preconditioned residual z, direction p, step sizes alpha and beta.
    """
    inverse = torch.where(diagonal > 0, 1 / diagonal.clamp_min(1e-30), 0)[:, None]
    x = torch.zeros_like(b)
    r = b.clone()
    z = inverse * r
    p = z
    rz = (r * z).sum(dim=0)
    first = rz.sum()
    for _ in range(steps):
        if rz.sum() <= 1e-10 * first:
            break
        ap = apply(p) + _STEP_RIDGE * diagonal[:, None] * p
        pap = (p * ap).sum(dim=0)
        alpha = torch.where(pap > 0, rz / pap, 0)  # nothing but rounding is left of a column that is solved
        x += alpha * p
        r -= alpha * ap
        z = inverse * r
        new_rz = (r * z).sum(dim=0)
        beta = torch.where(rz > 0, new_rz / rz, 0)
        p = z + beta * p
        rz = new_rz
    return x
