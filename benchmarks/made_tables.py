"""Coded tables for measuring speed: those that `--size` chooses for real rows, and codewords of random numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from scaling import made_table as made_vectors

import kdcode
from kdcode.codec import CodewordSpec, make_codec
from kdcode.coded import CodedTable
from kdcode.data import glove_50d
from kdcode.symbols import RowNumbers, StoredSymbols

SIZES = ("10x", "20x", "40x")
"""What users ask for."""


def save_chosen(folder: Path, rows: int, dim: int, glove: Path | None = None) -> None:
    """What `compress` makes for each of `SIZES`, whatever it chooses, in a .kdc file each: see `chosen_table`.

    Args:
        folder: of the files.
        rows: how many; they are made from real ones: see `scaling.made_table`.
        dim: of the rows.
        glove: a folder with vectors.npy; the table that comes with kdcode if None.
    """
    real: np.ndarray[Any, Any] = np.load(glove / "vectors.npy", mmap_mode="r") if glove else glove_50d().matrix
    vectors = made_vectors(real, rows, dim)
    for size in SIZES:
        print(f"{rows:,} x {dim} at {size} …", file=sys.stderr, flush=True)
        kdcode.save(kdcode.compress(vectors, size, effort="fast"), folder / f"{rows}x{dim}-{size}.kdc")


def chosen_table(folder: Path, rows: int, dim: int, size: str) -> CodedTable:
    """A table of `save_chosen`."""
    return kdcode.load(folder / f"{rows}x{dim}-{size}.kdc")


def made_table(spec: CodewordSpec, rows: int, symbols: StoredSymbols | None = None) -> CodedTable:
    """A table of random codes; without symbols if None. K must be a power of two, so that all codes are valid."""
    draw = np.random.default_rng(rows)
    weights = {name: draw.normal(size=shape).astype(np.float32) for name, shape in spec.weight_shapes().items()}
    packed = draw.integers(256, size=(rows, spec.row_bytes), dtype=np.uint8)
    return CodedTable(symbols or RowNumbers(rows), packed, make_codec(spec, weights))
