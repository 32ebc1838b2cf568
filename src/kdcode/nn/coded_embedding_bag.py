"""CodedEmbeddingBag: sums, means and maxima of coded rows, called like `nn.EmbeddingBag`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.errors import OptionError
from kdcode.nn.coded_layer import EXPAND_BELOW, CodedLayer, CodedSource

MODES = ("sum", "mean", "max")


class CodedEmbeddingBag(CodedLayer):
    """Bags of ids to one vector each. The distinct ids of a call are composed once and pooled by torch's own kernel.

    Args:
        coded: the table, or the path of a .kdc file; codes and weights are copied.
        padding_idx: row that counts for nothing in a bag; -1 is the last.
        mode: "sum", "mean" or "max".
        include_last_offset: offsets have one more entry, the end of the last bag.
        form: "packed" (smallest) or "unpacked" (an integer for each position); see `CodedLayer`.
        trainable: whether codewords and composition are trained.
        device: where the layer lives.
        dtype: type of the vectors, as in `nn.EmbeddingBag`; torch's default type if None.
        expand: "float32", "bfloat16" or "int8": the type that all vectors are decoded to once and kept in, where they
            take no more than `expand_below`; None decodes at every call.
        expand_below: a size like "64MB".
    """

    def __init__(  # noqa: PLR0913 - those of nn.EmbeddingBag, and the form
        self,
        coded: CodedSource,
        padding_idx: int | None = None,
        *,
        mode: str = "mean",
        include_last_offset: bool = False,
        form: str = "packed",
        trainable: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        expand: str | None = None,
        expand_below: str | int = EXPAND_BELOW,
    ) -> None:
        if mode not in MODES:
            raise OptionError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
        super().__init__(
            coded,
            padding_idx,
            form=form,
            trainable=trainable,
            device=device,
            dtype=dtype,
            expand=expand,
            expand_below=expand_below,
        )
        self.mode = mode
        self.include_last_offset = include_last_offset

    @property
    def config(self) -> dict[str, Any]:
        """JSON values that `from_config` builds a layer of the same shape from."""
        return {**super().config, "mode": self.mode, "include_last_offset": self.include_last_offset}

    def forward(self, ids: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Pool bags of ids.

        Args:
            ids: (B, n), B bags of n ids; or (total,) with offsets.
            offsets: (B,) where each bag starts in `ids`.
            per_sample_weights: as `ids`, for mode "sum".

        Returns:
            (B, d); the vector of a bag without ids is zero.
        """
        ids = self._checked(ids)
        if ids.dim() == 2 and ids.shape[1] == 0 and offsets is None:  # the kernel takes no bags of length 0
            return torch.zeros(len(ids), self.embedding_dim, dtype=self.codec.dtype, device=self.device)
        places, vectors, padding = self._places(ids)
        return F.embedding_bag(
            places,
            vectors,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=padding,
        )

    def _places(self, ids: Tensor) -> tuple[Tensor, Tensor, int | None]:
        """The place of each id among the vectors that are needed, the vectors, and the place of the padding id."""
        if self.is_expanded and (kept := self.expanded_rows()).numbers.dtype == self.codec.dtype:
            self._in_range(ids.reshape(-1))
            return ids, kept.numbers, self.padding_idx
        if self._composes_all(ids):
            rows, places = self._in_range(ids.reshape(-1)), torch.arange(ids.numel(), device=ids.device).view(ids.shape)
        else:
            rows, places = self._distinct(ids)
        if self.padding_idx is None:
            return places, self.kept_or_padded(rows), None
        # The kernel wants the padding row's place; one is added at the end, since it may be absent.
        rows = torch.cat([rows, rows.new_tensor([self.padding_idx])])
        places = torch.where(ids == self.padding_idx, len(rows) - 1, places)
        return places, self.kept_or_padded(rows), len(rows) - 1

    def extra_repr(self) -> str:
        """Shape and mode for printing."""
        return f"{super().extra_repr()}, mode={self.mode!r}"
