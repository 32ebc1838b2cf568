"""Compositions as torch modules, each with its codebook; the numpy twins are in `kdcode.composition`."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kdcode import composition as numpy_composition
from kdcode.budget import CodeShape
from kdcode.composition import Block, SideBySide
from kdcode.learning.lstm_scan import LstmScan
from kdcode.learning.randomness import generator_for
from kdcode.learning.straight_through import flat_codes, lookup
from kdcode.table import FloatArray


class CompositionModule(nn.Module):
    """A codebook (D, K, e) and a way to make one vector of D codewords.

    Fresh weights give vectors with mean 0 and variance 1, like those of a fresh `nn.Embedding`.

    Args:
        shape: K, D, e and d.
        device: where the weights live.
        generator: draws the first weights.
    """

    codebook: nn.Parameter

    def __init__(
        self,
        shape: CodeShape,
        *,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.shape = shape
        words = torch.empty(shape.code_length, shape.codebook_size, shape.codeword_dim, device=device)
        self.codebook = nn.Parameter(words)
        self._make_weights(device)
        self.reset_parameters(generator)

    def _make_weights(self, device: torch.device | str | None) -> None:
        """Weights beside the codebook; none by default."""

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw fresh weights."""
        raise NotImplementedError

    def forward(self, words: Tensor) -> Tensor:
        """(n, D, e) codewords to (n, d) vectors."""
        raise NotImplementedError

    def compose(self, codes: Tensor) -> Tensor:
        """(n, D) codes to (n, d) vectors, differentiable in the weights."""
        out: Tensor = self(lookup(codes, self.codebook))
        return out

    @property
    def basis(self) -> nn.Parameter | None:
        """(e, d): the matrix that ends the composition, whose rows what comes before it are coordinates in."""
        return None

    def gains(self, words: Tensor) -> Tensor:
        """(D,) mean squared change of the vector per squared change of each position's codeword, near (n, D, e)."""
        return words.new_ones(self.shape.code_length)

    def to_numpy(self) -> tuple[FloatArray, numpy_composition.Composition]:
        """The codebook and the numpy twin of this composition."""
        weights = {name: _array(value) for name, value in self.named_parameters() if name != "codebook"}
        return _array(self.codebook), numpy_composition.from_weights(
            self.shape.composition, self.shape.embedding_dim, weights
        )

    @torch.no_grad()
    def load_numpy(self, codebook: FloatArray, twin: numpy_composition.Composition) -> None:
        """Take over the weights of a numpy composition of the same shape."""
        self.codebook.copy_(torch.from_numpy(np.array(codebook)))
        for name, value in twin.weights().items():
            self.get_parameter(name).copy_(torch.from_numpy(np.array(value, dtype=np.float32)))

    def extra_repr(self) -> str:
        """K, D, e and d for printing."""
        shape = self.shape
        return (
            f"codebook_size={shape.codebook_size}, code_length={shape.code_length}, "
            f"codeword_dim={shape.codeword_dim}, embedding_dim={shape.embedding_dim}"
        )


