"""TransformRows: how packed rows of transform codes are kept in a table and in a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import IntArray
from kdcode.codec.row_forms import RowForms
from kdcode.codec.row_writing import PlainWriter, RowWriter, written
from kdcode.codec.transform.blocked_rows import BlockedRows, BlockedWriter, checked_breaks
from kdcode.codec.transform.ragged_rows import RaggedRows
from kdcode.codec.transform.ragged_writer import RaggedWriter
from kdcode.codec.transform.spec import TransformSpec
from kdcode.errors import StorageError
from kdcode.stored_array import ArrayInFile, PackedRows


class TransformRows(RowForms):
    """Blocks of one length are an array, of several `RaggedRows`; blocks of several rows make `BlockedRows` of both."""

    spec: TransformSpec

    def unpack(self, packed: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """(n, row bytes) packed rows to (n, columns) codes."""
        raise NotImplementedError

    def stored_rows(self, packed: PackedRows) -> PackedRows:
        """(N, row bytes) packed rows in the form that a table keeps them in: blocks once, without zeros after them."""
        plain = self.spec.classes == 1 and self.spec.rows_per_block == 1
        if plain or not len(packed) or isinstance(packed, RaggedRows | BlockedRows):
            return packed
        return self.rows_of_tensors(written(self.row_writer(), np.asarray(packed)), len(packed))

    def row_writer(self) -> RowWriter:
        """What makes the tensors of `row_tensors` of rows that come in chunks."""
        spec = self.spec
        blocks = PlainWriter(spec.block_bytes) if spec.classes == 1 else RaggedWriter(spec.lengths)
        return blocks if spec.rows_per_block == 1 else BlockedWriter(spec.rows_per_block, blocks)

    def check_rows(self, rows: PackedRows) -> None:
        """Check that blocks begin where those before them end."""
        blocks = _blocks(rows)
        if isinstance(blocks, RaggedRows):
            blocks.check()

    def rows_of_equal_length(self, rows: PackedRows) -> Iterable[npt.NDArray[np.uint8]]:
        """The bytes of all rows, those together that are equally long; of rows in blocks, their codes as bytes."""
        if isinstance(rows, BlockedRows):
            codes = self.unpack(np.asarray(rows))
            return [codes.view(np.uint8).reshape(len(codes), -1)]
        return rows.of_each_class() if isinstance(rows, RaggedRows) else super().rows_of_equal_length(rows)

    def row_tensors(self, rows: PackedRows) -> dict[str, ArrayInFile]:
        """What a file keeps of the rows of a table, by name."""
        blocks = _blocks(rows)
        tensors = blocks.tensors() if isinstance(blocks, RaggedRows) else super().row_tensors(blocks)
        return {**tensors, "row_breaks": rows.breaks} if isinstance(rows, BlockedRows) else tensors

    def rows_of_tensors(self, tensors: Mapping[str, ArrayInFile], count: int) -> PackedRows:
        """The rows of a file; undoes `row_tensors`."""
        if self.spec.rows_per_block == 1:
            return self._blocks_of_tensors(tensors, count)
        breaks, several = checked_breaks(tensors["row_breaks"], count, self.spec.rows_per_block)
        return BlockedRows(self.spec.rows_per_block, self._blocks_of_tensors(tensors, several), breaks, count)

    def _blocks_of_tensors(self, tensors: Mapping[str, ArrayInFile], count: int) -> PackedRows:
        if self.spec.classes > 1:
            return RaggedRows.from_tensors(tensors, count, self.spec.lengths)
        if len(tensors["codes"]) != count:
            raise StorageError(f"codes: {len(tensors['codes'])} blocks, expected {count}")
        return tensors["codes"]

    def blocks_of(self, packed: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], IntArray, IntArray]:
        """(m, block bytes) blocks of (n, row bytes) packed rows, and (n,) numbers and places of the rows among them.

        A block is there once for rows of it that follow one another.

        Raises:
            StorageError: a place that there is not.
        """
        if self.spec.rows_per_block == 1:
            return packed, np.arange(len(packed)), np.zeros(len(packed), dtype=np.int64)
        places = packed[:, 0].astype(np.int64)
        if int(places.max(initial=0)) >= self.spec.rows_per_block:
            raise StorageError(f"codes: a row at place {places.max()} of a block of {self.spec.rows_per_block}")
        is_new = np.ones(len(packed), dtype=bool)
        is_new[1:] = (packed[1:, 1:] != packed[:-1, 1:]).any(axis=1)
        return packed[is_new, 1:], np.cumsum(is_new) - 1, places


def _blocks(rows: PackedRows) -> PackedRows:
    """The blocks of packed rows, which are the rows themselves where each is a block."""
    return rows.blocks if isinstance(rows, BlockedRows) else rows
