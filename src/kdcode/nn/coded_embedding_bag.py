"""CodedEmbeddingBag: sums, means and maxima of coded rows, called like `nn.EmbeddingBag`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.nn.coded_embedding import CodedRows
from kdcode.nn.embedding_layer import checked_padding

MODES = ("sum", "mean", "max")


class CodedEmbeddingBag(nn.Module):
    """Bags of ids to one vector each. The distinct ids of a call are composed once and pooled by torch's own kernel.

    Args:
        coded: the table.
        mode: "sum", "mean" or "max".
        padding_idx: row that counts for nothing in a bag.
        include_last_offset: offsets have one more entry, the end of the last bag.
        form: "packed" (smallest) or "bytes" (quicker lookups).
        trainable: whether codewords and composition are trained.
    """

    def __init__(
        self,
        coded: CodedTable,
        *,
        mode: str = "mean",
        padding_idx: int | None = None,
        include_last_offset: bool = False,
        form: str = "packed",
        trainable: bool = False,
    ) -> None:
        super().__init__()
        if mode not in MODES:
            raise OptionError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
        self.rows = CodedRows(coded, form=form, trainable=trainable)
        self.num_embeddings = len(coded)
        self.embedding_dim = coded.embedding_dim
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.padding_idx = checked_padding(padding_idx, self.num_embeddings)

    def forward(self, ids: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Pool bags of ids.

        Args:
            ids: (B, n), B bags of n ids; or (total,) with offsets.
            offsets: (B,) where each bag starts in `ids`.
            per_sample_weights: as `ids`, for mode "sum".

        Returns:
            (B, d).
        """
        distinct, place = torch.unique(ids, return_inverse=True)
        padding = None
        if self.padding_idx is not None:
            # The kernel wants the padding row's place among the distinct ids; an absent one is added at the end.
            distinct = torch.cat([distinct, distinct.new_tensor([self.padding_idx])])
            padding = len(distinct) - 1
            place = torch.where(ids == self.padding_idx, padding, place)
        return F.embedding_bag(
            place,
            self.rows(distinct),
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=padding,
        )

    def extra_repr(self) -> str:
        """Shape and mode for printing."""
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
