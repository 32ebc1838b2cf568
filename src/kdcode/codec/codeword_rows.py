"""CodewordRows: packed rows of a codec with codewords, decoded and searched by the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import _core
from kdcode.arrays import FloatArray, IntArray
from kdcode.codec.codeword_spec import CodewordSpec
from kdcode.codec.spec import LSTM
from kdcode.stored_array import ArrayInFile, StoredArray

_WORK_A_CALL = 1 << 27
"""Multiplications that one call of the core may take: some 10 ms, and below 0.1 s on a slow processor."""
_ROWS_CHECKED = 1 << 16
"""Rows whose blocks are compared with their digests at a time, while all rows are scanned."""
_NO_FLOATS = np.empty(0, dtype=np.float32)
_NO_MATRIX = np.empty((0, 0), dtype=np.float32)
_ALL_GOOD = np.empty(0, dtype=np.uint8)

Tensors = Mapping[str, npt.NDArray[Any]]


class CodewordRows:
    """Decodes rows from their packed codes.

    Neither codes nor tensors are copied, where they are contiguous: what is written to them later counts.

    Args:
        spec: of a codec with codewords.
        tensors: as in `spec.tensor_layout()`.
        packed: (N, row bytes) codes, in memory or in a file.
        widths: bits of a position and of a level in `packed`, where they are not those of the spec.
    """

    def __init__(
        self,
        spec: CodewordSpec,
        tensors: Tensors,
        packed: ArrayInFile,
        widths: tuple[int, int] | None = None,
    ) -> None:
        position_bits, level_bits = widths or (spec.widths[0], spec.scale_bits)
        self._file = packed if isinstance(packed, StoredArray) else None
        array, start, good = (packed, 0, _ALL_GOOD) if self._file is None else self._file.in_place()
        self._rows = _core.CodeRows(
            np.ascontiguousarray(array),
            position_bits,
            level_bits if spec.scale_bits else 0,
            good.view(np.uint8),
            start,
        )
        self._codec = _core_codec(spec, tensors)
        self._dim, self.code_length = spec.embedding_dim, spec.code_length
        self._rows_a_call = max(1, _WORK_A_CALL // _work_of(spec))

    def decode(self, rows: IntArray) -> FloatArray:
        """(n, d) vectors of (n,) rows; see `decode_into`."""
        vectors = np.empty((len(rows), self._dim), dtype=np.float32)
        self.decode_into(np.ascontiguousarray(rows, dtype=np.int64), vectors)
        return vectors

    def decode_into(
        self, rows: npt.NDArray[np.int64], vectors: FloatArray, zero_row: int = -1, finite: bool = True
    ) -> None:
        """Write the (n, d) vectors of (n,) rows; both arrays are contiguous.

        Args:
            rows: row numbers.
            vectors: written to.
            zero_row: a row whose vector is zero; -1 for none.
            finite: whether vectors that float32 cannot hold are refused; else they are infinite.

        Raises:
            RowError: a row lies outside the table.
            StorageError: a code is not one of this codec, a vector has a number that float32 cannot hold, or the file
                is damaged.
        """
        if self._file is not None:
            self._file.notice_changes()
        at_once = self._rows_a_call
        if len(rows) > at_once:
            for start in range(0, len(rows), at_once):
                some = slice(start, start + at_once)
                self.decode_into(rows[some], vectors[some], zero_row, finite)
            return
        done = self._codec.decode(self._rows, rows, vectors, 0, zero_row, finite)
        while done < len(rows) and self._file is not None:
            self._file.check_rows(rows[done:])
            done = self._codec.decode(self._rows, rows, vectors, done, zero_row, finite)

    def decode_ids(self, ids: Any, vectors: FloatArray, zero_row: int) -> bool:  # noqa: ANN401 - torch is not imported
        """Write the (n, d) vectors of n ids in a contiguous tensor; the quickest way where these are few.

        Returns:
            whether it is done; `decode_into` does any number of rows.
        """
        if self._file is not None or len(vectors) > self._rows_a_call:
            return False
        return self._codec.decode_ids(self._rows, ids, vectors, zero_row) == len(vectors)

    def scan(
        self, first: int, stop: int, scores: _core.Scores, floors: FloatArray, kept: tuple[npt.NDArray[Any], ...]
    ) -> int:
        """Look at the rows from `first` to before `stop`, and keep those whose score may exceed a floor.

        Args:
            first: the first row.
            stop: the row after the last.
            scores: what rows are compared by.
            floors: (q,) what the scores of each query are compared with.
            kept: (q, room) rows and scores, and (q,) counts of them; written to.

        Returns:
            the row that is to be looked at next: `stop`, or one before where there may be no room for more.

        Raises:
            StorageError: a code is not one of this codec, or the file is damaged.
        """
        if self._file is not None:
            self._file.notice_changes()
        while True:
            first, is_unchecked = self._codec.scan(self._rows, scores, floors, first, stop, *kept)
            if not is_unchecked or self._file is None:
                return first
            _ = self._file[first : first + _ROWS_CHECKED]


def _core_codec(spec: CodewordSpec, tensors: Tensors) -> _core.Codewords:
    """The codec of the core that reads these tensors."""

    def array(name: str, absent: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.ascontiguousarray(tensors[name]) if name in tensors else absent

    numbers = (
        array("codebook", _NO_MATRIX),
        array("codebook_scale", _NO_FLOATS).reshape(-1),
        array("basis", _NO_MATRIX),
        array("basis_scale", _NO_FLOATS).reshape(-1),
        array("scale_levels", _NO_FLOATS) if spec.scale_bits else _NO_FLOATS,
    )
    if spec.kind == LSTM:
        return _core.lstm(*numbers, array("recurrent", _NO_MATRIX), array("bias", _NO_MATRIX))
    return _core.sums(*numbers, spec.embedding_dim, spec.groups)


def _work_of(spec: CodewordSpec) -> int:
    """Multiplications for each row."""
    steps = spec.code_length * spec.codeword_dim
    gates = 4 * spec.codeword_dim if spec.kind == LSTM else 0
    return steps * (1 + gates) + (spec.inner_dim * spec.embedding_dim if spec.basis else 0)
