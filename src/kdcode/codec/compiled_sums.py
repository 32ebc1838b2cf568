"""CompiledSums: rows of packed codes to vectors by compiled code, from tensors as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import FloatArray, rows_at_once
from kdcode.codec.quantized import Quantized, multipliers
from kdcode.codec.spec import CodecSpec, check_values
from kdcode.compiled import Kernels
from kdcode.digests import BLOCK_BYTES
from kdcode.stored_array import ArrayInFile, StoredArray
from kdcode.symbols import checked_rows

_FEW_ROWS = 8
"""Rows that are multiplied by a basis as it is stored; for more of them it is made float32 first."""

_CHECKED_AT_ONCE = 1 << 16
"""Rows of a file that are checked at a time, while all are looked at."""

_SHAPE = ("codebook_size", "code_length", "codeword_dim", "inner_dim", "groups")

Rows = npt.NDArray[np.int64]
Multiply = Callable[..., Any]
Arrays = tuple[npt.NDArray[Any], ...]


class CompiledSums:
    """Decodes rows of a coded table whose codewords are added up.

    Codes and tensors are views of the arrays that are given, where these are in row-major order: what is written to
    them later counts.

    Args:
        compiled: the kernels.
        spec: the shape of a codec that adds up codewords.
        tensors: as in `spec.tensor_layout()`.
        packed: (N, row bytes) codes, in memory or in a file.
        widths: bits of a position and of a level in `packed`, where they are not those of the spec.
        zero_row: a row whose vector is zero.
    """

    def __init__(
        self,
        compiled: Kernels,
        spec: CodecSpec,
        tensors: Mapping[str, npt.NDArray[Any]],
        packed: ArrayInFile,
        widths: tuple[int, int] | None = None,
        zero_row: int | None = None,
    ) -> None:
        self._compiled, self._spec = compiled, spec
        position_bits, level_bits = widths or (spec.widths[0], spec.scale_bits)
        self._widths = [position_bits] * spec.code_length + [level_bits] * (spec.scale_bits > 0)
        self._file = packed if isinstance(packed, StoredArray) else None
        array, start, good = (packed, 0, np.empty(0, np.bool_)) if self._file is None else self._file.in_place()
        scales = tensors.get("codebook_scale", np.ones(spec.code_length, dtype=np.float32)).reshape(-1)
        levels = tensors["scale_levels"] if spec.scale_bits else np.empty(0, dtype=np.float32)
        self._words, self._packed = _frozen(_as_bits(tensors["codebook"]).reshape(-1)), np.ascontiguousarray(array)
        multiples = _multipliers(spec, scales) if self._words.dtype == np.int8 else np.empty(0, dtype=np.int16)
        held = {"good": good, "scales": scales, "multipliers": multiples, "levels": levels}
        self._held = {name: np.ascontiguousarray(numbers) for name, numbers in held.items()}
        plan = {name: getattr(spec, name) for name in _SHAPE}
        plan |= {"position_bits": position_bits, "level_bits": level_bits if spec.scale_bits else 0}
        plan |= {"file_start": start, "block_bytes": BLOCK_BYTES, "zero_row": -1 if zero_row is None else zero_row}
        plan |= {"packed": self._packed.ctypes.data, "packed_count": len(packed), "row_bytes": self._packed.shape[1]}
        for name, numbers in self._held.items():
            plan |= {name: numbers.ctypes.data, f"{name}_count": len(numbers)}
        edges = [edge for block in spec.blocks for part in block for edge in (part.start, part.stop)]
        self._plan = _frozen(np.array([*(plan[name] for name in compiled.PLAN), *edges], dtype=np.int64))
        self._basis = Quantized(tensors["basis"], tensors.get("basis_scale")) if spec.basis else None
        if self._basis is not None:
            scale = np.ones(spec.inner_dim, dtype=np.float32) if self._basis.scale is None else self._basis.scale
            self._stored_basis = (
                _frozen(np.ascontiguousarray(_as_bits(self._basis.stored))),
                _frozen(scale.reshape(-1)),
            )

    @property
    def code_length(self) -> int:
        """D."""
        return self._spec.code_length

    def decode(self, rows: Rows, multiply: Multiply = np.matmul) -> FloatArray:
        """(n, d) vectors of (n,) rows; see `decode_into`."""
        vectors = np.empty((len(rows), self._spec.embedding_dim), dtype=np.float32)
        self.decode_into(rows, vectors, multiply)
        return vectors

    def decode_into(self, rows: Rows, vectors: FloatArray, multiply: Multiply = np.matmul) -> None:
        """Write the (n, d) vectors of (n,) rows.

        Args:
            rows: of the table, contiguous in memory.
            vectors: to be written to, contiguous in memory.
            multiply: called as `numpy.matmul` is, where there is a basis and more than a few rows.

        Raises:
            RowError: a row lies outside the table.
            StorageError: a code is not one of this codec, or the file is damaged.
        """
        if self._basis is None:
            self._write_sums(rows, vectors)
            return
        at_once = rows_at_once(self._spec.row_width)
        for start in range(0, len(rows), at_once):
            some = slice(start, start + at_once)
            sums = np.empty((len(rows[some]), self._spec.inner_dim), dtype=np.float32)
            self._write_sums(rows[some], sums)
            self._write_in_basis(sums, vectors[some], multiply)

    def decode_at(self, address: int, count: int, vectors: FloatArray) -> bool:
        """Write the (n, d) vectors of `count` rows, int64 numbers at an address, the quickest way there is.

        Returns:
            whether it is done; `decode_into` can do it or says why not.
        """
        if self._basis is not None or self._file is not None:
            return False
        return bool(self._compiled.decode_rows_at(self._words, self._plan, address, count, vectors) == count)

    def scan(self, first: int, stop: int, floors: FloatArray, scores: Arrays, kept: Arrays) -> int:
        """Look at the rows from `first` to before `stop`, and keep those whose score may exceed a floor.

        Args:
            first: the first row.
            stop: the row after the last.
            floors: (q,) what scores are compared with.
            scores: tables, slack, factors and offsets; see `kernels.scan_rows`.
            kept: rows, scores and counts, to be written to.

        Returns:
            the row that is to be looked at next: `stop`, or one before where there is no room for more.

        Raises:
            StorageError: a code is not one of this codec, or the file is damaged.
        """
        if self._file is not None:
            self._file.notice_changes()
        reached = self._compiled.scan_rows(self._plan, *scores, floors, first, stop, *kept)
        while reached < 0:
            row, reason = self._compiled.stopped(reached)
            if reason == self._compiled.NOT_CHECKED and self._file is not None:
                _ = self._file[row : row + _CHECKED_AT_ONCE]
            else:
                check_values(bitpack.unpack(self._packed[row : row + 1], self._widths), self._spec)
            reached = self._compiled.scan_rows(self._plan, *scores, floors, row, stop, *kept)
        return int(reached)

    def _write_sums(self, rows: Rows, sums: FloatArray) -> None:
        """Write the (n, inner_dim) coordinates of (n,) rows, times the scales of the rows, before the basis."""
        if self._file is not None:
            self._file.notice_changes()
        done = self._compiled.decode_rows(self._words, self._plan, rows, 0, sums)
        while done < len(rows):
            done = self._settled(rows, *self._compiled.stopped(done))
            done = self._compiled.decode_rows(self._words, self._plan, rows, done, sums)

    def _write_in_basis(self, sums: FloatArray, vectors: FloatArray, multiply: Multiply) -> None:
        """Write the (n, d) vectors of (n, inner_dim) coordinates."""
        assert self._basis is not None  # noqa: S101 - for the type checker
        if len(sums) > _FEW_ROWS:
            multiply(sums, self._basis.values, out=vectors)
        else:
            self._compiled.multiply_rows(sums, *self._stored_basis, vectors)

    def _settled(self, rows: Rows, place: int, reason: int) -> int:
        """Where to go on from after a kernel stopped before its end, or the error that it stopped for."""
        checked_rows(rows, len(self._packed))
        if reason == self._compiled.NOT_CHECKED and self._file is not None:
            self._file.check_rows(rows[place:])
            return place
        check_values(bitpack.unpack(self._packed[rows[place : place + 1]], self._widths), self._spec)
        raise AssertionError("a kernel stopped for no reason")


def _multipliers(spec: CodecSpec, scales: FloatArray) -> npt.NDArray[np.int16]:
    """(D,) what the scales of int8 codewords are to each other in every block; empty where they are no such numbers."""
    found = [multipliers(scales[block.positions]) for block in spec.blocks]
    parts = [part for part in found if part is not None]
    return np.concatenate(parts) if len(parts) == len(found) else np.empty(0, dtype=np.int16)


def _as_bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array in a type that numba knows: float16 as its bits."""
    return array.view(np.uint16) if array.dtype == np.float16 else array


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that is not to be written to: numba would compile a kernel once more for one that may be."""
    view = array.view()
    view.flags.writeable = False
    return view
