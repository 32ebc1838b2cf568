"""Size arithmetic: what a coded table takes, before and after it exists."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass

from kdcode import bitpack
from kdcode.errors import OptionError

NUMBER_BYTES = {"float32": 4, "float16": 2, "int8": 1}
"""How codewords may be stored, and the bytes of one number."""

MAX_CODEBOOK_SIZE = 1 << 16
"""The largest K."""

MAX_OVERHEAD_BYTES = 4096
"""What a file's header and metadata may add to the promised bytes."""

MAX_SCALE_BITS = 8
"""The most that a row's scale may take."""

_UNITS = {"b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}


def weight_format(number_format: str) -> str:
    """How composition weights are stored beside codewords of `number_format`: only float32 ones keep them float32."""
    return "float32" if number_format == "float32" else "float16"


SIDE_BY_SIDE = ("product", "grouped")
"""Compositions whose sums stand side by side; these may be turned by a rotation."""


def weight_shapes(
    composition: str, codeword_dim: int, embedding_dim: int, *, rotated: bool = False
) -> dict[str, tuple[int, ...]]:
    """The weights that a composition of codewords of e numbers to vectors of d keeps beside the codebook."""
    if composition == "lstm":
        return {
            "recurrent": (4, codeword_dim, codeword_dim),
            "bias": (4, codeword_dim),
            "projection": (codeword_dim, embedding_dim),
        }
    if composition == "linear" and codeword_dim != embedding_dim:
        return {"projection": (codeword_dim, embedding_dim)}
    if composition in SIDE_BY_SIDE and rotated:
        return {"rotation": (embedding_dim, embedding_dim)}
    return {}


def weight_tensors(
    composition: str, codeword_dim: int, embedding_dim: int, number_format: str, *, rotated: bool = False
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The number format and shape of each tensor that these weights are stored as, beside codewords of a format."""
    shapes = weight_shapes(composition, codeword_dim, embedding_dim, rotated=rotated)
    tensors = {name: (weight_format(number_format), shape) for name, shape in shapes.items()}
    if "rotation" in tensors and number_format == "int8":
        tensors["rotation"] = ("int8", shapes["rotation"])
        tensors["rotation_scale"] = ("float32", (embedding_dim, 1))
    return tensors


def scale_bytes(rows: int, bits: int) -> int:
    """What the scales of rows take: a level of b bits for each row, eight rows at a time, and 2^b levels."""
    return bits * -(-rows // 8) + 4 * (1 << bits) if bits else 0


@dataclass(frozen=True)
class Sizes:
    """Bytes of a coded table, part by part. The same numbers are promised before learning and found in the file.

    Args:
        codes: packed codes, rows byte-aligned, and the rows' scales.
        codebook: codewords, with scales where they are int8.
        composition: H, the rotation and the LSTM's weights.
        symbols: compressed symbols and their index.
    """

    codes: int
    codebook: int
    composition: int
    symbols: int

    @property
    def embedding(self) -> int:
        """What replaces the N x d floats: codes, codebook and composition."""
        return self.codes + self.codebook + self.composition

    @property
    def total(self) -> int:
        """Everything but the file's header and metadata."""
        return self.embedding + self.symbols

    def ratio(self, num_embeddings: int, embedding_dim: int) -> float:
        """How many times smaller than N x d float32 numbers, symbols left out on both sides."""
        return 4 * num_embeddings * embedding_dim / self.embedding

    def file_ratio(self, num_embeddings: int, embedding_dim: int, file_bytes: int) -> float:
        """How many times smaller the file is than float32 rows with the same stored symbols beside them."""
        return (4 * num_embeddings * embedding_dim + self.symbols) / file_bytes

    def as_dict(self) -> dict[str, int]:
        """The parts, their sum without symbols and their sum with them."""
        return {**asdict(self), "embedding": self.embedding, "total": self.total}


@dataclass(frozen=True)
class CodeShape:
    """What fixes the size of a coded table, apart from its symbols.

    Args:
        num_embeddings: N.
        embedding_dim: d.
        codebook_size: K.
        code_length: D.
        codeword_dim: e; d unless codewords are shorter and projected.
        composition: linear, lstm, product or grouped.
        number_format: of the codewords.
        rotated: whether sums that stand side by side are turned by a rotation.
        shared: whether all positions choose from the same K codewords, which are stored once.
        scale_bits: of the scale that every row has; 0 where rows have none.
    """

    num_embeddings: int
    embedding_dim: int
    codebook_size: int
    code_length: int
    codeword_dim: int
    composition: str
    number_format: str
    rotated: bool = False
    shared: bool = False
    scale_bits: int = 0

    @property
    def codebooks(self) -> int:
        """How many sets of K codewords there are."""
        return 1 if self.shared else self.code_length

    @property
    def parameters(self) -> int:
        """Numbers to learn, as the paper counts them: K·D·e of codewords and the composition's own, but no codes."""
        shapes = weight_shapes(self.composition, self.codeword_dim, self.embedding_dim, rotated=self.rotated)
        own = sum(math.prod(shape) for shape in shapes.values())
        return self.codebooks * self.codebook_size * self.codeword_dim + own

    def sizes(self, symbol_bytes: int) -> Sizes:
        """The bytes of each part."""
        bits = bitpack.bits_for(self.codebook_size)
        numbers = self.codebooks * self.codebook_size * self.codeword_dim
        scales = 4 * self.codebooks if self.number_format == "int8" else 0
        weights = weight_tensors(
            self.composition, self.codeword_dim, self.embedding_dim, self.number_format, rotated=self.rotated
        )
        return Sizes(
            codes=self.num_embeddings * bitpack.row_bytes(self.code_length, bits)
            + scale_bytes(self.num_embeddings, self.scale_bits),
            codebook=numbers * NUMBER_BYTES[self.number_format] + scales,
            composition=sum(NUMBER_BYTES[kind] * math.prod(shape) for kind, shape in weights.values()),
            symbols=symbol_bytes,
        )


@dataclass(frozen=True)
class SizeLimit:
    """How much a coded table may take; one of the three is given.

    Args:
        times: what replaces the vectors is to be this many times smaller than float32 rows; symbols left out.
        file_bytes: the file, with symbols and header, is to take no more than this.
        bits: a code is to have no more bits than this.
    """

    times: float | None = None
    file_bytes: int | None = None
    bits: int | None = None

    @classmethod
    def parse(cls, text: str | int) -> SizeLimit:
        """Read a size as people write it: 20x (times smaller), 500KB, 1.5MiB, or bytes as a number.

        Raises:
            OptionError: it is neither.
        """
        if isinstance(text, int) and not isinstance(text, bool) and text > 0:
            return cls(file_bytes=text)
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Z]*)\s*", str(text))
        number, unit = (float(found[1]), found[2].lower()) if found else (0.0, "")
        if unit == "x" and number > 1:
            return cls(times=number)
        if unit in ("", *_UNITS) and number * _UNITS.get(unit, 1) >= 1:
            return cls(file_bytes=int(number * _UNITS.get(unit, 1)))
        raise OptionError(f"size must be like 20x, 500KB, 2MiB or a number of bytes, got {text!r}")

    @classmethod
    def of_bits(cls, bits: int) -> SizeLimit:
        """A limit on the bits of a code alone."""
        if not isinstance(bits, int) or isinstance(bits, bool) or bits < 1:
            raise OptionError(f"bits must be an integer of at least 1, got {bits!r}")
        return cls(bits=bits)

    def allows(self, shape: CodeShape, symbol_bytes: int) -> bool:
        """Whether a coded table of this shape, with symbols of so many bytes, is small enough."""
        sizes = shape.sizes(symbol_bytes)
        if self.times is not None:
            return sizes.ratio(shape.num_embeddings, shape.embedding_dim) >= self.times
        if self.file_bytes is not None:
            return sizes.total + MAX_OVERHEAD_BYTES <= self.file_bytes
        return self.bits is None or shape.code_length * bitpack.bits_for(shape.codebook_size) <= self.bits

    def __str__(self) -> str:
        if self.times is not None:
            return f"{self.times:g}x"
        return f"{self.bits} bits" if self.file_bytes is None else f"{self.file_bytes:,} B"
