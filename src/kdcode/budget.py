"""Size arithmetic: what a coded table takes, before and after it exists."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from kdcode import bitpack

NUMBER_BYTES = {"float32": 4, "float16": 2, "int8": 1}
"""How codewords may be stored. Composition weights are float32 beside float32 codewords and float16 otherwise."""


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
            composition=self._composition_numbers() * (4 if self.number_format == "float32" else 2),
            symbols=symbol_bytes,
        )

    def _composition_numbers(self) -> int:
        size, dim = self.codeword_dim, self.embedding_dim
        if self.composition == "lstm":
            return 4 * size * size + 4 * size + size * dim
        return size * dim if self.composition == "linear" and size != dim else 0
