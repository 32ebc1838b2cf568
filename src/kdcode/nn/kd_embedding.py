"""KDEmbedding: an embedding layer that stores codes and codewords in place of a table, and learns both in the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from kdcode.codec import CodewordSpec, Sizes
from kdcode.codec_torch import CodecModule, make_module, module_of
from kdcode.codec_torch.lookup import lookup, scale_rows
from kdcode.coded import CodedTable
from kdcode.errors import OptionError
from kdcode.nn.assignment import LEARNED, Assignment, FixedAssignment, FreeAssignment, LearnedAssignment
from kdcode.nn.code_shape import code_shape
from kdcode.nn.coded_embedding import CodedEmbedding
from kdcode.nn.coded_layer import CodedSource, as_coded
from kdcode.nn.embedding_layer import EmbeddingLayer
from kdcode.nn.estimators import ESTIMATORS

DEFAULT_SIZE = "20x"
"""Of a layer for which neither a size nor a shape is asked for."""

LEARNED_STD = 0.3
"""Standard deviation of vectors of random codewords, where codes are learned."""

FIRST_SHARE = 0.2
"""How large the codewords are that all symbols start with, beside the others."""


class KDEmbedding(EmbeddingLayer):
    """Drop-in for `nn.Embedding` whose vectors are composed from D codewords chosen out of K each.

    Three parts, each replaceable: an assignment (symbol to code), a gradient estimator (how gradients reach a learnable
    assignment) and a codec (codewords to vector).

    Where codes are learned, all symbols start with the same code, of small codewords. A symbol takes others when its
    gradients ask for them; symbols that are hardly seen keep a vector near zero. Vectors of random
    codewords have a standard deviation of 0.3; `reset_codewords` changes it.

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
        assignment: "free" (a `FreeAssignment`) or "query" (a `QueryAssignment`, which takes less memory) learn codes
            with the task; or an assignment of your own making, such as a `FixedAssignment`.
        device: where the layer lives.
        dtype: type of parameters and vectors, as in `nn.Embedding`.

    Attributes:
        estimator: "straight-through", "soft" or "gumbel"; of no effect with fixed codes or in evaluation mode.
        temperature: T of the softmax; assign to it to follow a schedule.
        code_dropout: share of codewords left out of vectors in training, others being enlarged instead; 0 at first.
            A dropout of whole positions: the model does not come to rely on any one of them.
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
        assignment: str | Assignment = "free",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        is_fresh = not isinstance(composition, CodecModule)
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
        self.code_dropout = 0.0
        if is_fresh and isinstance(assignment, LearnedAssignment):
            self.reset_codewords(LEARNED_STD)
        self.to(device=device, dtype=dtype)

    @torch.no_grad()
    def reset_codewords(self, std: float) -> None:
        """Draw fresh codewords.

        Args:
            std: standard deviation of vectors that are composed from random codewords. Where codes are learned, the
                first codewords of all positions, which every symbol starts with, are five times smaller.
        """
        self.codec.reset_parameters()
        outermost = self.codec.codebook if self.codec.basis is None else self.codec.basis
        outermost.mul_(std)
        if isinstance(self.assignment, LearnedAssignment):
            self.codec.codebook[:, 0].mul_(FIRST_SHARE)

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
        learn_codes: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> KDEmbedding:
        """A layer that starts as a coded table, or that of a .kdc file: its codes fixed, its codewords to be trained.

        `KDEmbedding.from_coded(kdcode.compress(table))` starts from a table of vectors.

        Args:
            coded: the table.
            padding_idx: symbol whose vector is zero and never trained.
            learn_codes: whether codes are trained further too, by a `FreeAssignment` that begins with them. Give
                `make_optimizer` a small `row_lr` then, such as 0.03, so that they are not forgotten at once.
            device: where the layer lives.
            dtype: type of parameters and vectors.

        Raises:
            OptionError: the table has transform codes; or codes are to be learned, and rows of the table have scales,
                which no assignment learns.
        """
        coded = as_coded(coded)
        codec = coded.codewords
        if codec is None:
            raise OptionError(
                "coded: transform codes have no codewords to train; compress the table with codewords=True, or "
                "use CodedEmbedding, which is not trained"
            )
        codes = torch.from_numpy(coded.codes.astype("int64"))
        assignment: Assignment = FixedAssignment(codes, coded.codebook_size, coded.code_length)
        if learn_codes:
            if codec.spec.scale_bits:
                raise OptionError("learn_codes: rows of this table have scales; compress it with scale_bits=0")
            assignment = FreeAssignment.from_codes(codes, coded.codebook_size)
        composition = module_of(codec)
        return cls(
            len(coded),
            coded.embedding_dim,
            padding_idx,
            composition=composition,
            assignment=assignment,
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
        if not self.training:
            return self.codec.decode(self.codes_of(ids))
        if isinstance(self.assignment, FixedAssignment):
            codes = self.codes_of(ids)
            if not self.code_dropout:
                return self.codec.decode(codes)
            words = lookup(codes[:, : self.assignment.code_length], self.codec.codebook)
            return scale_rows(self.codec(self._drop(words)), codes, self.codec.scale_levels)
        words = ESTIMATORS[self.estimator](self.assignment(ids), self.codec.codebook, self.temperature).words
        vectors: Tensor = self.codec(self._drop(words))
        return vectors

    def _drop(self, words: Tensor) -> Tensor:
        """(n, D, e) codewords, of which some are left out."""
        if not self.code_dropout:
            return words
        kept = F.dropout(words.new_ones(words.shape[:2]), self.code_dropout)
        return words * kept[:, :, None]

    def extra_repr(self) -> str:
        """Shape and estimator for printing."""
        return f"{super().extra_repr()}, estimator={self.estimator!r}"


def _spec(num_embeddings: int, embedding_dim: int, size: str | int | None, named: Mapping[str, Any]) -> CodewordSpec:
    """The shape that was asked for: by a size, or by K, D and a composition, with defaults for what was left out."""
    given = {name: value for name, value in named.items() if value is not None}
    if size is None and given:
        shape = {"composition": "linear", "codebook_size": 32, "code_length": 16, **given}
        return CodewordSpec.named(embedding_dim=embedding_dim, codebook_dtype="float32", **shape)
    if size is not None and given:
        raise OptionError(f"size gives the shape of the code; leave {', '.join(given)} out, or size")
    return code_shape(num_embeddings, embedding_dim, DEFAULT_SIZE if size is None else size)


def _assignment(name: str, num_embeddings: int, spec: CodewordSpec, device: torch.device | str) -> Assignment:
    """A fresh assignment by its name."""
    if name not in LEARNED:
        raise OptionError(f"assignment must be one of {', '.join(LEARNED)}, or an assignment, got {name!r}")
    return LEARNED[name](num_embeddings, spec.code_length, spec.codebook_size, device=device)


def _check_fit(num_embeddings: int, embedding_dim: int, assignment: Assignment, spec: CodewordSpec) -> None:
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
