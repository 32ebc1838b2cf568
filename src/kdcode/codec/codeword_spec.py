"""CodewordSpec: the shape of codecs whose codes choose among codewords.

Linear, product and grouped codes are one kind of codec: coordinates in G blocks, each the sum of its positions'
codewords, times an optional basis. They differ in G alone, and `CodewordSpec.named` asks for them by their names:

    linear   G = 1   additive and residual quantization (AQ, RQ, LSQ); with codeword_dim, times a projection H
    product  G = D   product quantization (PQ); with a rotation, optimised product quantization (OPQ)
    grouped  between the two
    lstm     the paper's LSTM over codewords, a kind of its own
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.codec.quantized import DTYPE_BYTES, scale_shape
from kdcode.codec.sizes import Sizes
from kdcode.codec.spec import BLOCK_SUM, COMPOSITIONS, LSTM, TRANSFORM, CodecSpec, within
from kdcode.errors import OptionError, StorageError
from kdcode.limits import MemoryLimit
from kdcode.stored_array import PackedRows

MAX_SCALE_BITS = 8
"""The most that a row's scale may take."""

_GROUPS = 4


class Block(NamedTuple):
    """Some positions of a code, whose codewords add up to some coordinates."""

    positions: slice
    columns: slice

    @property
    def length(self) -> int:
        """How many positions."""
        return int(self.positions.stop - self.positions.start)

    @property
    def width(self) -> int:
        """How many coordinates."""
        return int(self.columns.stop - self.columns.start)


