"""KDEmbedding: an embedding layer that stores codes and codewords in place of a table, and learns both in the task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from kdcode.codebook import Codebook
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.learning.assignment import Assignment, FixedAssignment, FreeAssignment
from kdcode.learning.composition import CompositionModule, make_composition
from kdcode.learning.straight_through import CHOICES
from kdcode.nn.distinct import checked_padding, once_per_id
from kdcode.options import CompressOptions

_CHUNK_ROWS = 8192


class KDEmbedding(nn.Module):
    """Drop-in for `nn.Embedding` whose vectors are composed from D codewords chosen out of K each.

    Three parts, each replaceable: an assignment (symbol to code), a choice (how gradients reach a learnable
    assignment) and a composition (codewords to vector). Fresh vectors have the variance of a fresh `nn.Embedding`.

    Args:
        num_embeddings: N.
        embedding_dim: d.
        padding_idx: symbol whose vector is zero and never trained.
        codebook_size: K.
        code_length: D.
        composition: "linear", "lstm", "product", or a module with its own K, D and codeword size.
        assignment: by default a `FreeAssignment`, which learns codes with the task; `FixedAssignment` keeps them.

    Attributes:
        choice: "straight-through", "soft" or "gumbel"; of no effect with fixed codes or in evaluation mode.
        temperature: T of the tempering softmax; assign to it to follow a schedule.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        codebook_size: int = 32,
        code_length: int = 16,
        composition: str | CompositionModule = "linear",
        assignment: Assignment | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(composition, CompositionModule):
            options = CompressOptions(codebook_size, code_length, composition)
            composition = make_composition(options.code_shape(num_embeddings, embedding_dim))
        shape = composition.shape
        if assignment is None:
            assignment = FreeAssignment(num_embeddings, shape.code_length, shape.codebook_size)
        if assignment.num_embeddings != num_embeddings or shape.embedding_dim != embedding_dim:
            raise OptionError(
                f"a layer of {num_embeddings} x {embedding_dim} got an assignment of {assignment.num_embeddings} "
                f"symbols and a composition of {shape.embedding_dim} dimensions"
            )
        if (assignment.code_length, assignment.codebook_size) != (shape.code_length, shape.codebook_size):
            raise OptionError(
                f"an assignment with D={assignment.code_length}, K={assignment.codebook_size} does not fit "
                f"a composition with D={shape.code_length}, K={shape.codebook_size}"
            )
        self.assignment = assignment
        self.composition = composition
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = checked_padding(padding_idx, num_embeddings)
        self.choice = "straight-through"
        self.temperature = 1.0

    @classmethod
    def from_codes(
        cls,
        codes: Tensor,
        codebook_size: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        composition: str | CompositionModule = "linear",
    ) -> KDEmbedding:
        """A layer with fixed (N, D) codes and fresh codewords, to be trained in the task (section 4 of the paper)."""
        assignment = FixedAssignment(codes, codebook_size)
        layer = cls(
            len(codes),
            embedding_dim,
            padding_idx,
            codebook_size=codebook_size,
            code_length=codes.shape[1],
            composition=composition,
            assignment=assignment,
        )
        return layer.to(codes.device)

    @classmethod
    def from_coded(cls, coded: CodedTable, padding_idx: int | None = None) -> KDEmbedding:
        """A layer that starts as a coded table: its codes fixed, its codewords free to be trained on."""
        composition = make_composition(coded.shape)
        composition.load_numpy(coded.codebook.values, coded.composition)
        codes = torch.from_numpy(coded.codes.astype("int64"))
        assignment = FixedAssignment(codes, coded.codebook_size)
        return cls(len(coded), coded.embedding_dim, padding_idx, composition=composition, assignment=assignment)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        padding_idx: int | None = None,
        *,
        options: CompressOptions | None = None,
        **changes: Any,  # noqa: ANN401 - options of compression by name
    ) -> KDEmbedding:
        """A layer whose vectors approximate a given (N, d) table; codes are learned from it and then fixed."""
        from kdcode.learning.compress import compress
        from kdcode.table import VectorTable

        table = VectorTable(None, embeddings.detach().float().cpu().numpy())
        coded = compress(table, options, device=embeddings.device, **changes)
        return cls.from_coded(coded, padding_idx).to(embeddings.device)

    def to_coded(self, symbols: Sequence[str] | None = None, numbers: str = "float16") -> CodedTable:
        """The layer as a table to save and serve: its codes as they are now, its codewords in a number format.

        `padding_idx` is not kept: give it again to the layer that is made of the table.
        """
        words, twin = self.composition.to_numpy()
        return CodedTable.from_codes(symbols, self.codes.cpu().numpy(), Codebook.of(words, numbers), twin)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of any shape to ids.shape + (d,) vectors; each distinct id is composed once."""
        return once_per_id(ids, self._vectors)

    @property
    def codes(self) -> Tensor:
        """The (N, D) codes as they are now."""
        ids = torch.arange(self.num_embeddings, device=self.composition.codebook.device)
        return torch.cat([self.assignment.codes(part) for part in ids.split(_CHUNK_ROWS)])

    @property
    def weight(self) -> Tensor:
        """The whole (N, d) table, composed on request; gradients flow through it."""
        ids = torch.arange(self.num_embeddings, device=self.composition.codebook.device)
        return torch.cat([self._vectors(part) for part in ids.split(_CHUNK_ROWS)])

    def _vectors(self, ids: Tensor) -> Tensor:
        if self.training and isinstance(self.assignment, FreeAssignment):
            choose = CHOICES[self.choice]
            words = choose(self.assignment(ids), self.composition.codebook, self.temperature).words
            vectors: Tensor = self.composition(words)
        else:
            vectors = self.composition.compose(self.assignment.codes(ids))
        if self.padding_idx is not None:
            vectors = vectors.masked_fill((ids == self.padding_idx)[:, None], 0)
        return vectors

    def extra_repr(self) -> str:
        """Shape and choice for printing."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}, choice={self.choice!r}"
