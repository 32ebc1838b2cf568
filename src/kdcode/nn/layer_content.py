"""What a layer over a coded table is filled with: the codec, and the rows as they are to be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.codec import Codec, CodecSpec, codec_from_tensors
from kdcode.codec_torch.twin import for_torch
from kdcode.coded import CodedTable

ROW_BUFFERS = ("code_rows", "row_classes", "row_starts", "row_breaks")
"""The buffers of layers that have rows: the codes, and where packed rows of several lengths begin, and blocks."""


@dataclass(frozen=True, eq=False)
class LayerContent:
    """A codec, and N rows in arrays that belong to nobody else.

    Args:
        codec: what the codes mean.
        num_embeddings: N.
        rows: the arrays by the names of a layer's buffers, some of `ROW_BUFFERS`.
    """

    codec: Codec
    num_embeddings: int
    rows: Mapping[str, npt.NDArray[Any]]

    @classmethod
    def of(cls, coded: CodedTable, form: str) -> LayerContent:
        """The content of a table: bytes as in the file where `form` is "packed", else (N, columns) integers."""
        # numpy's large arrays lie in large pages of memory, which random rows are read from quicker than from torch's.
        if form != "packed":
            codes = coded.codes.astype(_code_type(coded.spec))
            return cls(coded.codec, len(coded), {"code_rows": codes})
        if coded.codewords is not None:
            packed = np.array(coded.checked_rows())  # the layer unpacks rows without a check
            return cls(coded.codec, len(coded), {"code_rows": packed})
        if coded.codec.may_overflow:
            coded.checked_rows()
        stored = coded.codec.row_tensors(coded.packed)
        rows = {buffer_of(name): for_torch(np.array(array)) for name, array in stored.items()}
        return cls(coded.codec, len(coded), rows)

    @classmethod
    def blank(cls, spec: CodecSpec, num_embeddings: int, form: str, row_lengths: Mapping[str, int]) -> LayerContent:
        """The content of a layer of some shape, to be replaced.

        Args:
            spec: of the codec.
            num_embeddings: N.
            form: how the codes are kept.
            row_lengths: of the tensors of rows whose lengths do not follow from N, by name.
        """
        codec = codec_from_tensors(spec, spec.blank_tensors())
        if form != "packed":
            codes = np.zeros((num_embeddings, len(spec.widths)), dtype=_code_type(spec))
            return cls(codec, num_embeddings, {"code_rows": codes})
        rows = {}
        for name, (dtype, shape) in spec.row_layout(num_embeddings).items():
            known = tuple(row_lengths[name] if length is None else length for length in shape)
            rows[buffer_of(name)] = for_torch(np.zeros(known, dtype))
        return cls(codec, num_embeddings, rows)


def buffer_of(tensor: str) -> str:
    """The buffer of a layer that has a tensor of a file."""
    return "code_rows" if tensor == "codes" else tensor


def _code_type(spec: CodecSpec) -> npt.DTypeLike:
    return np.uint8 if max(spec.widths) <= 8 else np.int32  # torch selects few other types
