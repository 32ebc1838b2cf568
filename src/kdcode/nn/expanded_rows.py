"""Rows of a layer that are decoded once and kept: as floats, or as int8 with a scale for each row."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.codec import memory_bytes
from kdcode.errors import OptionError
from kdcode.int8_rows import int8_rows

EXPANDED_TYPES = {"int8": torch.int8, "bfloat16": torch.bfloat16, "float32": torch.float32}
"""The types that rows may be kept in."""


class ExpandedRows(NamedTuple):
    """All vectors of a table.

    Args:
        numbers: (N, d) of a type of `EXPANDED_TYPES`.
        scales: (N,) float32 that rows of int8 are multiplied by; None for floats.
    """

    numbers: Tensor
    scales: Tensor | None

    @classmethod
    def of(cls, vectors: Tensor, dtype: torch.dtype) -> ExpandedRows:
        """(N, d) vectors, rounded."""
        if dtype is not torch.int8:
            return cls(vectors.to(dtype), None)
        numbers, scales = int8_rows(vectors.float().cpu().numpy())
        return cls(torch.from_numpy(numbers).to(vectors.device), torch.from_numpy(scales).to(vectors.device))

    def at(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        """Ids of any shape to ids.shape + (d,) vectors.

        Raises:
            IndexError: an id lies outside the table; on the CPU alone.
        """
        found = F.embedding(ids, self.numbers)
        if self.scales is None:
            return found.to(dtype)
        return (found.float() * self.scales[ids][..., None]).to(dtype)


def bytes_to_keep(expand: str | None, rows: int, dim: int) -> int:
    """What the rows of a table take, 0 where none are kept.

    Raises:
        OptionError: there is no such type.
    """
    if expand is None:
        return 0
    if expand not in EXPANDED_TYPES:
        raise OptionError(f"expand must be one of {', '.join(EXPANDED_TYPES)} or None, got {expand!r}")
    return rows * (EXPANDED_TYPES[expand].itemsize * dim + (4 if expand == "int8" else 0))


def fits(expand: str | None, expand_below: str | int, rows: int, dim: int) -> bool:
    """Whether rows are kept: where a type is given, and all rows take no more than `expand_below`."""
    return 0 < bytes_to_keep(expand, rows, dim) <= memory_bytes("expand_below", expand_below)