class LinearComposition(CompositionModule):
    """v = (Σ_j W^j_{c_j}) H; H only where codewords are shorter or longer than vectors."""

    projection: nn.Parameter | None

    def _make_weights(self, device: torch.device | str | None) -> None:
        size, dim = self.shape.codeword_dim, self.shape.embedding_dim
        self.projection = None if size == dim else nn.Parameter(torch.empty(size, dim, device=device))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Codewords of variance 1/D, H of variance 1/e."""
        nn.init.normal_(self.codebook, 0, self.shape.code_length**-0.5, generator=generator)
        if self.projection is not None:
            nn.init.normal_(self.projection, 0, self.shape.codeword_dim**-0.5, generator=generator)

    def forward(self, words: Tensor) -> Tensor:
        """(n, D, e) codewords to (n, d) vectors."""
        return self._project(words.sum(dim=1))

    def compose(self, codes: Tensor) -> Tensor:
        """(n, D) codes to (n, d) vectors: one fused sum over table rows, no (n, D, e) array."""
        flat = flat_codes(codes, self.shape.codebook_size)
        return self._project(F.embedding_bag(flat, self.codebook.flatten(0, 1), mode="sum"))

    @property
    def basis(self) -> nn.Parameter | None:
        """H."""
        return self.projection

    def gains(self, words: Tensor) -> Tensor:
        """(D,): 1, or the mean squared gain of H."""
        gain = words.new_ones(()) if self.projection is None else self.projection.detach().square().sum(1).mean()
        return gain.expand(self.shape.code_length)

    def _project(self, total: Tensor) -> Tensor:
        return total if self.projection is None else total @ self.projection


class LSTMComposition(CompositionModule):
    """The paper's LSTM: each codeword is added to every gate, v = (Σ_j h_j) H; gates in the order f, i, o, m."""

    recurrent: nn.Parameter
    bias: nn.Parameter
    projection: nn.Parameter

    def _make_weights(self, device: torch.device | str | None) -> None:
        size, dim = self.shape.codeword_dim, self.shape.embedding_dim
        self.recurrent = nn.Parameter(torch.empty(4, size, size, device=device))
        self.bias = nn.Parameter(torch.empty(4, size, device=device))
        self.projection = nn.Parameter(torch.empty(size, dim, device=device))

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """U uniform in ±1/√e, b zero, codewords of variance 1, H scaled so that vectors have variance 1."""
        size = self.shape.codeword_dim
        nn.init.normal_(self.codebook, 0, 1, generator=generator)
        nn.init.uniform_(self.recurrent, -(size**-0.5), size**-0.5, generator=generator)
        nn.init.zeros_(self.bias)
        nn.init.normal_(self.projection, 0, 1, generator=generator)
        # The gates have no closed form for the variance of Σ h_j, so it is measured on random codes.
        draws = (1024, self.shape.code_length)
        codes = torch.randint(self.shape.codebook_size, draws, generator=generator, device=self.codebook.device)
        self.projection.div_(self.compose(codes).std().clamp_min(1e-12))

    def forward(self, words: Tensor) -> Tensor:
        """(n, D, e) codewords to (n, d) vectors."""
        total: Tensor = LstmScan.apply(words.float(), self.recurrent, self.bias)
        return total @ self.projection

    @torch.no_grad()
    def gains(self, words: Tensor) -> Tensor:
        """(D,), measured: one position at a time is moved a little, the same way in every call."""
        directions = torch.randn(words.shape[0], words.shape[2], generator=generator_for(0, "gains"))
        nudge = 1e-2 * directions.to(words)
        before = self(words)
        gains = []
        for position in range(words.shape[1]):
            moved = words.clone()
            moved[:, position] += nudge
            gains.append((self(moved) - before).square().sum() / nudge.square().sum())
        return torch.stack(gains)


class SideBySideComposition(CompositionModule):
    """Sums side by side: each block of coordinates is the sum of its positions' codewords; R turns them all."""

    rotation: nn.Parameter | None

    def _make_weights(self, device: torch.device | str | None) -> None:
        dim = self.shape.embedding_dim
        self.rotation = nn.Parameter(torch.empty(dim, dim, device=device)) if self.shape.rotated else None

    @property
    def basis(self) -> nn.Parameter | None:
        """R."""
        return self.rotation

    @property
    def blocks(self) -> list[Block]:
        """Which positions make which coordinates."""
        twin = numpy_composition.from_weights(self.shape.composition, self.shape.embedding_dim, {})
        return cast(SideBySide, twin).blocks(self.shape.code_length, self.shape.codeword_dim)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Codewords of variance 1 over the positions of a block, and no turn yet."""
        nn.init.normal_(self.codebook, 0, 1, generator=generator)
        if self.rotation is not None:
            nn.init.eye_(self.rotation)
        for block in self.blocks:
            self.codebook[block.positions] *= block.length**-0.5

    def forward(self, words: Tensor) -> Tensor:
        """(n, D, e) codewords to (n, d) vectors."""
        parts = [words[:, block.positions, : block.width].sum(dim=1) for block in self.blocks]
        return self._turned(torch.cat(parts, dim=1))

    def _turned(self, sums: Tensor) -> Tensor:
        return sums if self.rotation is None else sums @ self.rotation


class ProductComposition(SideBySideComposition):
    """Codewords side by side: position j owns the coordinates `spans(d, D)[j]`."""

    def forward(self, words: Tensor) -> Tensor:
        """(n, D, e) codewords to (n, d) vectors."""
        if self.shape.codeword_dim * self.shape.code_length == self.shape.embedding_dim:
            return self._turned(words.flatten(1))
        return super().forward(words)


class GroupedComposition(SideBySideComposition):
    """Groups of coordinates, each the sum of the codewords of some positions."""


COMPOSITION_MODULES: dict[str, type[CompositionModule]] = {
    "linear": LinearComposition,
    "lstm": LSTMComposition,
    "product": ProductComposition,
    "grouped": GroupedComposition,
}
"""The torch module of each composition, by the name that options and files use."""


def make_composition(shape: CodeShape, **arguments: Any) -> CompositionModule:  # noqa: ANN401 - passed on as they are
    """A fresh module for a shape; arguments are those of `CompositionModule`."""
    return COMPOSITION_MODULES[shape.composition](shape, **arguments)


def _array(value: Tensor) -> FloatArray:
    return value.detach().cpu().float().numpy().copy()