@dataclass(frozen=True)
class CodewordSpec(CodecSpec):
    """The shape of a codec whose positions choose among codewords.

    Args:
        kind: block-sum or lstm.
        embedding_dim: d.
        codebook_size: K.
        code_length: D.
        inner_dim: coordinates that codewords add up to, before the basis; the hidden size of an LSTM.
        groups: G, the blocks that coordinates and positions are split into; 1 for an LSTM.
        basis: whether an (inner_dim, d) matrix leads from coordinates to vectors: the paper's H, or a rotation.
        codebook_dtype: how codebook and basis are stored: float32, float16 or int8.
        scale_bits: of the scale that every row has; 0 where rows have none.

    Raises:
        OptionError: numbers that do not fit together.
    """

    code_length: int
    inner_dim: int
    groups: int = 1
    basis: bool = False
    codebook_dtype: str = "float16"
    scale_bits: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in (BLOCK_SUM, LSTM):
            raise OptionError(f"kind: expected {BLOCK_SUM} or {LSTM}, got {self.kind!r}")
        if self.codebook_dtype not in DTYPE_BYTES:
            raise OptionError(f"codebook_dtype must be one of {', '.join(DTYPE_BYTES)}, got {self.codebook_dtype!r}")
        within("scale_bits", self.scale_bits, 0, MAX_SCALE_BITS)
        within("inner_dim", self.inner_dim, 1, 1 << 48)
        one_block = self.kind != BLOCK_SUM or self.inner_dim != self.embedding_dim
        within("groups", self.groups, 1, 1 if one_block else min(self.code_length, self.inner_dim))
        if not self.basis and (self.kind == LSTM or self.inner_dim != self.embedding_dim):
            raise OptionError(
                f"a codec of {self.inner_dim} inner and {self.embedding_dim} outer dimensions needs a basis"
            )

    @classmethod
    def named(  # noqa: PLR0913 - one argument per option that decides the shape
        cls,
        composition: str,
        embedding_dim: int,
        codebook_size: int,
        code_length: int,
        *,
        codeword_dim: int | None = None,
        groups: int | None = None,
        rotation: bool = False,
        codebook_dtype: str = "float16",
        scale_bits: int = 0,
    ) -> CodewordSpec:
        """The spec of a composition by its name in `COMPOSITIONS`.

        Args:
            composition: linear, product, grouped or lstm.
            embedding_dim: d.
            codebook_size: K.
            code_length: D.
            codeword_dim: of linear codes and of an LSTM; d where left out.
            groups: of grouped codes; about 4 where left out.
            rotation: whether product and grouped codes have a rotation.
            codebook_dtype: float32, float16 or int8.
            scale_bits: of the scale of every row.
        """
        if composition == TRANSFORM:
            raise OptionError("composition: the shape of a transform codec follows from a table; use compress")
        if composition not in COMPOSITIONS:
            raise OptionError(f"composition must be one of {', '.join(COMPOSITIONS)}, got {composition!r}")
        kind, inner, blocks, basis = BLOCK_SUM, embedding_dim, 1, rotation
        if composition == "lstm":
            kind, inner, basis = LSTM, codeword_dim or embedding_dim, True
        elif composition == "linear":
            inner = codeword_dim or embedding_dim
            basis = inner != embedding_dim
        elif composition == "product":
            blocks = code_length
            if code_length > embedding_dim:
                raise OptionError(
                    f"code_length: a product code of length {code_length} needs at least as many dimensions, got "
                    f"{embedding_dim}; use a shorter code or the linear composition"
                )
        else:
            blocks = groups or min(_GROUPS, embedding_dim, code_length)
            if blocks > min(embedding_dim, code_length):
                raise OptionError(
                    f"groups: {blocks} groups need as many positions and dimensions, got a code of {code_length} "
                    f"positions and {embedding_dim} dimensions; use fewer groups"
                )
        return cls(kind, embedding_dim, codebook_size, code_length, inner, blocks, basis, codebook_dtype, scale_bits)

    @property
    def composition(self) -> str:
        """The name in `COMPOSITIONS` that asks for this shape."""
        if self.kind == LSTM:
            return "lstm"
        if self.groups == 1:
            return "linear"
        return "product" if self.groups == self.code_length else "grouped"

    @property
    def codeword_dim(self) -> int:
        """e, the numbers in a codeword: the coordinates of the widest block."""
        return -(-self.inner_dim // self.groups)

    @property
    def is_rotated(self) -> bool:
        """Whether the basis is a rotation."""
        return self.kind == BLOCK_SUM and self.basis and self.inner_dim == self.embedding_dim

    @property
    def words(self) -> str:
        """The shape in words: K=256, D=48, product, rotated."""
        rotated = ", rotated" if self.is_rotated else ""
        return f"K={self.codebook_size}, D={self.code_length}, {self.composition}{rotated}"

    @property
    def adds_codewords(self) -> bool:
        """Whether vectors are sums of codewords, in blocks or not, times a basis or not."""
        return self.kind == BLOCK_SUM

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Which positions add up to which coordinates: both are split as evenly as possible, larger parts first."""
        positions, columns = _split(self.code_length, self.groups), _split(self.inner_dim, self.groups)
        return tuple(Block(*pair) for pair in zip(positions, columns, strict=True))

    @property
    def column_ends(self) -> tuple[int, ...]:
        """What the integers of each column of a code are below."""
        scale = (1 << self.scale_bits,) if self.scale_bits else ()
        return (self.codebook_size,) * self.code_length + scale

    @property
    def bits(self) -> int:
        """Bits of one code, with the scale of its row."""
        return sum(self.widths)

    @property
    def row_bytes(self) -> int:
        """Bytes of one packed row."""
        return (self.bits + 7) // 8

    @property
    def has_invalid_codes(self) -> bool:
        """Whether the bits of a position can say more than K values."""
        return self.codebook_size != 1 << bitpack.bits_for(self.codebook_size)

    @property
    def row_width(self) -> int:
        """The most floats that a row has at once on the way from its code to its vector."""
        return max(self.inner_dim, self.embedding_dim)

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """The learned tensors by name: the codebook (D, K, e), the basis, the weights of an LSTM."""
        width = self.codeword_dim
        shapes: dict[str, tuple[int, ...]] = {"codebook": (self.code_length, self.codebook_size, width)}
        if self.basis:
            shapes["basis"] = (self.inner_dim, self.embedding_dim)
        if self.kind == LSTM:
            shapes |= {"recurrent": (4, width, width), "bias": (4, width)}
        return shapes

    def tensor_layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The type and shape of every stored tensor but codes and symbols, by name."""
        layout: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name, shape in self.weight_shapes().items():
            if name in ("recurrent", "bias"):
                layout[name] = ("float32" if self.codebook_dtype == "float32" else "float16", shape)
                continue
            layout[name] = (self.codebook_dtype, shape)
            if self.codebook_dtype != "float32":
                layout[f"{name}_scale"] = ("float32", scale_shape(shape))
        if self.scale_bits:
            layout["scale_levels"] = ("float32", (1 << self.scale_bits,))
        return layout

    def row_layout(self, num_embeddings: int) -> dict[str, tuple[str, tuple[int | None, ...]]]:
        """The type and shape of the stored tensors of N rows, by name; None for what the rows themselves decide."""
        return {"codes": ("uint8", (num_embeddings, self.row_bytes))}

    @property
    def parameters(self) -> int:
        """Numbers to learn, as the paper counts them: K·D·e of codewords and the composition's own, but no codes."""
        return sum(math.prod(shape) for shape in self.weight_shapes().values())

    def sizes(self, num_embeddings: int, symbol_bytes: int = 0) -> Sizes:
        """The bytes of each part of a table of N rows."""
        parts = {name: DTYPE_BYTES[dtype] * math.prod(shape) for name, (dtype, shape) in self.tensor_layout().items()}
        codebook = parts["codebook"] + parts.get("codebook_scale", 0)
        return Sizes(num_embeddings * self.row_bytes, codebook, sum(parts.values()) - codebook, symbol_bytes)

    def sizes_of_rows(self, rows: PackedRows, symbol_bytes: int = 0) -> Sizes:
        """The bytes of each part of a table of given rows."""
        return self.sizes(len(rows), symbol_bytes)

    def check_memory(self, limit: MemoryLimit, num_embeddings: int) -> None:
        """Refuse a file whose tensors take too much memory once they are float32, or tables of a search over it.

        Raises:
            LimitError: the tensor is named.
        """
        for name, shape in self.weight_shapes().items():
            limit.check(f"{name}: {' x '.join(map(str, shape))} numbers as float32", 4 * math.prod(shape))
        scores = self.code_length * self.codebook_size
        limit.check(f"codebook: a score for each of {scores} codewords, in a search for neighbours,", 8 * scores)
        limit.check(f"num_embeddings: the lengths of {num_embeddings} vectors, for neighbours,", 8 * num_embeddings)


def check_values(codes: npt.NDArray[np.integer[Any]], spec: CodewordSpec) -> None:
    """Refuse (n, columns) codes that were read from somewhere, and that no table of this shape has.

    Raises:
        StorageError: the largest value is named.
    """
    most = int(codes[:, : spec.code_length].max(initial=0))
    if most >= spec.codebook_size:
        raise StorageError(f"codes: found code value {most}, values must be below K={spec.codebook_size}")
    level = int(codes[:, spec.code_length :].max(initial=0))
    if level >= 1 << spec.scale_bits:
        raise StorageError(f"codes: found level {level} of a row scale, levels must be below {1 << spec.scale_bits}")


def _split(count: int, parts: int) -> list[slice]:
    """`count` things in order, split among `parts` as evenly as possible, larger parts first."""
    each, larger = divmod(count, parts)
    ends = list(accumulate([each + 1] * larger + [each] * (parts - larger)))
    return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
