from collections.abc import Sequence
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

    def scan(self, code_rows: CodeRows, scores: Scores, floors: numpy.typing.NDArray[numpy.float32], first: int, stop: int, found: numpy.typing.NDArray[numpy.int64], lows: numpy.typing.NDArray[numpy.float32], highs: numpy.typing.NDArray[numpy.float32], counts: numpy.typing.NDArray[numpy.int64]) -> tuple[int, bool]:
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

class BlockRows:
    """Rows of entropy-coded blocks, in memory or in a mapped file."""

    def __init__(self, lengths: numpy.typing.NDArray[numpy.uint32], rows: int, rows_per_block: int, codes: numpy.typing.NDArray[numpy.uint8], classes: numpy.typing.NDArray[numpy.uint8], starts: numpy.typing.NDArray[numpy.uint8], breaks: numpy.typing.NDArray[numpy.uint64], good: numpy.typing.NDArray[numpy.uint8], file_starts: Sequence[int]) -> None: ...

    def copy(self, numbers: numpy.typing.NDArray[numpy.int64], copies: numpy.typing.NDArray[numpy.uint8], done: int) -> tuple[int, int, int]:
        """
        Write rows with their place and class. How many are done, and which bytes have to be checked first.
        """

    def check(self) -> None:
        """
        Refuse rows whose blocks do not begin where those before them end; all bytes must have been checked.
        """

class Transform:
    """A transform codec."""

    def __init__(self, dim: int, rows_per_block: int, states: int, signs: bool, values: int, group_sizes: numpy.typing.NDArray[numpy.uint8], group_contexts: numpy.typing.NDArray[numpy.uint8], lengths: numpy.typing.NDArray[numpy.uint32], class_contexts: numpy.typing.NDArray[numpy.int8], magnitudes: numpy.typing.NDArray[numpy.uint16], weights: numpy.typing.NDArray[numpy.uint8], centroid_frequencies: numpy.typing.NDArray[numpy.uint16], mean: numpy.typing.NDArray[numpy.float32], steps: numpy.typing.NDArray[numpy.float32], sides: numpy.typing.NDArray[numpy.float32], matrix: numpy.typing.NDArray[numpy.int8], matrix_scales: numpy.typing.NDArray[numpy.float32], centroids: numpy.typing.NDArray[numpy.float32], unit: float) -> None: ...

    def decode(self, rows: BlockRows, numbers: numpy.typing.NDArray[numpy.int64], vectors: numpy.typing.NDArray[numpy.float32], done: int, zero_row: int) -> tuple[int, int, int]:
        """
        Write the vectors of rows. How many are done, and which bytes of the file have to be checked first.
        """

    def decode_ids(self, rows: BlockRows, ids: Any, vectors: numpy.typing.NDArray[numpy.float32], zero_row: int) -> int:
        """The same for ids in a tensor of torch; how many are done."""

    def read(self, rows: BlockRows, numbers: numpy.typing.NDArray[numpy.int64], multiples: numpy.typing.NDArray[numpy.int32], others: numpy.typing.NDArray[numpy.uint32], done: int) -> tuple[int, int, int]:
        """
        Write the codes of rows: multiples, and centroid, class, number of sides, sides.
        """

    def prepare(self, rotation: numpy.typing.NDArray[numpy.float32]) -> None:
        """
        Take the rotation as it was before it was rounded, which `coordinates` needs.
        """

    def compose(self, multiples: numpy.typing.NDArray[numpy.int32], others: numpy.typing.NDArray[numpy.uint32], vectors: numpy.typing.NDArray[numpy.float32]) -> None:
        """Write the vectors of codes."""

    def coordinates(self, vectors: numpy.typing.NDArray[numpy.float32], coordinates: numpy.typing.NDArray[numpy.float32]) -> None:
        """Write the coordinates of vectors, in units."""

    def nearest(self, coordinates: numpy.typing.NDArray[numpy.float32], trade: float, numbers: numpy.typing.NDArray[numpy.uint16]) -> None:
        """Write the centroid of each of (n, d) coordinates in units."""

    def encode(self, coordinates: numpy.typing.NDArray[numpy.float32], numbers: numpy.typing.NDArray[numpy.uint16], trades: numpy.typing.NDArray[numpy.float32], allowed: numpy.typing.NDArray[numpy.uint8], used_of_last: int, largest: int, multiples: numpy.typing.NDArray[numpy.int32], others: numpy.typing.NDArray[numpy.uint32], bytes: numpy.typing.NDArray[numpy.uint8]) -> None:
        """
        Write the codes and bytes of blocks of coordinates in steps: multiples, and class, number of sides, sides.
        """

    def write(self, multiples: numpy.typing.NDArray[numpy.int32], numbers: numpy.typing.NDArray[numpy.uint16], others: numpy.typing.NDArray[numpy.uint32], room: numpy.typing.NDArray[numpy.int32], bytes: numpy.typing.NDArray[numpy.uint8]) -> None:
        """
        Write the bytes of the codes of blocks, and for how many sides they have room.
        """

    def count(self, multiples: numpy.typing.NDArray[numpy.int32], others: numpy.typing.NDArray[numpy.uint32], used_of_last: int, counts: numpy.typing.NDArray[numpy.int64]) -> None:
        """
        Add how often each magnitude occurs in blocks, by context and quantizer.
        """

    def level_bits(self, bits: numpy.typing.NDArray[numpy.float32]) -> None:
        """Write the bits of magnitudes by context and quantizer."""

