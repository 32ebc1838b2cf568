"""Size arithmetic: what a coded table takes, before and after it exists."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from kdcode import bitpack

NUMBER_BYTES = {"float32": 4, "float16": 2, "int8": 1}
"""How codewords may be stored, and the bytes of one number."""

MAX_CODEBOOK_SIZE = 1 << 16
"""The largest K."""


def weight_format(number_format: str) -> str:
    """How composition weights are stored beside codewords of `number_format`: only float32 ones keep them float32."""
    return "float32" if number_format == "float32" else "float16"


def weight_shapes(composition: str, codeword_dim: int, embedding_dim: int) -> dict[str, tuple[int, ...]]:
    """The weights that a composition of codewords of e numbers to vectors of d keeps beside the codebook."""
    if composition == "lstm":
        return {
            "recurrent": (4, codeword_dim, codeword_dim),
            "bias": (4, codeword_dim),
            "projection": (codeword_dim, embedding_dim),
        }
    if composition == "linear" and codeword_dim != embedding_dim:
        return {"projection": (codeword_dim, embedding_dim)}
    return {}


@dataclass(frozen=True)
class Sizes:
    """Bytes of a coded table, part by part. The same numbers are promised before learning and found in the file.

    Args:
        codes: packed codes, rows byte-aligned.
        codebook: codewords, with scales where they are int8.
        composition: H and the LSTM's weights.
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
        composition: linear, lstm or product.
        number_format: of the codewords.
    """

    num_embeddings: int
    embedding_dim: int
    codebook_size: int
    code_length: int
    codeword_dim: int
    composition: str
    number_format: str

    @property
    def parameters(self) -> int:
        """Numbers to learn, as the paper counts them: K·D·e codewords plus the composition's own; codes not counted."""
        return self.codebook_size * self.code_length * self.codeword_dim + self._composition_numbers()

    def sizes(self, symbol_bytes: int) -> Sizes:
        """The bytes of each part."""
        bits = bitpack.bits_for(self.codebook_size)
        numbers = self.codebook_size * self.code_length * self.codeword_dim
        scales = 4 * self.code_length if self.number_format == "int8" else 0
        return Sizes(
            codes=self.num_embeddings * bitpack.row_bytes(self.code_length, bits),
            codebook=numbers * NUMBER_BYTES[self.number_format] + scales,
            composition=self._composition_numbers() * NUMBER_BYTES[weight_format(self.number_format)],
            symbols=symbol_bytes,
        )

    def _composition_numbers(self) -> int:
        shapes = weight_shapes(self.composition, self.codeword_dim, self.embedding_dim)
        return sum(math.prod(shape) for shape in shapes.values())
