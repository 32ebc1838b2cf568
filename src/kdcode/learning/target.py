"""The table as learners see it: centred where the composition can give the mean back, and scaled to spread 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kdcode.budget import CodeShape
from kdcode.learning.composition import CompositionModule, SideBySideComposition
from kdcode.learning.loss import Loss, squared_distances
from kdcode.table import VectorTable

CHUNK_ROWS = 8192
"""Rows composed at a time where the whole table is measured."""


@dataclass(frozen=True, eq=False)
class Target:
    """N standardised vectors and how to undo it.

    Args:
        vectors: (N, d), (original − shift) / scale.
        shift: (d,) the table's mean, or zeros where the composition has no place for a mean.
        scale: root mean square of the table around its mean.
        variance: Σ‖v − mean‖² of the standardised vectors, what errors are relative to.
        weights: (N,) how much rows count, 1 on average; None where all count the same.
    """

    vectors: Tensor
    shift: Tensor
    scale: float
    variance: float
    weights: Tensor | None = None

    @classmethod
    def of(cls, table: VectorTable, *, centred: bool, device: torch.device | str = "cpu") -> Target:
        """Standardise a table in memory on `device`."""
        vectors = torch.empty(len(table), table.embedding_dim, device=device)
        start = 0
        for _, chunk in table.chunks(CHUNK_ROWS):
            vectors[start : start + len(chunk)] = torch.from_numpy(np.require(chunk, requirements=["C", "W"]))
            start += len(chunk)
        weights = None
        if table.weights is not None:
            weights = torch.from_numpy(table.weights / table.weights.mean(dtype=np.float64)).float().to(device)
        mean = _mean(vectors, weights)
        squared = 0.0
        for start in range(0, len(vectors), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            rows = (vectors[part].double() - mean).square().sum(dim=1)
            squared += float(rows.sum() if weights is None else rows @ weights[part].double())
        scale = (squared / vectors.numel()) ** 0.5 or 1.0
        shift = mean.float() if centred else torch.zeros_like(mean, dtype=torch.float32)
        vectors.sub_(shift).div_(scale)
        return cls(vectors, shift, scale, squared / scale**2, weights)

    def __len__(self) -> int:
        return len(self.vectors)

    @torch.no_grad()
    def row_errors(self, codes: Tensor, composition: CompositionModule, loss: Loss = squared_distances) -> Tensor:
        """(N,) losses between the vectors and what (N, D) codes compose to."""
        errors = self.vectors.new_empty(len(self))
        for start in range(0, len(self), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            errors[part] = loss(composition.compose(codes[part]), self.vectors[part])
        return errors

    def error(self, codes: Tensor, composition: CompositionModule, loss: Loss = squared_distances) -> float:
        """Relative loss of a solution, rows counted by their weight."""
        rows = self.row_errors(codes, composition, loss).double()
        squared = float(rows.sum() if self.weights is None else rows @ self.weights.double())
        if self.variance > 0:
            return squared / self.variance
        return 0.0 if squared == 0 else float("inf")

    @torch.no_grad()
    def restore(self, composition: CompositionModule) -> None:
        """Change a composition of standardised vectors, in place, into one of original vectors."""
        projection = getattr(composition, "projection", None)
        if projection is not None:
            projection.mul_(self.scale)
        elif isinstance(composition, SideBySideComposition):
            composition.codebook.mul_(self.scale)
            shift = self.shift if composition.rotation is None else composition.rotation @ self.shift
            for block in composition.blocks:
                composition.codebook[block.positions, :, : block.width] += shift[block.columns] / block.length
        else:
            composition.codebook.mul_(self.scale).add_(self.shift / composition.shape.code_length)


def _mean(vectors: Tensor, weights: Tensor | None) -> Tensor:
    """(d,) float64, of which there is never more than a chunk of rows."""
    total = torch.zeros(vectors.shape[1], dtype=torch.float64, device=vectors.device)
    for start in range(0, len(vectors), CHUNK_ROWS):
        rows = vectors[start : start + CHUNK_ROWS].double()
        total += rows.sum(dim=0) if weights is None else weights[start : start + CHUNK_ROWS].double() @ rows
    return total / (len(vectors) if weights is None else weights.sum(dtype=torch.float64))


def can_shift(shape: CodeShape) -> bool:
    """Whether a composition can give a constant vector back: by moving it into its codewords."""
    return shape.composition in ("product", "grouped") or (
        shape.composition == "linear" and shape.codeword_dim == shape.embedding_dim
    )
