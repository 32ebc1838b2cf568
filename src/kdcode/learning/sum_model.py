"""SumModel: the codewords and the basis of a codec of sums while they are learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kdcode.arrays import FloatArray, IntArray
from kdcode.codec import BlockSum, CodewordCodec, CodewordSpec, make_codec
from kdcode.codec.codeword_spec import Block
from kdcode.learning.linalg.principal import multiply

Weights = dict[str, FloatArray]
"""Arrays by name, as in `CodewordSpec.weight_shapes`."""


class SumModel:
    """Float32 weights that learners write to, in standardised units; the core composes vectors from them as they are.

    Args:
        spec: of a codec of sums; the number type and the row scales of what is stored in the end play no part.
        random: draws the first weights: codewords whose sums have variance 1, and a projection of variance 1/m. A
            rotation begins as none.
    """

    def __init__(self, spec: CodewordSpec, random: np.random.Generator) -> None:
        self.spec = spec
        shapes = spec.weight_shapes()
        self.codebook: FloatArray = random.standard_normal(shapes["codebook"], dtype=np.float32)
        for block in spec.blocks:
            self.codebook[block.positions] *= np.float32(block.length**-0.5)
            self.codebook[block.positions, :, block.width :] = 0  # not read
        self.basis: FloatArray | None = None
        if spec.is_rotated:
            self.basis = np.eye(*shapes["basis"], dtype=np.float32)
        elif spec.basis:
            self.basis = random.standard_normal(shapes["basis"], dtype=np.float32) * np.float32(spec.inner_dim**-0.5)
        plain = replace(spec, codebook_dtype="float32", scale_bits=0)
        self._codec = BlockSum(plain, self.weights)  # which sees what is written to them later
        bare = replace(plain, basis=False, embedding_dim=spec.inner_dim)
        self._bare = BlockSum(bare, {"codebook": self.codebook})

    @property
    def weights(self) -> Weights:
        """The weights themselves, by name."""
        return {"codebook": self.codebook, **({} if self.basis is None else {"basis": self.basis})}

    def state_dict(self) -> Weights:
        """The weights, copied."""
        return {name: value.copy() for name, value in self.weights.items()}

    def load_state_dict(self, state: Weights) -> None:
        """Take over weights of the same shapes.

        Raises:
            ValueError: they are others.
        """
        if set(state) != set(self.weights):
            raise ValueError(f"weights are {sorted(state)}, expected {sorted(self.weights)}")
        for name, value in self.weights.items():
            if state[name].shape != value.shape:
                raise ValueError(f"{name} of shape {state[name].shape}, expected {value.shape}")
            value[...] = state[name]

    def compose(self, codes: IntArray) -> FloatArray:
        """(n, D) or (n, columns) codes to (n, d) vectors, before row scales."""
        return self._codec.compose(codes)

    def sums(self, codes: IntArray) -> FloatArray:
        """(n, D) codes to (n, inner_dim) coordinates."""
        return self._bare.compose(codes)

    def coordinates(self, vectors: FloatArray) -> FloatArray:
        """(n, inner_dim) coordinates of (n, d) vectors in an orthonormal basis; the vectors themselves without one."""
        return vectors if self.basis is None else multiply(vectors, np.ascontiguousarray(self.basis.T))

    def words(self, block: Block) -> FloatArray:
        """(positions, K, width) codewords of a block; a view."""
        return self.codebook[block.positions, :, : block.width]

    def to_codec(self) -> CodewordCodec:
        """The codec, with weights rounded to the number type of its spec."""
        return make_codec(self.spec, self.weights)