class LevelQueries:
    """Queries that are compared with rows of transform codes."""

    def __init__(self, codec: object, queries: numpy.typing.NDArray[numpy.float64], planes: int) -> None: ...

    def slack(self) -> list[tuple[float, float]]:
        """
        How far products with each query may be off, and for each unit of a row's magnitudes.
        """

    def scan(self, rows: BlockRows, factors: numpy.typing.NDArray[numpy.float32], offsets: numpy.typing.NDArray[numpy.float32], extra: float, floors: numpy.typing.NDArray[numpy.float32], first: int, stop: int, found: numpy.typing.NDArray[numpy.int64], lows: numpy.typing.NDArray[numpy.float32], highs: numpy.typing.NDArray[numpy.float32], counts: numpy.typing.NDArray[numpy.int64]) -> tuple[int, int, int]:
        """
        Keep the rows whose score may exceed a floor; the row that is next, and which bytes of the file have to be checked first.
        """

    def score(self, rows: BlockRows, first: int, stop: int, scores: numpy.typing.NDArray[numpy.float32]) -> tuple[int, int, int]:
        """
        Write the dot products of rows with (q, d) queries into (q, N) scores; as `scan`.
        """

def score_int8(numbers: numpy.typing.NDArray[numpy.int8], scales: numpy.typing.NDArray[numpy.float32], queries: numpy.typing.NDArray[numpy.float64], first: int, stop: int, scores: numpy.typing.NDArray[numpy.float32]) -> None:
    """
    Write the dot products of (q, d) queries with some of (N, d) int8 rows times (N,) scales into (q, N).
    """

class FileStamp:
    """
    The size and time of change of an open file, when it was last looked at.
    """

    def __init__(self, descriptor: int) -> None: ...

    def changed(self) -> tuple[int, int] | None:
        """
        What the file is like now, its size and time of change in nanoseconds; None where both are as they were.
        """

    def seen(self, size: int, changed: int) -> None:
        """Take a change for known."""

    @property
    def size(self) -> int:
        """Bytes of the file."""

class Symbols:
    """Sorted symbols as docs/format.md has them; they read the arrays."""

    def __init__(self, count: int, strings: bytes, blocks: numpy.typing.NDArray[numpy.uint8], starts: numpy.typing.NDArray[numpy.uint8], order: numpy.typing.NDArray[numpy.uint8]) -> None: ...

    def watch(self, good: numpy.typing.NDArray[numpy.uint8], blocks: int, starts: int, order: int, check: object, notice_changes: object, stamp: object | None) -> None:
        """
        Check what is read of a file: which pieces are good, where the arrays begin, and who checks the others.
        """

    def find(self, symbol: str) -> int | None:
        """The row of a symbol."""

    def at(self, ranks: numpy.typing.NDArray[numpy.int64]) -> list[str]:
        """The symbols of (n,) ranks."""

    def text(self, first: int, end: int) -> bytes:
        """
        The symbols of the blocks from `first` to `end`, each followed by 0xFF.
        """

    def verify(self, first: int, end: int, seen: numpy.typing.NDArray[numpy.uint8]) -> None:
        """
        Check blocks against the specification, and set the bits of their rows in `seen`.
        """

