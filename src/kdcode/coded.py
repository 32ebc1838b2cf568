"""CodedTable: symbols, codes, codebook and composition, and everything one can ask of them without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import bitpack, encoding, search
from kdcode.budget import CodeShape, Sizes
from kdcode.codebook import Codebook
from kdcode.composition import Composition, Linear, as_stored
from kdcode.errors import OptionError, RowError, StorageError
from kdcode.row_scales import RowScales, directions
from kdcode.search import Neighbor
from kdcode.symbols import StoredSymbols
from kdcode.table import CHUNK_ROWS, FloatArray, IntArray, RowNumbers, VectorTable

Code = tuple[int, ...]

_FLOATS_AT_ONCE = 1 << 18
"""Of decoded vectors: sums over positions stay near the processor."""


class CodedTable:
    """A compressed table: N codes of D integers, and what composes them into N vectors of size d.

    Usually comes from `kdcode.compress` or `kdcode.load`; `from_codes` builds one by hand.

    Args:
        symbols: compact symbols, or `RowNumbers` for a table without.
        packed: (N, row bytes) packed codes; may be memory-mapped.
        codebook: (D, K, e) codewords.
        composition: how the codewords of a code become a vector.
        provenance: JSON values that say how the codes were learned; kept in the file.
        scales: what multiplies the composed vector of each row; nothing where left out.

    Raises:
        OptionError: the parts do not fit together.
    """

    def __init__(
        self,
        symbols: StoredSymbols | RowNumbers,
        packed: npt.NDArray[np.uint8],
        codebook: Codebook,
        composition: Composition,
        provenance: Mapping[str, Any] | None = None,
        scales: RowScales | None = None,
    ) -> None:
        if scales is not None and scales.count != len(packed):
            raise OptionError(f"{scales.count} scales for {len(packed)} codes: there must be one scale per code")
        if len(symbols) != len(packed):
            raise OptionError(f"{len(symbols)} symbols for {len(packed)} codes: there must be one symbol per code")
        width = bitpack.row_bytes(codebook.code_length, bitpack.bits_for(codebook.codebook_size))
        if packed.dtype != np.uint8 or packed.shape[1:] != (width,) or len(packed) < 1:
            raise OptionError(f"codes: expected uint8 of shape (rows, {width}), got {packed.dtype} of {packed.shape}")
        self.symbols = symbols
        self.packed = packed
        self.codebook = codebook
        self.composition = as_stored(composition, codebook)
        self.provenance = dict(provenance or {})
        self.scales = scales

    @classmethod
    def from_codes(
        cls,
        symbols: Sequence[str] | None,
        codes: IntArray,
        codebook: Codebook | FloatArray,
        composition: Composition | None = None,
        provenance: Mapping[str, Any] | None = None,
        scales: RowScales | None = None,
    ) -> CodedTable:
        """Build a table from (N, D) codes in [0, K) and (D, K, e) codewords; the composition is linear by default."""
        book = codebook if isinstance(codebook, Codebook) else Codebook.of(np.asarray(codebook, dtype=np.float32))
        codes = np.asarray(codes)
        if len(codes) < 1:
            raise OptionError("a coded table needs at least one row, got none")
        _check_codes(codes, book)
        packed = bitpack.pack(codes, bitpack.bits_for(book.codebook_size))
        stored: StoredSymbols | RowNumbers
        if symbols is None:
            stored = RowNumbers(len(codes))
        else:
            stored = symbols if isinstance(symbols, StoredSymbols | RowNumbers) else StoredSymbols.build(symbols)
        used: Composition = Linear(book.codeword_dim) if composition is None else composition
        return cls(stored, packed, book, used, provenance, scales)

    def __len__(self) -> int:
        return len(self.packed)

    def __repr__(self) -> str:
        return (
            f"<CodedTable: {len(self)} symbols, {self.embedding_dim} dimensions, K={self.codebook_size}, "
            f"D={self.code_length}, {self.composition.name}>"
        )

    @property
    def codebook_size(self) -> int:
        """K."""
        return self.codebook.codebook_size

    @property
    def code_length(self) -> int:
        """D."""
        return self.codebook.code_length

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""
        return self.composition.embedding_dim

    @property
    def bits_per_symbol(self) -> int:
        """Bits of one code, before rows are rounded up to whole bytes, and of a row's scale."""
        scale = 0 if self.scales is None else self.scales.bits
        return self.code_length * bitpack.bits_for(self.codebook_size) + scale

    @property
    def shape(self) -> CodeShape:
        """What fixes the size of this table."""
        return CodeShape(
            num_embeddings=len(self),
            embedding_dim=self.embedding_dim,
            codebook_size=self.codebook_size,
            code_length=self.code_length,
            codeword_dim=self.codebook.codeword_dim,
            composition=self.composition.name,
            number_format=self.codebook.number_format,
            rotated="rotation" in self.composition.weights(),
            shared=self.codebook.shared,
            scale_bits=0 if self.scales is None else self.scales.bits,
        )

    @property
    def sizes(self) -> Sizes:
        """Bytes of each part, as stored."""
        return self.shape.sizes(self.symbols.nbytes if isinstance(self.symbols, StoredSymbols) else 0)

    @cached_property
    def codes(self) -> npt.NDArray[np.unsignedinteger[Any]]:
        """All codes as (N, D) integers; unpacked once, at first use."""
        return self._unpack(self.packed)

    @cached_property
    def norms(self) -> FloatArray:
        """(N,) lengths of the vectors; computed chunk by chunk at first use."""
        norms = np.empty(len(self), dtype=np.float32)
        for start, codes in self.code_chunks():
            norms[start : start + len(codes)] = np.linalg.norm(self.compose(codes), axis=1)
        return norms if self.scales is None else norms * self.scales.at(slice(None))

    def __getitem__(self, symbol: str) -> FloatArray:
        """The (d,) vector of `symbol`.

        Raises:
            UnknownSymbolError: the table has no such symbol.
        """
        return self.decode(self.row_of(symbol))

    def __contains__(self, symbol: object) -> bool:
        return symbol in self.symbols

    def row_of(self, symbol: str) -> int:
        """The row number of `symbol`."""
        if not isinstance(symbol, str):
            raise OptionError(f"a symbol is a string, got {symbol!r}; use decode for row numbers")
        return self.symbols.row_of(symbol)

    def symbols_at(self, rows: IntArray) -> list[str]:
        """The symbols of several rows."""
        picked = [int(row) for row in rows]
        return self.symbols.at(picked) if isinstance(self.symbols, StoredSymbols) else [str(row) for row in picked]

    def decode(self, rows: npt.ArrayLike) -> FloatArray:
        """Vectors of the given rows.

        Args:
            rows: one row number or an array of them, any shape, in [0, N).

        Returns:
            float32 of shape rows.shape + (d,).
        """
        picked = np.asarray(rows)
        if picked.size == 0:
            return np.empty((*picked.shape, self.embedding_dim), dtype=np.float32)
        if picked.dtype.kind not in "iu":
            raise RowError(f"rows are integers, got {picked.dtype}; use coded[symbol] to look a symbol up")
        if picked.min() < 0 or picked.max() >= len(self):
            raise RowError(f"rows must be in [0, {len(self)}), got [{picked.min()}, {picked.max()}]")
        flat = picked.reshape(-1)
        vectors = np.empty((len(flat), self.embedding_dim), dtype=np.float32)
        at_once = max(1, _FLOATS_AT_ONCE // self.embedding_dim)
        for start in range(0, len(flat), at_once):
            part = flat[start : start + at_once]
            codes = self._unpack(self.packed[part])
            vectors[start : start + at_once] = self.composition.compose(codes, self.codebook.values)
            if self.scales is not None:
                vectors[start : start + at_once] *= self.scales.at(part)[:, None]
        return vectors.reshape(*picked.shape, self.embedding_dim)

    def compose(self, codes: IntArray) -> FloatArray:
        """(n, D) codes in [0, K), of this table or not, to (n, d) vectors; where rows have scales, before them."""
        codes = np.asarray(codes)
        _check_codes(codes, self.codebook)
        return self.composition.compose(codes, self.codebook.values)

    def encode(self, vectors: npt.ArrayLike, *, beam: int = 8, sweeps: int = 4) -> npt.NDArray[np.int64]:
        """Codes of new vectors under this table's codebook; of their directions where its rows have scales.

        Args:
            vectors: (d,) or (n, d) finite numbers.
            beam: partial codes kept per vector; more is slower and better.
            sweeps: passes of refinement after it.

        Returns:
            (D,) or (n, D) integers; `compose` turns them into vectors.
        """
        with np.errstate(over="ignore"):  # what overflows float32 becomes inf and is refused
            array = np.asarray(vectors, dtype=np.float32)
        if array.ndim not in (1, 2) or array.shape[-1] != self.embedding_dim or not np.isfinite(array).all():
            raise OptionError(f"expected finite vectors of size {self.embedding_dim}, got shape {array.shape}")
        array = array if self.scales is None else directions(array)
        codes = encoding.encode(np.atleast_2d(array), self.codebook.values, self.composition, beam=beam, sweeps=sweeps)
        return codes.reshape(*array.shape[:-1], self.code_length)

    def neighbors(self, query: str | npt.ArrayLike, k: int = 10, *, metric: str = "cosine") -> list[Neighbor]:
        """The k nearest symbols to a symbol or a (d,) vector, nearest first; see `kdcode.search`."""
        return search.neighbors(self, query, k, metric=metric)

    def code_of(self, symbol: str) -> Code:
        """The D integers of `symbol`."""
        row = self.row_of(symbol)
        return tuple(int(value) for value in self._unpack(self.packed[row : row + 1])[0])

    def symbols_with_code(self, prefix: Sequence[int]) -> list[str]:
        """Symbols whose code begins with `prefix`, in row order; a full code gives the symbols that share it."""
        if not 1 <= len(prefix) <= self.code_length:
            raise OptionError(f"a code prefix has 1 to {self.code_length} integers, got {len(prefix)}")
        if min(prefix) < 0 or max(prefix) >= self.codebook_size:
            raise OptionError(f"codes are in [0, {self.codebook_size}), got {'-'.join(map(str, prefix))}")
        rows = [
            start + np.flatnonzero((codes[:, : len(prefix)] == prefix).all(axis=1))
            for start, codes in self.code_chunks()
        ]
        return self.symbols_at(np.concatenate(rows))

    def code_chunks(self, rows: int = CHUNK_ROWS) -> Iterator[tuple[int, npt.NDArray[np.unsignedinteger[Any]]]]:
        """All codes in order, as (first row, (n, D) integers)."""
        for start in range(0, len(self), rows):
            yield start, self._unpack(self.packed[start : start + rows])

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[tuple[Sequence[str], FloatArray]]:
        """Pieces of the decoded table in order: symbols and their (n, d) vectors."""
        names = iter(self.symbols)  # walks the stored symbols once; slices would search them anew for every piece
        for start in range(0, len(self), rows):
            vectors = self.decode(np.arange(start, min(start + rows, len(self))))
            yield list(islice(names, len(vectors))), vectors

    def to_table(self) -> VectorTable:
        """The whole table decoded into memory."""
        symbols = None if isinstance(self.symbols, RowNumbers) else list(self.symbols)
        return VectorTable(symbols, self.decode(np.arange(len(self))))

    def _unpack(self, packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.unsignedinteger[Any]]:
        bits = bitpack.bits_for(self.codebook_size)
        codes = bitpack.unpack(packed, self.code_length, bits)
        if self.codebook_size != 1 << bits and codes.size and int(codes.max()) >= self.codebook_size:
            raise StorageError(f"codes: found code value {codes.max()}, values must be below K={self.codebook_size}")
        return codes


def _check_codes(codes: IntArray, codebook: Codebook) -> None:
    if codes.ndim != 2 or codes.shape[1] != codebook.code_length or codes.dtype.kind not in "iu":
        raise OptionError(
            f"codes: expected integers of shape (rows, {codebook.code_length}), got {codes.dtype} of {codes.shape}"
        )
    if codes.size and (int(codes.min()) < 0 or int(codes.max()) >= codebook.codebook_size):
        raise OptionError(
            f"codes: expected values in [0, {codebook.codebook_size}), got {codes.min()} to {codes.max()}"
        )
