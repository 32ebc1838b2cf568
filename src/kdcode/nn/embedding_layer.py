"""What all layers share: ids of any shape, a padding id, the whole table on request."""

from __future__ import annotations

from itertools import chain

import torch
from torch import Tensor, nn
from torch._C import _get_tracing_state
from torch.compiler import is_compiling
from torch.nn import functional as F

from kdcode.errors import IdTypeError, OptionError, RowError

_CHUNK_ROWS = 8192


class EmbeddingLayer(nn.Module):
    """A layer that is called like `nn.Embedding`; where the vectors come from is up to the subclass.

    Args:
        num_embeddings: N.
        embedding_dim: d.
        padding_idx: symbol whose vector is zero; -1 is the last.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _checked_padding(padding_idx, num_embeddings)

    @property
    def device(self) -> torch.device:
        """Where the layer is, and where its ids must be."""
        raise NotImplementedError

    def codes_of(self, ids: Tensor) -> Tensor:
        """(n,) ids to their (n, columns) codes; ids outside the table are refused."""
        raise NotImplementedError

    def vectors_of(self, ids: Tensor) -> Tensor:
        """(n,) ids to (n, d) vectors; ids outside the table are refused."""
        raise NotImplementedError

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape to ids.shape + (d,) vectors.

        Raises:
            RowError: an IndexError; an id is negative, or not below `num_embeddings`.
            IdTypeError: a TypeError; ids are no tensor of integers.
            OptionError: ids are on another device than the layer.
        """
        ids = self._checked(ids)
        if self._composes_all(ids):
            return self.padded_vectors(self._in_range(ids.reshape(-1))).view(*ids.shape, self.embedding_dim)
        rows, place = self._distinct(ids)
        return F.embedding(place, self.padded_vectors(rows))

    @property
    def weight(self) -> Tensor:
        """The whole (N, d) table, composed on request; gradients flow through it."""
        return torch.cat([self.padded_vectors(part) for part in self.all_ids()])

    @property
    def codes(self) -> Tensor:
        """All codes as they are now: (N, D), with one more column where rows have scales."""
        return torch.cat([self.codes_of(part).long() for part in self.all_ids()])

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters and buffers: what the layer takes in memory."""
        return sum(tensor.nbytes for tensor in chain(self.parameters(), self.buffers()))

    def _checked(self, ids: Tensor) -> Tensor:
        """Ids as int64, on the device of the layer."""
        if type(ids) is Tensor and ids.dtype is torch.int64 and ids.device == self.device:
            return ids
        if not isinstance(ids, Tensor):
            raise IdTypeError(f"ids: expected a tensor of integers, got {type(ids).__name__}; use torch.tensor(ids)")
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            raise IdTypeError(f"ids: expected integers such as torch.int64, got {ids.dtype}; ids.long() converts them")
        if ids.device != self.device:
            raise OptionError(
                f"ids are on {ids.device}, the layer is on {self.device}; use ids.to({str(self.device)!r})"
            )
        return ids.long()

    def _composes_all(self, ids: Tensor) -> bool:
        """Whether every id is composed, and not each distinct one once.

        How many are distinct depends on the data, which a graph that is recorded must not.
        """
        return _is_recorded() or ids.is_meta

    def _in_range(self, ids: Tensor) -> Tensor:
        """(n,) ids that are checked, unless a graph is recorded."""
        if not (_is_recorded() or ids.is_meta) and ids.numel():
            ends = (ids, ids) if len(ids) == 1 else ids.aminmax()
            self.check_range(*(int(end) for end in ends))
        return ids

    def _distinct(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The (n,) distinct ids, checked, and the place of each id among them, in the shape of `ids`."""
        rows, place = torch.unique(ids, return_inverse=True)
        if len(rows):
            self.check_range(int(rows[0]), int(rows[-1]))  # they are sorted
        return rows, place

    def check_range(self, low: int, high: int) -> None:
        """Refuse ids, of which these are the least and the largest, that are outside the table."""
        if low < 0 or high >= self.num_embeddings:
            raise RowError(f"ids must be in [0, {self.num_embeddings}), got ids from {low} to {high}")

    def all_ids(self) -> list[Tensor]:
        """All ids in order, in chunks, on the device of the layer."""
        return list(torch.arange(self.num_embeddings, device=self.device).split(_CHUNK_ROWS))

    def padded_vectors(self, ids: Tensor) -> Tensor:
        """(n,) ids to (n, d) vectors, that of the padding id zero."""
        vectors = self.vectors_of(ids)
        if self.padding_idx is not None:
            vectors = vectors.masked_fill((ids == self.padding_idx)[:, None], 0)
        return vectors

    def extra_repr(self) -> str:
        """Shape for printing."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


def _is_recorded() -> bool:
    """Whether operators are recorded, by torch.compile, torch.export or torch.jit.trace, to run for other ids later."""
    return is_compiling() or _get_tracing_state() is not None


def _checked_padding(padding_idx: int | None, num_embeddings: int) -> int | None:
    """`padding_idx` counted from 0, as `nn.Embedding` takes it: negative ones count from the end."""
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise OptionError(f"padding_idx must be in [-{num_embeddings}, {num_embeddings}), got {padding_idx}")
    return padding_idx % num_embeddings
