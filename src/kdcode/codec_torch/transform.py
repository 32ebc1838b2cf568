"""TransformModule: transform codes decoded by torch's operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from kdcode.codec import Transform


class TransformModule(nn.Module):
    """Decodes transform codes from unpacked integers, on any device.

    Nothing in it can be trained. Its tensors are what those of the codec stand for: a rotation takes d x d numbers.

    Args:
        codec: whose tensors are copied.
    """

    mean: Tensor
    steps: Tensor
    sides: Tensor
    centroids: Tensor | None
    rotation: Tensor | None

    def __init__(self, codec: Transform) -> None:
        super().__init__()
        self.spec = codec.spec
        self._code_length, self._most_sides = codec.spec.code_length, codec.spec.most_sides  # torch.compile reads them
        matrix = None
        if codec.matrix is not None:
            numbers, scales = codec.matrix
            matrix = numbers.astype(np.float32) * scales[:, None]
        arrays: dict[str, npt.NDArray[Any] | None] = {
            "mean": codec.stored["mean"],
            "steps": codec.stored["steps"],
            "sides": codec.side_of,
            "centroids": None if codec.centroids is None else codec.centroids.vectors,
            "rotation": matrix,
        }
        for name, array in arrays.items():  # float64 where float32 cannot hold centroids
            self.register_buffer(name, None if array is None else torch.from_numpy(np.array(array)))

    @property
    def dtype(self) -> torch.dtype:
        """The type of vectors."""
        return self.mean.dtype

    def stored_tensors(self) -> None:
        """None: there are no codewords that the core adds up."""
        return None

    def refresh(self) -> None:
        """Look at the tensors anew: nothing is kept that depends on them."""

    def decode(self, codes: Tensor) -> Tensor:
        """(n, columns) codes to (n, d) vectors."""
        codes = codes.long()
        values, classes, sides = codes[:, : self._code_length], codes[:, -2], codes[:, -1]
        size = (values + 1).bitwise_right_shift(1).to(self.dtype)  # of the multiple
        found = torch.where(values.bitwise_and(1) == 1, size, -size) + self._beside_multiples(sides)
        found = found * self.steps[classes][:, None]
        if self.centroids is not None:
            found = found + self.centroids[codes[:, self._code_length]]
        return (found if self.rotation is None else found @ self.rotation.t()) + self.mean

    def _beside_multiples(self, sides: Tensor) -> Tensor:
        """(n, d) how far from their multiples coordinates lie, in steps, as far as the (n,) sides of rows tell."""
        most = self._most_sides
        places = torch.arange(most, device=sides.device)
        counts = (sides[:, None].bitwise_right_shift(places + 1) > 0).sum(dim=1, keepdim=True)
        above = sides[:, None].bitwise_right_shift((counts - 1 - places).clamp_min(0)).bitwise_and(1)
        known = torch.where(above == 1, self.sides, -self.sides)
        known = torch.where(places < counts, known, torch.zeros_like(known))
        return nn.functional.pad(known, (0, self._code_length - most))

    def extra_repr(self) -> str:
        """The shape for printing."""
        return f"{self.spec.words}, embedding_dim={self.spec.embedding_dim}"
