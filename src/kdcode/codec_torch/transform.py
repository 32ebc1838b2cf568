"""TransformModule: transform codes decoded by torch's operators."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from kdcode.codec import Codec, CodecSpec, Transform, TransformSpec
from kdcode.codec_torch.module import CodecModule
from kdcode.errors import OptionError


class TransformModule(CodecModule):
    """Decodes transform codes from unpacked integers, on any device.

    Nothing in it can be trained. Its tensors are what those of the codec stand for: a rotation takes d x d numbers.

    Args:
        spec: of a transform codec.
        device: where the tensors live.
        generator: is not used, since nothing is drawn; all vectors are zero at first.
    """

    mean: Tensor
    steps: Tensor
    sides: Tensor
    centroids: Tensor | None
    rotation: Tensor | None

    def __init__(
        self,
        spec: CodecSpec,
        *,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        nn.Module.__init__(self)
        if not isinstance(spec, TransformSpec):
            raise TypeError(f"expected the spec of a transform codec, got {type(spec).__name__}")
        self.spec: TransformSpec = spec
        self._most_sides = spec.most_sides  # plain values, for graphs that are compiled
        self.basis = None
        self.register_buffer("scale_levels", None)
        dim = spec.embedding_dim
        for name, size in (("mean", dim), ("steps", spec.classes), ("sides", spec.most_sides)):
            self.register_buffer(name, torch.zeros(size, device=device))
        self.register_buffer("centroids", torch.zeros(spec.centroids, dim, device=device) if spec.centroids else None)
        self.register_buffer("rotation", torch.zeros(dim, dim, device=device) if spec.reflections else None)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Nothing: there are no weights to draw."""

    @property
    def dtype(self) -> torch.dtype:
        """The type of vectors."""
        return self.mean.dtype

    def stored_tensors(self) -> None:
        """None: there are no codewords that the core adds up."""
        return None

    def compose(self, codes: Tensor) -> Tensor:
        """(n, columns) codes to (n, d) vectors."""
        codes = codes.long()
        values, classes, sides = codes[:, : self.spec.code_length], codes[:, -2], codes[:, -1]
        size = (values + 1).bitwise_right_shift(1).to(self.dtype)  # of the multiple
        found = torch.where(values.bitwise_and(1) == 1, size, -size) + self._beside_multiples(sides)
        found = found * self.steps[classes][:, None]
        if self.centroids is not None:
            found = found + self.centroids[codes[:, self.spec.code_length]]
        return (found if self.rotation is None else found @ self.rotation.t()) + self.mean

    def _beside_multiples(self, sides: Tensor) -> Tensor:
        """(n, d) how far from their multiples coordinates lie, in steps, as far as the (n,) sides of rows tell."""
        most = self._most_sides
        places = torch.arange(most, device=sides.device)
        counts = (sides[:, None].bitwise_right_shift(places + 1) > 0).sum(dim=1, keepdim=True)
        above = sides[:, None].bitwise_right_shift((counts - 1 - places).clamp_min(0)).bitwise_and(1)
        known = torch.where(above == 1, self.sides, -self.sides)
        known = torch.where(places < counts, known, torch.zeros_like(known))
        return nn.functional.pad(known, (0, self.spec.code_length - most))

    def to_codec(self, codebook_dtype: str | None = None) -> NoReturn:
        """There is no way back: the tensors of a transform codec are not those of this module."""
        raise OptionError("a transform codec has nothing that is trained, and is not made from a torch module")

    @torch.no_grad()
    def load_codec(self, codec: Codec) -> None:
        """Take over the tensors of a codec of the same shape."""
        if not isinstance(codec, Transform):
            raise TypeError(f"expected a transform codec, got {type(codec).__name__}")
        found = {"mean": codec.stored["mean"], "steps": codec.stored["steps"], "sides": codec.side_of}
        if codec.centroids is not None:
            found["centroids"] = codec.centroids.vectors
        if codec.matrix is not None:
            numbers, scales = codec.matrix
            found["rotation"] = numbers.astype(np.float32) * scales[:, None]
        for name, value in found.items():
            if value.dtype == np.float64:  # centroids that float32 cannot hold
                self.register_buffer(name, torch.from_numpy(np.array(value)))
            else:
                self.get_buffer(name).copy_(torch.from_numpy(np.array(value)))
