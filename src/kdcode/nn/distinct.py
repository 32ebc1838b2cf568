"""Do work once for each distinct id of a batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kdcode.errors import OptionError


def once_per_id(ids: Tensor, vectors_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Vectors of ids of any shape, made once for each distinct id.

    Args:
        ids: integers of any shape.
        vectors_of: (m,) ids to (m, d) vectors.

    Returns:
        ids.shape + (d,).
    """
    if ids.is_floating_point() or ids.dtype == torch.bool:
        raise OptionError(f"an embedding is indexed by integers, got {ids.dtype}")
    flat = ids.reshape(-1)
    if torch.compiler.is_compiling():
        # How many ids are distinct depends on the data; inside a compiled graph every id is composed instead.
        vectors = vectors_of(flat)
    else:
        distinct, place = torch.unique(flat, return_inverse=True)
        vectors = vectors_of(distinct)[place]
    return vectors.reshape(*ids.shape, vectors.shape[-1])


def checked_padding(padding_idx: int | None, num_embeddings: int) -> int | None:
    """`padding_idx` counted from 0, as `nn.Embedding` takes it: negative ones count from the end."""
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise OptionError(f"padding_idx must be within {num_embeddings} symbols, got {padding_idx}")
    return padding_idx % num_embeddings
