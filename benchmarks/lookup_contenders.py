"""Who looks rows up: layers of torch, rows of int8, faiss, and the layers and tables of kdcode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from made_tables import made_table
from torch import Tensor, nn
from turns import Contender

from kdcode import compiled
from kdcode.codec import CodecSpec
from kdcode.coded import CodedTable
from kdcode.nn import CodedEmbedding

Ids = npt.NDArray[np.int64]

DIM = 100
SHAPE = (DIM, 256, 16)
"""d, K and D of all coded tables."""
SPECS = {
    "linear int8": CodecSpec.named("linear", *SHAPE, codebook_dtype="int8"),
    "product int8": CodecSpec.named("product", *SHAPE, codebook_dtype="int8"),
    "rotated int8": CodecSpec.named("product", *SHAPE, codebook_dtype="int8", rotation=True),
    "linear float16": CodecSpec.named("linear", *SHAPE, codebook_dtype="float16"),
}
FULL = "nn.Embedding float32"
"""Whom all others are compared with."""
PLAIN = ", not compiled"
"""How names end where kdcode runs without compiled code."""
HOT: dict[str, dict[str, Any]] = {"expand_below=1GB": {"expand_below": "1GB"}}
"""Ways in which a layer keeps rows."""
HOT_TABLES = ("linear int8", "rotated int8")


def contenders(rows: int) -> dict[str, Contender]:
    """All of them, with tables of so many rows."""
    found = {
        FULL: _of_layer(_full(rows, torch.float32)),
        "nn.Embedding bfloat16": _of_layer(_full(rows, torch.bfloat16)),
        "int8 rows": _of_layer(int8_rows(rows)),
    }
    tables = {name: made_table(spec, rows) for name, spec in SPECS.items()}
    found["faiss sa_decode, product"] = Contender(faiss_decode(tables["product int8"]))
    for name, coded in tables.items():
        found |= _both(f"CodedEmbedding {name}", CodedEmbedding(coded), torch.from_numpy)
    found |= _both("CodedTable linear int8", tables["linear int8"].decode, np.asarray)
    return found


def hot_contenders(rows: int) -> dict[str, Contender]:
    """Layers that keep rows."""
    return {
        f"CodedEmbedding {name}, {way}": _of_layer(CodedEmbedding(made_table(SPECS[name], rows), **options))
        for name in HOT_TABLES
        for way, options in HOT.items()
    }


def int8_rows(rows: int) -> Callable[[Tensor], Tensor]:
    """A matrix of int8 and a float32 scale for each row: both are selected, and multiplied."""
    matrix, scales = torch.randint(-127, 128, (rows, DIM), dtype=torch.int8), torch.rand(rows, 1)

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


def _full(rows: int, dtype: torch.dtype) -> nn.Embedding:
    layer: nn.Embedding = nn.Embedding.from_pretrained(torch.randn(rows, DIM).to(dtype))  # type: ignore[no-untyped-call]
    return layer


def _of_layer(layer: Callable[[Tensor], Tensor]) -> Contender:
    return Contender(layer, torch.from_numpy)


def _both(name: str, call: Callable[[Any], Any], given: Callable[[Ids], Any]) -> dict[str, Contender]:
    """With compiled code and without."""
    return {
        name: Contender(call, given, compiled.ALWAYS),
        name + PLAIN: Contender(call, given, compiled.NEVER),
    }
