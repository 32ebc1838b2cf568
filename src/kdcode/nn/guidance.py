"""Guidance: losses that pull composed vectors towards a full table, which is known already or trained alongside."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kdcode.errors import OptionError
from kdcode.nn.kd_embedding import KDEmbedding


class TableGuidance(nn.Module):
    """A loss that pulls the vectors of a layer towards those of a pre-trained table.

    Add it to the loss of the task, with a weight that may fall to zero while the task takes over:

        guidance = TableGuidance(layer, glove)
        loss = task_loss + 0.1 * guidance(ids)

    The table is a buffer that is not saved with the model, and it is not trained.

    Args:
        layer: whose vectors are pulled.
        table: (N, d).
        weights: (N,) of the symbols, such as how often each occurs in the data; where left out, a symbol counts as
            often as it occurs in a batch.

    Raises:
        OptionError: shapes that do not fit.
    """

    table: Tensor
    weights: Tensor | None

    def __init__(self, layer: KDEmbedding, table: Tensor, weights: Tensor | None = None) -> None:
        super().__init__()
        _check_shape(table, layer)
        self._layer = (layer,)  # in a tuple: the layer belongs to the model, and is not a part of this module
        self.register_buffer("table", table.detach().to(layer.device), persistent=False)
        self.register_buffer("weights", _checked_weights(weights, layer), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """The mean squared distance between composed and given vectors of ids of any shape, per dimension."""
        rows, count = _counted(ids, self.weights)
        target = self.table.index_select(0, rows)
        return _pull(self._layer[0](rows), target.to(self._layer[0].codec.dtype), count)


class FullTableGuidance(nn.Module):
    """A full table that is trained alongside a layer, guides its codes, and is thrown away in the end.

    The task sees composed vectors alone, and its gradients go to both: to the codes and codewords, and unchanged to the
    rows of the full table (as in straight-through estimators), which are free to follow them. The loss pulls composed
    vectors to these rows, and the rows, less strongly, to the composed vectors:

        guidance = FullTableGuidance(layer)
        vectors, pull = guidance(ids)          # in place of layer(ids)
        loss = task_loss(vectors) + 0.1 * pull

    Args:
        layer: whose vectors are pulled.
        table: (N, d) to start from; the vectors of the layer where left out.
        weights: (N,) of the symbols; where left out, a symbol counts as often as it occurs in a batch.
        commitment: weight of the pull on the rows of the full table.
        sparse: whether gradients of the full table have only the rows that were used, as in `nn.Embedding`.

    Raises:
        OptionError: shapes that do not fit.
    """

    weights: Tensor | None

    def __init__(
        self,
        layer: KDEmbedding,
        table: Tensor | None = None,
        weights: Tensor | None = None,
        *,
        commitment: float = 0.25,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        first = layer.weight.detach() if table is None else table.detach().to(layer.device, layer.codec.dtype)
        _check_shape(first, layer)
        self._layer = (layer,)
        self.table = nn.Embedding(layer.num_embeddings, layer.embedding_dim, sparse=sparse, _weight=first.clone())
        self.register_buffer("weights", _checked_weights(weights, layer), persistent=False)
        self.commitment = commitment

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Ids of any shape to their composed vectors, whose gradients reach the full table too, and the loss."""
        layer = self._layer[0]
        rows, count = _counted(ids, self.weights)
        composed, full = layer(rows), self.table(rows)
        pull = _pull(composed, full.detach(), count) + self.commitment * _pull(full, composed.detach(), count)
        place = torch.searchsorted(rows, ids.reshape(-1)).view(ids.shape)
        through = full - full.detach()
        if layer.padding_idx is not None:
            through = through.masked_fill((rows == layer.padding_idx)[:, None], 0)
        return F.embedding(place, composed + through), pull


def _counted(ids: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """The (n,) distinct ids, sorted, and the (n,) weight of each."""
    rows, count = torch.unique(ids, return_counts=True)
    return rows, count.float() if weights is None else weights.index_select(0, rows)


def _pull(vectors: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean squared distance, per dimension."""
    squared = (vectors - targets).float().square().mean(dim=1)
    return (squared * weights).sum() / weights.sum().clamp_min(1e-12)


def _check_shape(table: Tensor, layer: KDEmbedding) -> None:
    shape = (layer.num_embeddings, layer.embedding_dim)
    if tuple(table.shape) != shape:
        raise OptionError(f"table must be {shape[0]} x {shape[1]} as the layer is, got {tuple(table.shape)}")


def _checked_weights(weights: Tensor | None, layer: KDEmbedding) -> Tensor | None:
    if weights is None:
        return None
    if weights.shape != (layer.num_embeddings,) or not bool((weights >= 0).all()) or not bool((weights > 0).any()):
        raise OptionError(
            f"weights must be {layer.num_embeddings} numbers of at least 0, not all of them 0, "
            f"got a tensor of shape {tuple(weights.shape)}"
        )
    return weights.detach().to(layer.device, torch.float32)
