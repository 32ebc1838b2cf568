"""RowForms: how the packed rows of a codec are kept in a table and in a file; most are plain arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import numpy as np
import numpy.typing as npt

from kdcode.codec.row_writing import PlainWriter, RowWriter
from kdcode.codec.spec import CodecSpec
from kdcode.stored_array import ArrayInFile, PackedRows


class RowForms:
    """What a codec has to say of packed rows beside what they mean."""

    spec: CodecSpec

    def stored_rows(self, packed: PackedRows) -> PackedRows:
        """(N, row bytes) packed rows in the form that a table keeps them in."""
        return packed

    def row_writer(self) -> RowWriter:
        """What makes the tensors of `row_tensors` of rows that come in chunks."""
        return PlainWriter(self.spec.row_bytes)

    def check_rows(self, rows: PackedRows) -> None:
        """Check what rows have beside their codes, and `unpack` does not look at: what tells where they begin.

        Raises:
            StorageError: something does not agree.
        """

    def rows_of_equal_length(self, rows: PackedRows) -> Iterable[npt.NDArray[np.uint8]]:
        """The bytes of all rows, those together that are equally long, in whatever order."""
        return [np.asarray(rows)]

    def row_tensors(self, rows: PackedRows) -> dict[str, ArrayInFile]:
        """What a file keeps of the rows of a table, by name."""
        return {"codes": cast(ArrayInFile, rows)}

    def rows_of_tensors(self, tensors: Mapping[str, ArrayInFile], count: int) -> PackedRows:
        """The rows of a file; undoes `row_tensors`.

        Raises:
            StorageError: tensors that are not those of so many rows.
        """
        return tensors["codes"]
