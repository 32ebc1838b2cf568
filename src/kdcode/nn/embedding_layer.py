"""What embedding layers have in common: ids of any shape, a padding id, the whole table on request."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor, nn

from kdcode.errors import OptionError

_CHUNK_ROWS = 8192


class EmbeddingLayer(nn.Module):
    """A layer that is called like `nn.Embedding`; where the vectors come from is up to the subclass.

    Args:
        num_embeddings: N.
        embedding_dim: d.
        padding_idx: symbol whose vector is zero.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = checked_padding(padding_idx, num_embeddings)

    def vectors_of(self, ids: Tensor) -> Tensor:
        """(n,) ids to (n, d) vectors; ids outside the table are refused."""
        raise NotImplementedError

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape to ids.shape + (d,) vectors; each distinct id is composed once."""
        if ids.is_floating_point() or ids.dtype == torch.bool:
            raise OptionError(f"an embedding is indexed by integers, got {ids.dtype}")
        flat = ids.reshape(-1)
        if torch.compiler.is_compiling():
            # How many ids are distinct depends on the data; inside a compiled graph every id is composed instead.
            vectors = self._padded(flat)
        else:
            distinct, place = torch.unique(flat, return_inverse=True)
            vectors = self._padded(distinct)[place]
        return vectors.reshape(*ids.shape, self.embedding_dim)

    @property
    def weight(self) -> Tensor:
        """The whole (N, d) table, composed on request; gradients flow through it."""
        return torch.cat([self._padded(part) for part in self._all_ids()])

    def _all_ids(self) -> list[Tensor]:
        """All ids in order, in chunks, on the device of the layer."""
        device = next(chain(self.parameters(), self.buffers())).device
        return list(torch.arange(self.num_embeddings, device=device).split(_CHUNK_ROWS))

    def _padded(self, ids: Tensor) -> Tensor:
        vectors = self.vectors_of(ids)
        if self.padding_idx is not None:
            vectors = vectors.masked_fill((ids == self.padding_idx)[:, None], 0)
        return vectors

    def extra_repr(self) -> str:
        """Shape for printing."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


def checked_padding(padding_idx: int | None, num_embeddings: int) -> int | None:
    """`padding_idx` counted from 0, as `nn.Embedding` takes it: negative ones count from the end."""
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise OptionError(f"padding_idx must be within {num_embeddings} symbols, got {padding_idx}")
    return padding_idx % num_embeddings
