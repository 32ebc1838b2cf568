"""BlockSumModule: sums of codewords, in torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kdcode.codec import CodewordSpec
from kdcode.codec_torch.lookup import flat_codes, lookup
from kdcode.codec_torch.module import CodecModule, Weights


class BlockSumModule(CodecModule):
    """Blocks of coordinates, each the sum of its positions' codewords, times an optional basis."""

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Codewords whose sums have variance 1; a projection of variance 1/m, or no rotation yet."""
        nn.init.normal_(self.codebook, 0, 1, generator=generator)
        for block in self.spec.blocks:
            self.codebook[block.positions] *= block.length**-0.5
            self.codebook[block.positions, :, block.width :] = 0  # not read
        if self.basis is not None:
            if self.spec.is_rotated:
                nn.init.eye_(self.basis)
            else:
                nn.init.normal_(self.basis, 0, self.spec.inner_dim**-0.5, generator=generator)

    @classmethod
    def compose_words(cls, spec: CodewordSpec, weights: Weights, words: Tensor) -> Tensor:
        """(n, D, e) codewords to (n, d) vectors, before row scales."""
        if spec.groups == spec.code_length:
            sums = words
        elif spec.groups == 1:
            sums = words.sum(dim=1, keepdim=True)
        elif spec.code_length % spec.groups == 0:
            sums = words.unflatten(1, (spec.groups, -1)).sum(dim=2)
        else:
            sums = torch.stack([words[:, block.positions].sum(dim=1) for block in spec.blocks], dim=1)
        return _from_blocks(spec, sums, weights.get("basis"))

    @classmethod
    def compose_codes(cls, spec: CodewordSpec, weights: Weights, codes: Tensor) -> Tensor:
        """(n, D) or (n, columns) codes to (n, d) vectors: fused sums over codewords, no (n, D, e) array."""
        if spec.groups == spec.code_length:  # nothing is added up
            return _from_blocks(spec, lookup(codes[:, : spec.code_length], weights["codebook"]), weights.get("basis"))
        flat, offsets = flat_codes(codes[:, : spec.code_length], spec.codebook_size), None
        if spec.code_length % spec.groups:
            starts = torch.tensor([block.positions.start for block in spec.blocks], device=codes.device)
            offsets = (spec.code_length * torch.arange(codes.shape[0], device=codes.device)[:, None] + starts).flatten()
            flat = flat.flatten()
        else:
            flat = flat.reshape(-1, spec.code_length // spec.groups)
        sums = F.embedding_bag(flat, weights["codebook"].flatten(0, 1), offsets, mode="sum")
        return _from_blocks(spec, sums.unflatten(0, (codes.shape[0], spec.groups)), weights.get("basis"))

    @classmethod
    def dot_products(cls, spec: CodewordSpec, weights: Weights, vectors: Tensor) -> Tensor:
        """(n, d) vectors to their (D·K, n) dot products with all codewords; vectors go through the basis first."""
        basis, codebook = weights.get("basis"), weights["codebook"]
        inner = (vectors if basis is None else vectors @ basis.t()).t()
        if spec.code_length % spec.groups == 0 and spec.inner_dim % spec.groups == 0:
            words = codebook.reshape(spec.groups, -1, spec.codeword_dim)
            return torch.bmm(words, inner.unflatten(0, (spec.groups, -1))).flatten(0, 1)
        parts = [codebook[block.positions, :, : block.width] @ inner[block.columns] for block in spec.blocks]
        return torch.cat(parts).flatten(0, 1)

    def coordinates(self, vectors: Tensor) -> Tensor:
        """(n, d) vectors in the (n, inner_dim) coordinates of an orthonormal basis."""
        return vectors if self.basis is None else vectors @ self.basis.detach().t()

    def gains(self, words: Tensor) -> Tensor:
        """(D,): 1, or the mean squared gain of a projection."""
        basis = self.basis
        gain = words.new_ones(()) if basis is None else basis.detach().square().sum(dim=1).mean()
        return gain.expand(self.spec.code_length)


def _from_blocks(spec: CodewordSpec, sums: Tensor, basis: Tensor | None) -> Tensor:
    """(n, G, e) sums of blocks to (n, d) vectors."""
    if spec.inner_dim % spec.groups == 0:
        coordinates = sums.flatten(1)
    else:  # the first blocks are wider by one; what codewords have beyond the others is not read
        wide = spec.inner_dim % spec.groups
        coordinates = torch.cat([sums[:, :wide].flatten(1), sums[:, wide:, :-1].flatten(1)], dim=1)
    return coordinates if basis is None else coordinates @ basis
