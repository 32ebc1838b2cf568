"""CodecModule: a codec with codewords as a torch module, whose weights can be trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from kdcode.codec import CodewordCodec, CodewordSpec, make_codec
from kdcode.codec_torch.lookup import lookup, scale_rows

Weights = Mapping[str, Tensor]
"""Float weights by name, as in `CodewordSpec.weight_shapes`."""


class CodecModule(nn.Module):
    """A codebook (D, K, e) and a way to make one vector of D codewords.

    How codewords become a vector is written once for each kind, in `compose_words` and `compose_codes`, which take the
    weights as an argument: `StoredCodec` calls them with weights that are stored in fewer bytes.

    Fresh weights give vectors with mean 0 and variance 1, like those of a fresh `nn.Embedding`.

    Args:
        spec: the shape; names and shapes of the parameters are those of `spec.weight_shapes()`.
        device: where the weights live.
        generator: draws the first weights.
    """

    codebook: nn.Parameter
    basis: nn.Parameter | None
    scale_levels: Tensor | None

    def __init__(
        self,
        spec: CodewordSpec,
        *,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.basis = None
        for name, shape in spec.weight_shapes().items():
            setattr(self, name, nn.Parameter(torch.empty(shape, device=device)))
        levels = torch.ones(1 << spec.scale_bits, device=device) if spec.scale_bits else None
        self.register_buffer("scale_levels", levels)
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights."""
        raise NotImplementedError

    @classmethod
    def compose_words(cls, spec: CodewordSpec, weights: Weights, words: Tensor) -> Tensor:
        """(n, D, e) codewords to (n, d) vectors, before row scales."""
        raise NotImplementedError

    @classmethod
    def compose_codes(cls, spec: CodewordSpec, weights: Weights, codes: Tensor) -> Tensor:
        """(n, D) or (n, columns) codes to (n, d) vectors, before row scales."""
        return cls.compose_words(spec, weights, lookup(codes[:, : spec.code_length], weights["codebook"]))

    @classmethod
    def dot_products(cls, spec: CodewordSpec, weights: Weights, vectors: Tensor) -> Tensor:
        """(n, d) vectors to their (D·K, n) dot products with all codewords, where vectors are sums of codewords.

        Added up over the positions of a code, they are the dot products with its vector, before row scales.
        """
        raise NotImplementedError

    @property
    def weights(self) -> dict[str, Tensor]:
        """The parameters by name."""
        return {name: value for name, value in self._parameters.items() if value is not None}

    def stored_tensors(self) -> dict[str, Tensor] | None:
        """The tensors that float32 vectors are composed from, named as in files; None where they are not float32."""
        if self.codebook.dtype != torch.float32:
            return None
        levels = {} if self.scale_levels is None else {"scale_levels": self.scale_levels}
        return {**self.weights, **levels}

    def refresh(self) -> None:
        """Look at the tensors anew: nothing is kept that depends on them."""

    @property
    def dtype(self) -> torch.dtype:
        """The type of weights and vectors."""
        return self.codebook.dtype

    def forward(self, words: Tensor) -> Tensor:
        """(n, D, e) codewords to (n, d) vectors, before row scales."""
        return self.compose_words(self.spec, self.weights, words)

    def compose(self, codes: Tensor) -> Tensor:
        """(n, D) or (n, columns) codes to (n, d) vectors, before row scales; differentiable in the weights."""
        return self.compose_codes(self.spec, self.weights, codes)

    def decode(self, codes: Tensor) -> Tensor:
        """(n, columns) codes to (n, d) vectors."""
        return scale_rows(self.compose(codes), codes, self.scale_levels)

    def gains(self, words: Tensor) -> Tensor:
        """(D,) mean squared change of the vector per squared change of each position's codeword, near (n, D, e)."""
        raise NotImplementedError

    def to_codec(self, codebook_dtype: str | None = None) -> CodewordCodec:
        """The codec, with weights rounded to a number type, the spec's own where left out."""
        spec = self.spec if codebook_dtype is None else replace(self.spec, codebook_dtype=codebook_dtype)
        weights = {name: _array(self.get_parameter(name)) for name in spec.weight_shapes()}
        if self.scale_levels is not None:
            weights["scale_levels"] = _array(self.scale_levels)
        return make_codec(spec, weights)

    @torch.no_grad()
    def load_codec(self, codec: CodewordCodec) -> None:
        """Take over the weights of a codec of the same shape."""
        for name, value in codec.weights().items():
            self.get_parameter(name).copy_(torch.from_numpy(np.array(value)))
        if self.scale_levels is not None:
            self.scale_levels.copy_(torch.from_numpy(np.array(codec.stored["scale_levels"])))

    def extra_repr(self) -> str:
        """The shape for printing."""
        return shape_of(self.spec)


def shape_of(spec: CodewordSpec) -> str:
    """The shape of a codec for printing."""
    return (
        f"{spec.composition}, codebook_size={spec.codebook_size}, code_length={spec.code_length}, "
        f"codeword_dim={spec.codeword_dim}, embedding_dim={spec.embedding_dim}"
    )


def _array(value: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return value.detach().cpu().float().numpy().copy()
