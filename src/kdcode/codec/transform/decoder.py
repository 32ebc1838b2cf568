"""TransformRowDecoder: rows of a table of transform codes, decoded by the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import DoubleArray, FloatArray, IntArray
from kdcode.codec.transform.codes import codes_of
from kdcode.codec.transform.search import LevelScanner, scores
from kdcode.stored_array import PackedRows

if TYPE_CHECKING:
    from kdcode.codec.transform.codec import Transform

WORK_A_CALL = 1 << 22
"""Numbers that one call of the core encodes or decodes: below 0.1 s."""


class TransformRowDecoder:
    """Decodes rows of a table of transform codes.

    Args:
        codec: their codec.
        rows: packed rows of any form.
    """

    def __init__(self, codec: Transform, rows: PackedRows) -> None:
        self._codec, self._core = codec, codec.core
        self._rows = codec.block_rows(rows)
        self._at_once = max(1, WORK_A_CALL // codec.spec.embedding_dim)

    def decode(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows.

        Raises:
            RowError: a row lies outside the table.
            StorageError: bytes that stand for no code, a vector that float32 cannot hold, or a damaged file.
        """
        vectors = np.empty((len(rows), self._codec.spec.embedding_dim), dtype=np.float32)
        self.decode_into(np.ascontiguousarray(rows, dtype=np.int64), vectors)
        return vectors

    def decode_into(
        self, rows: npt.NDArray[np.int64], vectors: FloatArray, zero_row: int = -1, finite: bool = True
    ) -> None:
        """Write the (n, d) vectors of (n,) rows; both arrays are contiguous. As `CodewordRows.decode_into`."""
        held = self._rows
        if len(rows) > self._at_once:
            for start in range(0, len(rows), self._at_once):
                some = slice(start, start + self._at_once)
                self.decode_into(rows[some], vectors[some], zero_row, finite)
            return
        held.notice_changes()
        done = 0
        while done < len(rows):
            done, begin, length = self._core.decode(held.core, rows, vectors, done, zero_row)
            if length:
                held.check_bytes(begin, length)
        if self._codec.may_overflow:
            self._codec.mend(vectors, lambda wrong: self.codes(rows[wrong]), finite=finite)

    def decode_ids(self, ids: Any, vectors: FloatArray, zero_row: int) -> bool:  # noqa: ANN401 - torch is not imported
        """Write the (n, d) vectors of n ids in a contiguous tensor; as `CodewordRows.decode_ids`."""
        if self._codec.may_overflow or len(vectors) > self._at_once:
            return False
        self._rows.notice_changes()
        return self._core.decode_ids(self._rows.core, ids, vectors, zero_row) == len(vectors)

    def scanner(self, queries: DoubleArray) -> LevelScanner:
        """What compares all rows with (q, d) queries."""
        return LevelScanner(self._core, self._rows, queries)

    def scores(self, queries: npt.NDArray[Any], threads: int = 1) -> FloatArray:
        """(q, N) dot products of (q, d) queries with all rows, as precise as float32; no row is decoded.

        Raises:
            StorageError: bytes that stand for no code, or a damaged file.
        """
        return scores(self._core, self._rows, queries, threads)

    def codes(self, rows: IntArray) -> npt.NDArray[np.unsignedinteger[Any]]:
        """(n, columns) codes of (n,) rows."""
        held, wanted = self._rows, np.ascontiguousarray(rows, dtype=np.int64)
        held.notice_changes()
        multiples = np.empty((len(wanted), self._codec.spec.embedding_dim), dtype=np.int32)
        others = np.empty((len(wanted), 4), dtype=np.uint32)
        for start in range(0, len(wanted), self._at_once):
            some = slice(start, start + self._at_once)
            done = 0
            while done < len(wanted[some]):
                done, begin, length = self._core.read(held.core, wanted[some], multiples[some], others[some], done)
                if length:
                    held.check_bytes(begin, length)
        return codes_of(self._codec.spec, multiples, others)
