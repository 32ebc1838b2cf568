"""What tells where rows of different lengths begin: their classes, and the places of some of them."""

from __future__ import annotations

from kdcode import bitpack

ROWS_PER_START = 256
"""Every so many rows it is stored where one begins."""
GROUP = 8
"""Rows whose classes are packed together, into as many bytes as a class has bits."""


def index_bytes(rows: int, classes: int) -> int:
    """Bytes that classes and starts of so many rows take."""
    if classes == 1:
        return 0
    return -(-rows // GROUP) * bitpack.bits_for(classes) + 8 * -(-rows // ROWS_PER_START)


def index_layout(rows: int, classes: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of the tensors that tell where rows begin; none where all are equally long."""
    if classes == 1:
        return {}
    return {
        "row_classes": ("uint8", (-(-rows // GROUP), bitpack.bits_for(classes))),
        "row_starts": ("uint64", (-(-rows // ROWS_PER_START),)),
    }
