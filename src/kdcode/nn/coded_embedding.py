"""CodedEmbedding: a coded table where an `nn.Embedding` was."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from kdcode.codec_torch import module_of
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.nn.embedding_layer import EmbeddingLayer

CODE_FORMS = ("packed", "bytes")


class CodedRows(nn.Module):
    """Frozen codes and their codec: row numbers to codes and vectors.

    Args:
        coded: the table; its codes and weights are copied.
        form: "packed" keeps codes as bits, as in the file; "bytes" keeps whole bytes, larger and quicker.
        trainable: whether codewords and composition get gradients; codes never do.
    """

    packed: Tensor

    def __init__(self, coded: CodedTable, *, form: str = "packed", trainable: bool = False) -> None:
        super().__init__()
        if form not in CODE_FORMS:
            raise OptionError(f"form must be one of {', '.join(CODE_FORMS)}, got {form!r}")
        self.form = form
        self.widths = coded.spec.widths
        self.codec = module_of(coded.codec)
        self.codec.requires_grad_(trainable)
        if form == "packed":
            stored = torch.tensor(coded.packed)
        else:
            stored = torch.from_numpy(coded.codes.astype("uint8" if max(self.widths) <= 8 else "int32"))
        self.register_buffer("packed", stored)

    def codes(self, rows: Tensor) -> Tensor:
        """(n,) rows to their (n, columns) codes; rows outside the table are refused, negative ones too."""
        stored = self.packed.index_select(0, rows)
        return stored.long() if self.form == "bytes" else unpack(stored, self.widths)

    def forward(self, rows: Tensor) -> Tensor:
        """(n,) rows to their (n, d) vectors."""
        return self.codec.decode(self.codes(rows))


class CodedEmbedding(EmbeddingLayer):
    """Called like `nn.Embedding`; holds packed codes and a few codewords in place of the table.

    Args:
        coded: the table.
        padding_idx: row whose vector is zero.
        form: "packed" (smallest) or "bytes" (quicker lookups).
        trainable: whether codewords and composition are trained; codes stay as they are.
    """

    def __init__(
        self, coded: CodedTable, *, padding_idx: int | None = None, form: str = "packed", trainable: bool = False
    ) -> None:
        super().__init__(len(coded), coded.embedding_dim, padding_idx)
        self.rows = CodedRows(coded, form=form, trainable=trainable)

    def vectors_of(self, ids: Tensor) -> Tensor:
        """(n,) ids to (n, d) vectors."""
        vectors: Tensor = self.rows(ids)
        return vectors


def unpack(packed: Tensor, widths: Sequence[int]) -> Tensor:
    """The torch twin of `bitpack.unpack`: (n, ceil(sum of widths / 8)) bytes to (n, columns) int64."""
    columns = packed.long().unbind(1)
    values, place = [], 0
    for bits in widths:
        first, shift = divmod(place, 8)
        word = columns[first]
        for byte in range(1, (bits + shift + 7) // 8):
            word = word | (columns[first + byte] << (8 * byte))
        values.append((word >> shift) & ((1 << bits) - 1))
        place += bits
    return torch.stack(values, dim=1)
