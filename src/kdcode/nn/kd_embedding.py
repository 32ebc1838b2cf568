"""KDEmbedding: an embedding layer that stores codes and codewords in place of a table, and learns both in the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from kdcode.codec import CodecSpec, Sizes
from kdcode.codec_torch import CodecModule, make_module, module_of
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.nn.assignment import LEARNED, Assignment, FixedAssignment
from kdcode.nn.code_shape import code_shape
from kdcode.nn.coded_embedding import CodedEmbedding
from kdcode.nn.coded_layer import CodedSource, as_coded
from kdcode.nn.embedding_layer import EmbeddingLayer
from kdcode.nn.estimators import ESTIMATORS

DEFAULT_SIZE = "20x"
"""Of a layer for which neither a size nor a shape is asked for."""


class KDEmbedding(EmbeddingLayer):
    """Drop-in for `nn.Embedding` whose vectors are composed from D codewords chosen out of K each.

    Three parts, each replaceable: an assignment (symbol to code), a gradient estimator (how gradients reach a learnable
    assignment) and a codec (codewords to vector). Fresh vectors have the variance of a fresh `nn.Embedding`.

    Args:
        num_embeddings: N.
        embedding_dim: d.
        padding_idx: symbol whose vector is zero and never trained.
        size: how small the layer is to be once it is frozen: "20x", "500KB", or bytes; gives K and D of a product code.
            "20x" where neither a size nor a shape is given.
        codebook_size: K; 32 where D or a composition is given without it.
        code_length: D; 16 where K or a composition is given without it.
        composition: "linear" (where K or D is given without it), "lstm", "product" or "grouped"; or a `CodecModule`
            with its own K, D and codeword size.
        assignment: "query" (a `QueryAssignment`) or "free" (a `FreeAssignment`) learn codes with the task; or an
            assignment of your own making, such as a `FixedAssignment`.
        device: where the layer lives.
        dtype: type of parameters and vectors, as in `nn.Embedding`.

    Attributes:
        estimator: "straight-through", "soft" or "gumbel"; of no effect with fixed codes or in evaluation mode.
        temperature: T of the softmax; assign to it to follow a schedule.
    """

    def __init__(  # noqa: PLR0913 - those of nn.Embedding, and the parts
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        size: str | int | None = None,
        codebook_size: int | None = None,
        code_length: int | None = None,
        composition: str | CodecModule | None = None,
        assignment: str | Assignment = "query",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        if not isinstance(composition, CodecModule):
            named = {"codebook_size": codebook_size, "code_length": code_length, "composition": composition}
            composition = make_module(_spec(num_embeddings, embedding_dim, size, named), device=device)
        elif size is not None:
            raise OptionError("size: a composition that is a CodecModule has its own; leave size out")
        spec = composition.spec
        if isinstance(assignment, str):
            place = composition.codebook.device if device is None else device
            assignment = _assignment(assignment, num_embeddings, spec, place)
        _check_fit(num_embeddings, embedding_dim, assignment, spec)
        self.assignment = assignment
        self.codec = composition
        self.estimator = "straight-through"
        self.temperature = 1.0
        self.to(device=device, dtype=dtype)

    @classmethod
    def from_codes(
        cls,
        codes: Tensor,
        codebook_size: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        composition: str | CodecModule | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> KDEmbedding:
        """A layer with fixed (N, D) codes and fresh codewords, to be trained in the task (section 4 of the paper).

        It lives on the device of the codes, unless another is asked for.
        """
        return cls(
            len(codes),
            embedding_dim,
            padding_idx,
            codebook_size=codebook_size,
            code_length=codes.shape[1],
            composition=composition,
            assignment=FixedAssignment(codes, codebook_size),
            device=codes.device if device is None else device,
            dtype=dtype,
        )

    @classmethod
    def from_coded(
        cls,
        coded: CodedSource,
        padding_idx: int | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> KDEmbedding:
        """A layer that starts as a coded table, or that of a .kdc file: its codes fixed, its codewords to be trained.

        `KDEmbedding.from_coded(kdcode.compress(table))` starts from a table of vectors.
        """
        coded = as_coded(coded)
        codes = torch.from_numpy(coded.codes.astype("int64"))
        return cls(
            len(coded),
            coded.embedding_dim,
            padding_idx,
            composition=module_of(coded.codec),
            assignment=FixedAssignment(codes, coded.codebook_size, coded.code_length),
            device=device,
            dtype=dtype,
        )

    @property
    def sizes(self) -> Sizes:
        """The bytes that the layer takes once it is frozen, known before it is trained; symbols left out."""
        return self.codec.spec.sizes(self.num_embeddings)

    def freeze(self, codebook_dtype: str | None = None) -> CodedEmbedding:
        """The layer for serving: codes packed, codewords as they are; its vectors are those of evaluation mode.

        Args:
            codebook_dtype: how codewords are stored: "float32", or "float16" or "int8", which round them; by default
                float32, or the type of the coded table that the layer was made from.
        """
        coded = self.to_coded(codebook_dtype=codebook_dtype)
        dtype = self.codec.dtype
        return CodedEmbedding(coded, self.padding_idx, device=self.device, dtype=dtype).train(self.training)

    def to_coded(self, symbols: Sequence[str] | None = None, codebook_dtype: str | None = None) -> CodedTable:
        """The layer as a table to save and serve: its codes as they are now, its codewords in a number type.

        `padding_idx` is not kept: give it again to the layer that is made of the table.

        Args:
            symbols: names of the rows; row numbers where left out.
            codebook_dtype: as in `freeze`.
        """
        return CodedTable.from_codes(symbols, self.codes.cpu().numpy(), self.codec.to_codec(codebook_dtype))

    @property
    def device(self) -> torch.device:
        """Where the layer is, and where its ids must be."""
        return self.codec.codebook.device

    def codes_of(self, ids: Tensor) -> Tensor:
        """(n,) ids to their (n, columns) codes."""
        return self.assignment.codes(ids)

    def vectors_of(self, ids: Tensor) -> Tensor:
        """(n,) ids to (n, d) vectors, by the gradient estimator where codes are being learned."""
        if not self.training or isinstance(self.assignment, FixedAssignment):
            return self.codec.decode(self.codes_of(ids))
        words = ESTIMATORS[self.estimator](self.assignment(ids), self.codec.codebook, self.temperature).words
        vectors: Tensor = self.codec(words)
        return vectors

    def extra_repr(self) -> str:
        """Shape and estimator for printing."""
        return f"{super().extra_repr()}, estimator={self.estimator!r}"


def _spec(num_embeddings: int, embedding_dim: int, size: str | int | None, named: Mapping[str, Any]) -> CodecSpec:
    """The shape that was asked for: by a size, or by K, D and a composition, with defaults for what was left out."""
    given = {name: value for name, value in named.items() if value is not None}
    if size is None and given:
        shape = {"composition": "linear", "codebook_size": 32, "code_length": 16, **given}
        return CodecSpec.named(embedding_dim=embedding_dim, codebook_dtype="float32", **shape)
    if size is not None and given:
        raise OptionError(f"size gives the shape of the code; leave {', '.join(given)} out, or size")
    return code_shape(num_embeddings, embedding_dim, DEFAULT_SIZE if size is None else size)


def _assignment(name: str, num_embeddings: int, spec: CodecSpec, device: torch.device | str) -> Assignment:
    """A fresh assignment by its name."""
    if name not in LEARNED:
        raise OptionError(f"assignment must be one of {', '.join(LEARNED)}, or an assignment, got {name!r}")
    return LEARNED[name](num_embeddings, spec.code_length, spec.codebook_size, device=device)


def _check_fit(num_embeddings: int, embedding_dim: int, assignment: Assignment, spec: CodecSpec) -> None:
    """Refuse parts that belong to layers of another shape."""
    if assignment.num_embeddings != num_embeddings or spec.embedding_dim != embedding_dim:
        raise OptionError(
            f"a layer of {num_embeddings} x {embedding_dim} got an assignment of {assignment.num_embeddings} "
            f"symbols and a codec of {spec.embedding_dim} dimensions"
        )
    if (assignment.code_length, assignment.codebook_size) != (spec.code_length, spec.codebook_size):
        raise OptionError(
            f"an assignment with D={assignment.code_length}, K={assignment.codebook_size} does not fit "
            f"a codec with D={spec.code_length}, K={spec.codebook_size}"
        )
    columns = assignment.stored.shape[1] if isinstance(assignment, FixedAssignment) else assignment.code_length
    if columns != len(spec.widths):
        raise OptionError(
            f"codes of this codec have {len(spec.widths)} columns, got {columns}; one is the level of a row's scale"
        )
