"""Who looks rows up: layers of torch, rows of int8, faiss, and the layers of kdcode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from made_tables import SIZES, chosen_table, made_table
from torch import Tensor, nn
from turns import Contender

from kdcode.codec import CodewordSpec
from kdcode.coded import CodedTable
from kdcode.nn import CodedEmbedding

Ids = npt.NDArray[np.int64]

CODEWORDS = {"linear": False, "product": False, "product, rotated": True}
"""The compositions of K=256 and D=16 that are measured, and whether they have a rotation."""
FULL = "nn.Embedding float32"
"""Whom all others are compared with."""
TABLE = "CodedTable.decode"
"""Followed by a size: without torch."""


def spec_of(name: str, dim: int) -> CodewordSpec:
    """The shape of one of `CODEWORDS`."""
    return CodewordSpec.named(name.partition(",")[0], dim, 256, 16, codebook_dtype="int8", rotation=CODEWORDS[name])


def contenders(rows: int, dim: int, folder: Path) -> dict[str, Contender]:
    """All of them, with tables of so many rows; what sizes chose is in .kdc files of a folder."""
    found = {
        FULL: _of_layer(_full(rows, dim, torch.float32)),
        "nn.Embedding bfloat16": _of_layer(_full(rows, dim, torch.bfloat16)),
        "int8 rows": _of_layer(int8_rows(rows, dim)),
    }
    for size in SIZES:
        coded = chosen_table(folder, rows, dim, size)
        found[size] = _of_layer(CodedEmbedding(coded))
        found[f"{TABLE} {size}"] = Contender(coded.decode)
    for name in CODEWORDS:
        coded = made_table(spec_of(name, dim), rows)
        found[name] = _of_layer(CodedEmbedding(coded))
        if name == "product":
            found["faiss, product"] = Contender(faiss_decode(coded))
    return found


def int8_rows(rows: int, dim: int) -> Callable[[Tensor], Tensor]:
    """A matrix of int8 and a float32 scale for each row: both are selected, and multiplied."""
    matrix, scales = torch.randint(-127, 128, (rows, dim), dtype=torch.int8), torch.rand(rows, 1)

    def lookup(ids: Tensor) -> Tensor:
        return matrix.index_select(0, ids) * scales.index_select(0, ids)

    return lookup


def faiss_decode(coded: CodedTable) -> Callable[[Ids], Any]:
    """Vectors from faiss's index of the same codes, in the quickest way that it has for some rows.

    One row is `reconstruct`ed; of more rows the codes are selected by numpy, and decoded by `sa_decode`, which takes a
    fraction of the time of `reconstruct_batch`. 16 does not divide 100, so faiss moves numbers after it has decoded.
    """
    index, packed = coded.to_faiss(), coded.checked_rows()

    def lookup(ids: Ids) -> Any:  # noqa: ANN401 - an array
        if len(ids) == 1:
            return index.reconstruct(int(ids[0]))
        return index.sa_decode(packed.take(ids, axis=0))

    return lookup


def _full(rows: int, dim: int, dtype: torch.dtype) -> nn.Embedding:
    layer: nn.Embedding = nn.Embedding.from_pretrained(torch.randn(rows, dim).to(dtype))  # type: ignore[no-untyped-call]
    return layer


def _of_layer(layer: Callable[[Tensor], Tensor]) -> Contender:
    return Contender(layer, torch.from_numpy)
