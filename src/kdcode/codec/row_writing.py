"""RowWriter: packed rows on their way into a file, chunk by chunk."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

_BYTES_AT_ONCE = 1 << 22

Pieces = dict[str, npt.NDArray[Any]]
"""The numbers that follow in each tensor of rows, by name."""


class RowWriter(Protocol):
    """Makes the tensors of the rows of a table, piece by piece, in memory that does not grow with them."""

    def add(self, packed: npt.NDArray[np.uint8]) -> Pieces:
        """The next pieces of the tensors, for (n, row bytes) packed rows as `Codec.pack` makes them.

        Raises:
            OptionError: bytes that are no such rows.
        """

    def rest(self) -> Pieces:
        """What is left of the tensors when all rows were added."""

    def layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of the tensors, of all rows that were added; none are in a file of no rows."""


def written(writer: RowWriter, packed: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[Any]]:
    """The tensors of all (N, row bytes) packed rows, in memory."""
    at_once = max(1, _BYTES_AT_ONCE // packed.shape[1])
    pieces = [writer.add(packed[start : start + at_once]) for start in range(0, len(packed), at_once)]
    pieces.append(writer.rest())
    return {
        name: np.concatenate([piece[name] for piece in pieces if name in piece]).reshape(shape)
        for name, (_, shape) in writer.layout().items()
    }


class PlainWriter:
    """Rows of equal length, which are stored as they are packed.

    Args:
        row_bytes: of each.
    """

    def __init__(self, row_bytes: int) -> None:
        self._rows, self._row_bytes = 0, row_bytes

    def add(self, packed: npt.NDArray[np.uint8]) -> Pieces:
        """The rows."""
        self._rows += len(packed)
        return {"codes": packed}

    def rest(self) -> Pieces:
        """Nothing."""
        return {}

    def layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of `codes`."""
        return {"codes": ("uint8", (self._rows, self._row_bytes))}
