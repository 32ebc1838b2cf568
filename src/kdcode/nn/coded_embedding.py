"""CodedEmbedding: a coded table where an `nn.Embedding` was."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kdcode import bitpack
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.learning.composition import make_composition
from kdcode.nn.distinct import checked_padding, once_per_id

CODE_FORMS = ("packed", "bytes")


class CodedRows(nn.Module):
    """Frozen codes and their composition: row numbers to codes and vectors.

    Args:
        coded: the table; its codes and weights are copied.
        form: "packed" keeps codes as bits, as in the file; "bytes" keeps whole bytes, larger and quicker.
        trainable: whether codewords and composition get gradients; codes never do.
    """

    packed: Tensor
    scale_places: Tensor | None
    scale_levels: Tensor | None

    def __init__(self, coded: CodedTable, *, form: str = "packed", trainable: bool = False) -> None:
        super().__init__()
        if form not in CODE_FORMS:
            raise OptionError(f"form must be one of {', '.join(CODE_FORMS)}, got {form!r}")
        self.form = form
        self.code_length = coded.code_length
        self.bits = bitpack.bits_for(coded.codebook_size)
        self.composition = make_composition(coded.shape)
        self.composition.load_numpy(coded.codebook.values, coded.composition)
        self.composition.requires_grad_(trainable)
        if form == "packed":
            stored = torch.tensor(coded.packed)
        else:
            stored = torch.from_numpy(coded.codes.astype("uint8" if self.bits <= 8 else "int32"))
        self.register_buffer("packed", stored)
        scales = coded.scales
        self.register_buffer("scale_places", None if scales is None else torch.tensor(scales.places))
        self.register_buffer("scale_levels", None if scales is None else torch.tensor(scales.levels))

    def codes(self, rows: Tensor) -> Tensor:
        """(n,) rows to their (n, D) codes."""
        stored = self.packed[rows]
        return stored.long() if self.form == "bytes" else unpack(stored, self.code_length, self.bits)

    def forward(self, rows: Tensor) -> Tensor:
        """(n,) rows to their (n, d) vectors."""
        vectors = self.composition.compose(self.codes(rows))
        if self.scale_places is None or self.scale_levels is None:
            return vectors
        return vectors * self.scale_levels[self.scale_places[rows].long()][:, None]


class CodedEmbedding(nn.Module):
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
        super().__init__()
        self.rows = CodedRows(coded, form=form, trainable=trainable)
        self.num_embeddings = len(coded)
        self.embedding_dim = coded.embedding_dim
        self.padding_idx = checked_padding(padding_idx, self.num_embeddings)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape to ids.shape + (d,) vectors; each distinct id is composed once."""
        return once_per_id(ids, self._vectors)

    @property
    def weight(self) -> Tensor:
        """The whole (N, d) table, decoded on request."""
        ids = torch.arange(self.num_embeddings, device=self.rows.packed.device)
        return torch.cat([self._vectors(part) for part in ids.split(8192)])

    def _vectors(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.rows(ids)
        if self.padding_idx is not None:
            vectors = vectors.masked_fill((ids == self.padding_idx)[:, None], 0)
        return vectors

    def extra_repr(self) -> str:
        """Shape for printing."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


def unpack(packed: Tensor, length: int, bits: int) -> Tensor:
    """The torch twin of `bitpack.unpack`: (n, ceil(length·bits/8)) bytes to (n, length) int64."""
    columns = packed.long().unbind(1)
    values = []
    for position in range(length):
        first, shift = divmod(position * bits, 8)
        word = columns[first]
        for byte in range(1, bitpack.row_bytes(1, bits + shift)):
            word = word | (columns[first + byte] << (8 * byte))
        values.append((word >> shift) & ((1 << bits) - 1))
    return torch.stack(values, dim=1)
