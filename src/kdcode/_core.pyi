from typing import Any

import numpy
import numpy.typing


def isa() -> str:
    """The instruction set in use: plain, avx2, avx512 or neon."""

def sources() -> str:
    """A digest of the files of the core that this module was built from."""

def pack(values: numpy.typing.NDArray[numpy.integer[Any]], widths: bytes, packed: numpy.typing.NDArray[numpy.uint8]) -> None:
    """
    Pack (n, columns) integers into (n, row bytes) bytes; a value that does not fit is refused.
    """

def unpack(packed: numpy.typing.NDArray[numpy.uint8], widths: bytes, values: numpy.typing.NDArray[numpy.integer[Any]]) -> None:
    """
    Unpack (n, row bytes) bytes into (n, columns) values of uint8, uint16 or uint32.
    """

def value_at(packed: bytes, position: int, bits: int) -> int:
    """One of many values of `bits` bits each that stand one after another."""

class CodeRows:
    """Packed rows of codes, in memory or in a mapped file."""

    def __init__(self, packed: numpy.typing.NDArray[numpy.uint8], position_bits: int, level_bits: int, good: numpy.typing.NDArray[numpy.uint8], file_start: int) -> None: ...

class Codewords:
    """A codec whose codes choose among codewords."""

    def decode(self, code_rows: CodeRows, rows: numpy.typing.NDArray[numpy.int64], vectors: numpy.typing.NDArray[numpy.float32], done: int, zero_row: int, finite: bool) -> int:
        """
        Write the (n, d) vectors of rows; how many are done, fewer where a block of the file is not checked yet.
        """

    def decode_ids(self, code_rows: CodeRows, ids: Any, vectors: numpy.typing.NDArray[numpy.float32], zero_row: int) -> int:
        """The same for ids in a tensor of torch; vectors may be infinite."""

    def scan(self, code_rows: CodeRows, scores: Scores, floors: numpy.typing.NDArray[numpy.float32], first: int, stop: int, found: numpy.typing.NDArray[numpy.int64], found_scores: numpy.typing.NDArray[numpy.float32], counts: numpy.typing.NDArray[numpy.int64]) -> tuple[int, bool]:
        """
        Keep the rows whose score may exceed a floor; the row that is next, and whether its block is not checked yet.
        """

def sums(codebook: numpy.typing.NDArray[Any], codebook_scale: numpy.typing.NDArray[numpy.float32], basis: numpy.typing.NDArray[Any], basis_scale: numpy.typing.NDArray[numpy.float32], scale_levels: numpy.typing.NDArray[numpy.float32], embedding_dim: int, groups: int) -> Codewords:
    """The codec of linear, product and grouped codes."""

def lstm(codebook: numpy.typing.NDArray[Any], codebook_scale: numpy.typing.NDArray[numpy.float32], basis: numpy.typing.NDArray[Any], basis_scale: numpy.typing.NDArray[numpy.float32], scale_levels: numpy.typing.NDArray[numpy.float32], recurrent: numpy.typing.NDArray[Any], bias: numpy.typing.NDArray[Any]) -> Codewords:
    """The codec of an LSTM over codewords."""

class Scores:
    """What rows are compared with queries by."""

    def __init__(self, tables: numpy.typing.NDArray[numpy.float32], slack: numpy.typing.NDArray[numpy.float32], factors: numpy.typing.NDArray[numpy.float32], offsets: numpy.typing.NDArray[numpy.float32]) -> None: ...