class SymbolBuilder:
    """Codes sorted symbols; each is followed by 0xFF, and comes twice."""

    def __init__(self, count: int) -> None: ...

    def survey(self, text: bytes) -> tuple[str, int] | None:
        """
        Check the next symbols and learn from them; what is wrong with which of them, if anything is.
        """

    def learn(self) -> bytes:
        """The codes, after all symbols were surveyed."""

    def write(self, text: bytes) -> None:
        """Code the next symbols."""

    def finish(self) -> None:
        """Complete the last block."""

    def take(self) -> tuple[bytes, bytes, bytes]:
        """
        The heads, the blocks and the starts (pairs of uint64) since these were last taken.
        """

def pack_starts(pairs: bytes, head_bytes: int, place_bits: int) -> bytes:
    """
    Pack the starts of a SymbolBuilder, once it is known how many bytes of heads there are.
    """

def nearest(rows: numpy.typing.NDArray[numpy.float32], words: numpy.typing.NDArray[numpy.float32], labels: numpy.typing.NDArray[numpy.int64]) -> None:
    """
    Write the place of the nearest of (K, d) codewords for each of (n, d) rows.
    """

def multiply(rows: numpy.typing.NDArray[numpy.float32], matrix: numpy.typing.NDArray[numpy.float32], products: numpy.typing.NDArray[numpy.float32]) -> None:
    """Write the products of (n, k) rows and a (k, m) matrix."""

def add_rows(rows: numpy.typing.NDArray[numpy.float32], codes: numpy.typing.NDArray[numpy.integer[Any]], position: int, weights: numpy.typing.NDArray[numpy.float32], first: int, sums: numpy.typing.NDArray[numpy.float32]) -> None:
    """
    Add (n, d) rows, by weight, to the sums of the codewords `first`, `first + 1`, ... of a position.
    """

def count_pairs(codes: numpy.typing.NDArray[numpy.integer[Any]], first: int, second: int, weights: numpy.typing.NDArray[numpy.float32], counts: numpy.typing.NDArray[numpy.float32]) -> None:
    """
    Add to (K, K) counts how many rows, by weight, use two codewords of two positions.
    """

def count_pairs_by_weight(codes: numpy.typing.NDArray[numpy.integer[Any]], first: int, second: int, weights: numpy.typing.NDArray[numpy.float32], counts: numpy.typing.NDArray[numpy.float64]) -> None:
    """The same in double."""

def subtract_words(rows: numpy.typing.NDArray[numpy.float32], words: numpy.typing.NDArray[numpy.float32], codes: numpy.typing.NDArray[numpy.integer[Any]], left: numpy.typing.NDArray[numpy.float32]) -> None:
    """Write (n, d) rows less the codewords of their codes."""

class SumSearch:
    """The search for codes whose codewords add up to given vectors."""

    def __init__(self, words: numpy.typing.NDArray[numpy.float32]) -> None: ...

    def encode(self, rows: numpy.typing.NDArray[numpy.float32], beam: int, codes: numpy.typing.NDArray[numpy.integer[Any]]) -> None:
        """Write the codes of rows that beam search finds."""

    def sweep(self, rows: numpy.typing.NDArray[numpy.float32], codes: numpy.typing.NDArray[numpy.integer[Any]], order: numpy.typing.NDArray[numpy.uint32], temperatures: numpy.typing.NDArray[numpy.float32], places: numpy.typing.NDArray[numpy.uint64], noise: numpy.typing.NDArray[numpy.float32], keeps_nearer: bool) -> None:
        """
        Change codes by sweeps over all positions: ICM at temperature 0, else Gibbs sampling.
        """
