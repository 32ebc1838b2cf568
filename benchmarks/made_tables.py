"""Coded tables for measuring speed: codes are random bytes and codewords random normal numbers."""

from __future__ import annotations

import numpy as np

from kdcode.codec import CodecSpec, make_codec
from kdcode.coded import CodedTable
from kdcode.symbols import RowNumbers, StoredSymbols


def made_table(spec: CodecSpec, rows: int, symbols: StoredSymbols | None = None) -> CodedTable:
    """A table of so many rows; without symbols if None. K must be a power of two, so that all codes are valid."""
    draw = np.random.default_rng(rows)
    weights = {name: draw.normal(size=shape).astype(np.float32) for name, shape in spec.weight_shapes().items()}
    packed = draw.integers(256, size=(rows, spec.row_bytes), dtype=np.uint8)
    return CodedTable(symbols or RowNumbers(rows), packed, make_codec(spec, weights))
