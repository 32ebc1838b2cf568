"""RaggedWriter: rows on their way into a file, of which nothing is kept but what the next rows need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kdcode import bitpack
from kdcode.codec.row_writing import Pieces
from kdcode.codec.transform.numbered_rows import Bytes
from kdcode.codec.transform.row_index import GROUP, ROWS_PER_START, index_layout
from kdcode.errors import OptionError


class RaggedWriter:
    """Makes the tensors of `RaggedRows`, piece by piece; see `kdcode.codec.row_writing.RowWriter`.

    Args:
        lengths: bytes of a row by class.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = np.array(lengths, dtype=np.int64)
        self._left = np.empty(0, dtype=np.uint8)
        self._rows = self._bytes = 0

    def add(self, packed: Bytes) -> Pieces:
        """The next pieces of the tensors, for (n, row bytes) packed rows that begin with their class.

        Raises:
            OptionError: a class that there is not, or bytes after the end of a row.
        """
        classes = packed[:, 0]
        if int(classes.max(initial=0)) >= len(self._lengths):
            raise OptionError(f"codes: found a class of {classes.max()}, classes must be below {len(self._lengths)}")
        lengths = self._lengths[classes]
        inside = np.arange(packed.shape[1] - 1) < lengths[:, None]
        if packed[:, 1:][~inside].any():
            raise OptionError("codes: expected zeros after the end of a row; rows are made by `Codec.pack`")
        begins = self._bytes + lengths.cumsum() - lengths
        numbers = np.arange(self._rows, self._rows + len(packed))
        starts = begins[numbers % ROWS_PER_START == 0].astype(np.uint64)
        self._rows += len(packed)
        self._bytes += int(lengths.sum())
        self._left = np.concatenate([self._left, classes])
        whole = len(self._left) // GROUP * GROUP
        groups, self._left = self._left[:whole], self._left[whole:]
        return {"codes": packed[:, 1:][inside], "row_classes": self._packed(groups), "row_starts": starts}

    def rest(self) -> Pieces:
        """What is left of the tensors when all rows were added."""
        groups = np.concatenate([self._left, np.zeros(-len(self._left) % GROUP, dtype=np.uint8)])
        none: Bytes = np.empty(0, dtype=np.uint8)
        return {"codes": none, "row_classes": self._packed(groups), "row_starts": none.astype(np.uint64)}

    def layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of the tensors."""
        return {"codes": ("uint8", (self._bytes,)), **index_layout(self._rows, len(self._lengths))}

    def _packed(self, classes: Bytes) -> Bytes:
        bits = bitpack.bits_for(len(self._lengths))
        return bitpack.pack(classes.reshape(-1, GROUP), [bits] * GROUP).reshape(-1)
