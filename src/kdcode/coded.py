"""CodedTable: symbols, packed codes and a codec, and everything one can ask of them without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import code_groups
from kdcode.arrays import CHUNK_ROWS, DoubleArray, FloatArray, IntArray, rows_at_once
from kdcode.code_scan import CodeScan, RowScores
from kdcode.codec import Codec, CodecSpec, CodewordCodec, RowDecoder, Sizes
from kdcode.errors import OptionError, RowError
from kdcode.mapping import Key, TableMapping, joined, lengths, new_rows
from kdcode.search import QUERIES_AT_ONCE, Request, exact_nearness
from kdcode.stored_array import PackedRows, StoredArray
from kdcode.symbols import RowNumbers, StoredSymbols, checked_rows, pack_symbols
from kdcode.table import VectorTable

_CODES_AT_ONCE = 1 << 22
_FLOATS_AT_ONCE = 1 << 22
_SCORES_AT_ONCE = 1 << 24

Code = tuple[int, ...]


class CodedTable(TableMapping):
    """A compressed table: N packed codes, and the codec that turns them into N vectors of size d.

    It is a read-only mapping of symbols to vectors, which are composed when they are asked for; see `TableMapping`.
    Usually comes from `kdcode.compress` or `kdcode.load`; `from_codes` builds one by hand.

    Args:
        symbols: compact symbols, or `RowNumbers` for a table without.
        packed: (N, row bytes) packed codes, in memory or in a file.
        codec: what the codes mean.
        provenance: JSON values that say how the codes were learned; kept in the file.

    Attributes:
        learning_seconds: how long learning took, where `kdcode.compress` has just made the table; never in a file.

    Raises:
        OptionError: the parts do not fit together.
    """

    learning_seconds: float | None = None

    def __init__(
        self,
        symbols: StoredSymbols | RowNumbers,
        packed: PackedRows,
        codec: Codec,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        if len(symbols) != len(packed):
            raise OptionError(f"{len(symbols)} symbols for {len(packed)} codes: there must be one symbol per code")
        width = codec.spec.row_bytes
        if packed.dtype != np.uint8 or packed.shape[1:] != (width,):
            raise OptionError(f"codes: expected uint8 of shape (rows, {width}), got {packed.dtype} of {packed.shape}")
        self.symbols: StoredSymbols | RowNumbers = symbols
        self.packed = codec.stored_rows(packed)
        self.codec = codec
        self.provenance = dict(provenance or {})

    @classmethod
    def from_codes(
        cls,
        symbols: Sequence[str] | None,
        codes: IntArray,
        codec: Codec,
        provenance: Mapping[str, Any] | None = None,
    ) -> CodedTable:
        """Build a table from (N, columns) codes of a codec; see `Codec` for what a code consists of."""
        codes = np.asarray(codes)
        if len(codes) < 1:
            raise OptionError("a coded table needs at least one row, got none")
        stored = RowNumbers(len(codes)) if symbols is None else pack_symbols(symbols)
        return cls(stored, codec.pack(codes), codec, provenance)

    @classmethod
    def of_codec(cls, codec: Codec, provenance: Mapping[str, Any] | None = None) -> CodedTable:
        """A codebook: a table without rows, whose codec encodes the rows of others."""
        return cls(RowNumbers(0), np.empty((0, codec.spec.row_bytes), dtype=np.uint8), codec, provenance)

    def codebook(self) -> CodedTable:
        """The same codec and provenance without rows: what `kdcode encode` takes, a file of a few kilobytes."""
        return CodedTable.of_codec(self.codec, self.provenance)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what is made again when it is needed."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_decoder", "_scores")}

    def __len__(self) -> int:
        return len(self.packed)

    def __repr__(self) -> str:
        what = f"{len(self)} symbols" if len(self) else "a codebook without rows"
        return f"<CodedTable: {what}, {self.embedding_dim} dimensions, {self.spec.words}>"

    @property
    def spec(self) -> CodecSpec:
        """The shape of the codec."""
        return self.codec.spec

    @property
    def codewords(self) -> CodewordCodec | None:
        """The codec, where codes choose among codewords; None for transform codes."""
        return self.codec if isinstance(self.codec, CodewordCodec) else None

    @property
    def codebook_size(self) -> int:
        """K."""
        return self.spec.codebook_size

    @property
    def code_length(self) -> int:
        """D."""
        return self.spec.code_length

    @property
    def embedding_dim(self) -> int:
        """The dimension d of the vectors."""
        return self.spec.embedding_dim

    @property
    def sizes(self) -> Sizes:
        """Bytes of each part, as stored."""
        return self.spec.sizes_of_rows(self.packed, self.symbols.nbytes)

    @cached_property
    def codes(self) -> npt.NDArray[np.unsignedinteger[Any]]:
        """All codes as (N, columns) integers; unpacked once, at first use."""
        return self.codec.unpack(np.asarray(self.packed))

    @cached_property
    def shared_codes(self) -> int:
        """How many symbols have a code that another symbol has too, and so the same vector; counted at first use."""
        return sum(code_groups.repeated(rows) for rows in self.codec.rows_of_equal_length(self.packed))

    @cached_property
    def norms(self) -> DoubleArray:
        """(N,) lengths of the vectors; computed chunk by chunk at first use."""
        found = [lengths(vectors) for _, vectors in self._vector_chunks(self.spec.row_width)]
        return np.concatenate([np.empty(0), *found])

    @property
    def queries_at_once(self) -> int:
        """How many queries a search answers in one pass: as many as the tables of their scores leave memory for."""
        scores = self.embedding_dim if self.codewords is None else self.code_length * self.codebook_size
        return max(1, min(QUERIES_AT_ONCE, _SCORES_AT_ONCE // scores))

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
        self.require_rows()
        flat = checked_rows(picked.reshape(-1), len(self))
        return self.vectors_at(flat).reshape(*picked.shape, self.embedding_dim)

    def vectors_at(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows in [0, N)."""
        return self._decoder.decode(rows)

    def dot_products(self, queries: DoubleArray) -> Iterator[tuple[int, DoubleArray]]:
        """Dot products with (q, d) queries, in order: the first row of a chunk, and (n, q) numbers."""
        self.require_rows()
        for start, vectors in self._vector_chunks(max(len(queries), self.spec.row_width)):
            yield start, vectors.astype(np.float64) @ queries.T

    def candidates(
        self, queries: DoubleArray, request: Request, start: int = 0, end: int = -1
    ) -> list[IntArray] | None:
        """For each of (q, d) queries rows from `start` to before `end`, in order, with its k nearest among them.

        None where only a pass over `dot_products` tells.
        """
        self.require_rows()
        scanner = self._scores.scanner(queries, request.metric)
        if scanner is None:
            return None

        def exact(query: int, rows: IntArray) -> DoubleArray:
            return exact_nearness(self, rows, queries[query], request.metric)

        rows = range(len(self))[start : end if end >= 0 else None]
        return CodeScan(scanner, exact, request.k).candidates(rows.start, rows.stop, request.threads)

    def select(self, key: Key, *, missing: str = "raise") -> CodedTable:
        """The table of some rows, in the order given; their codes and the codec stay as they are.

        Args:
            key: a list of symbols or row numbers, a slice of rows, or a mask; as in brackets.
            missing: what happens to symbols that the table does not have: "raise" an error that lists them, or "skip"
                them.

        Returns:
            a table whose provenance tells what it was `taken_from`: errors that were measured are of all rows.
        """
        symbols, rows = self._selected(key, missing)
        named = RowNumbers(len(rows)) if symbols is None else pack_symbols(symbols)
        return CodedTable(named, self.packed[rows], self.codec, self._provenance_of_part())

    def with_rows(self, rows: Mapping[str, npt.ArrayLike], *, at: str = "end") -> CodedTable:
        """A copy of the table with more rows, such as `{"<pad>": 0, "<unk>": mean}`, encoded by its codec.

        The codec is not learned anew, so the new vectors are only near to the given ones: compare `coded["<unk>"]` with
        what you gave. Zero is no exception: a padding row that must be zero is the matter of `padding_idx` in
        `kdcode.nn.CodedEmbedding`. To have rows learned with the others, add them to the `VectorTable` and compress.

        Args:
            rows: symbols and their vectors; a number stands for a vector of d equal numbers.
            at: "end", where all rows keep their numbers, or "start", where each moves up by as many as are added.
                Symbols stay what they are, and so do the names "0", "1", … of a table without.
        """
        symbols, vectors = new_rows(self, rows, at)
        added = self.codec.pack(self.encode(vectors))
        named = pack_symbols([*symbols, *self.symbols] if at == "start" else [*self.symbols, *symbols])
        return CodedTable(named, joined(np.asarray(self.packed), added, at), self.codec, self._provenance_of_part())

    def compose(self, codes: IntArray) -> FloatArray:
        """(n, columns) codes, of this table or not, to (n, d) vectors."""
        codes = np.asarray(codes)
        self.codec.check_codes(codes)
        return self.codec.decode(codes)

    def encode(self, vectors: npt.ArrayLike, *, beam: int = 8, sweeps: int = 4) -> npt.NDArray[np.int64]:
        """Codes of (d,) or (n, d) new vectors under this table's codec, which `compose` turns into vectors again.

        Args:
            vectors: finite numbers.
            beam: partial codes kept per vector; more is slower and better.
            sweeps: passes of iterated conditional modes after the beam search.

        Returns:
            (columns,) or (n, columns) integers. `kdcode.learning.encode` does the same in torch, for large batches.
        """
        return self.codec.encode(vectors, beam=beam, sweeps=sweeps)

    def code_of(self, symbol: str) -> Code:
        """The integers of `symbol`: D positions, and what `Codec` says that a code has besides."""
        row = self.row_of(symbol)
        return tuple(int(value) for value in self.codec.unpack(self.packed[row : row + 1])[0])

    def symbols_with_code(self, prefix: Sequence[int]) -> list[str]:
        """Symbols whose code begins with `prefix`, in row order; a full code gives the symbols that share it."""
        self.require_rows()
        if not prefix:
            raise OptionError(f"prefix: expected 1 to {len(self.spec.widths)} integers, got none")
        return self.symbols_at(code_groups.rows_beginning_with(self, prefix)[0])

    def code_groups(self, prefix: Sequence[int] = ()) -> Iterator[tuple[Code, IntArray]]:
        """The codes that begin with `prefix`, sorted, each with the (n,) rows that share it."""
        self.require_rows()
        return code_groups.groups(self, prefix)

    def code_chunks(self, rows: int = CHUNK_ROWS) -> Iterator[tuple[int, npt.NDArray[np.unsignedinteger[Any]]]]:
        """All codes in order, as (first row, (n, columns) integers): up to `rows` at a time, fewer of long codes."""
        rows = min(rows, self._codes_at_once)
        for start in range(0, len(self), rows):
            yield start, self.codec.unpack(self.packed[start : start + rows])

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[tuple[Sequence[str], FloatArray]]:
        """Pieces of the decoded table in order: up to `rows` symbols and their vectors, fewer of very wide ones."""
        rows = max(1, min(rows, _FLOATS_AT_ONCE // self.embedding_dim))
        names = iter(self.symbols)  # walks the stored symbols once; slices would search them anew for every piece
        for start in range(0, len(self), rows):
            vectors = self.decode(np.arange(start, min(start + rows, len(self))))
            yield list(islice(names, len(vectors))), vectors

    def checked_rows(self) -> npt.NDArray[np.uint8]:
        """All (N, row bytes) packed codes, for those who unpack them without a check of their own.

        Raises:
            StorageError: a code is not one of this codec, its vector has a number beyond float32, or the file that the
                codes are in is damaged.
        """
        self.require_rows()
        self._check_rows()
        return np.asarray(self.packed)

    def check(self) -> None:
        """Read every code and symbol, and check them against docs/format.md.

        Raises:
            StorageError: something is not as it must be.
        """
        if len(self):
            self._check_rows()
        if isinstance(self.symbols, StoredSymbols):
            self.symbols.verify()

    def to_table(self) -> VectorTable:
        """The whole table decoded into memory."""
        self.require_rows()
        symbols = None if isinstance(self.symbols, RowNumbers) else list(self.symbols)
        return VectorTable(symbols, self.decode(np.arange(len(self))))

    def _check_rows(self) -> None:
        """Read every code, and check it."""
        self.codec.check_rows(self.packed)
        if self.codec.may_overflow:
            for _, codes in self.code_chunks(rows_at_once(self.spec.row_width)):
                self.codec.decode(codes)
        elif self.spec.has_invalid_codes:
            for _ in self.code_chunks():
                pass  # unpacking checks the range of every code
        elif isinstance(self.packed, StoredArray):
            np.asarray(self.packed)  # compares all of it with its digests

    def _vector_chunks(self, width: int) -> Iterator[tuple[int, FloatArray]]:
        """All vectors in order, in chunks that fit the cache with rows of `width` numbers; each with its first row."""
        at_once = rows_at_once(width)
        for start in range(0, len(self), at_once):
            yield start, self.vectors_at(np.arange(start, min(start + at_once, len(self))))

    @cached_property
    def _decoder(self) -> RowDecoder:
        return self.codec.decoder(self.packed)

    @cached_property
    def _scores(self) -> RowScores:
        return RowScores(self, self._decoder)

    @property
    def _codes_at_once(self) -> int:
        """How many rows are unpacked at a time, at most."""
        return max(1, _CODES_AT_ONCE // len(self.spec.widths))

    def _find(self, symbol: str) -> int | None:
        return self.symbols.find(symbol)

    def _provenance_of_part(self) -> dict[str, Any]:
        """The provenance of a table with other rows: what was measured holds for the rows that were learned."""
        if "taken_from" in self.provenance or not self.provenance:
            return self.provenance
        return {"taken_from": {"rows": len(self), **self.provenance}}
