"""CodedEmbeddingView: an embedding over the coded table of another layer, or one that multiplies its vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from kdcode.nn.coded_layer import CodedLayer
from kdcode.nn.table_reader import TableReader, table_for


class CodedEmbeddingView(TableReader):
    """Called like `nn.Embedding`: ids of any shape to vectors of a `CodedEmbedding`, times a scale.

    For the second of two embeddings with one matrix, such as those of an encoder and a decoder, and for models that
    multiply word vectors by the root of their size.

    Args:
        table: the embedding.
        scale: what vectors are multiplied by.
        tied: whether `table` belongs to another layer of the model; otherwise it becomes a submodule.
    """

    def __init__(self, table: CodedLayer, scale: float = 1.0, *, tied: bool = True) -> None:
        super().__init__(table, tied=tied)
        self.scale = scale

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], table: CodedLayer | None = None, *, device: torch.device | str | None = None
    ) -> Self:
        """A view of the shape of another, as `CodedOutput.from_config`."""
        return cls(table_for(config, table, device), config["scale"], tied=table is not None)

    @property
    def config(self) -> dict[str, Any]:
        """JSON values that `from_config` builds a view of the same shape from."""
        return {**super().config, "scale": self.scale}

    @property
    def num_embeddings(self) -> int:
        """How many rows the table has."""
        return self.table.num_embeddings

    @property
    def embedding_dim(self) -> int:
        """The size of a vector."""
        return self.table.embedding_dim

    @property
    def padding_idx(self) -> int | None:
        """The row whose vector is zero."""
        return self.table.padding_idx

    @property
    def weight(self) -> Tensor:
        """The whole (N, d) table, composed on request, before the scale."""
        return self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape to ids.shape + (d,) vectors."""
        vectors: Tensor = self.table(ids)
        return vectors if self.scale == 1 else vectors * self.scale

    def extra_repr(self) -> str:
        """Scale and tie for printing."""
        return f"{self.num_embeddings}, {self.embedding_dim}, scale={self.scale:g}, tied={self.is_tied}"
