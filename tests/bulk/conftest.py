"""Parts of a small table, a codebook for them, and a small disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sample_tables import codec_of
from small_disk import mounted_disk

import kdcode
from kdcode import CodedTable
from kdcode.bulk import EncodeSettings

DIM = 8
ROWS = (70, 45, 100)
SETTINGS = EncodeSettings(beam=2, sweeps=1, rows_per_slice=40)
SLICES = 7
"""Parts of these rows in slices of 40: 40 and 30, 40 and 5, 40 and 40 and 20."""


def vectors_of(part: int, rows: int) -> np.ndarray:
    return np.random.default_rng(part).normal(size=(rows, DIM)).astype(np.float32)


def write_part(path: Path, vectors: np.ndarray, symbols: list[str] | None) -> None:
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    columns = {"vector": flat} if symbols is None else {"symbol": symbols, "vector": flat}
    pq.write_table(pa.table(columns), path)


def make_parts(folder: Path, *, named: bool = True) -> str:
    """Three parts, whose names sort as they are numbered; the pattern that names them."""
    folder.mkdir()
    for part, rows in enumerate(ROWS):
        symbols = [f"s{part}-{row}" for row in range(rows)] if named else None
        write_part(folder / f"p{part}.parquet", vectors_of(part, rows), symbols)
    return str(folder / "*.parquet")


def all_vectors() -> np.ndarray:
    return np.concatenate([vectors_of(part, rows) for part, rows in enumerate(ROWS)])


@pytest.fixture
def parts(tmp_path):
    return make_parts(tmp_path / "parts")


@pytest.fixture
def unnamed_parts(tmp_path):
    return make_parts(tmp_path / "unnamed", named=False)


@pytest.fixture
def codebook(tmp_path):
    """The path of a codebook of product codes with row scales."""
    path = tmp_path / "cb.kdc"
    codec = codec_of("scaled-linear", "int8", length=3, size=16, dim=DIM)
    kdcode.save(CodedTable.of_codec(codec, {"learner": "none", "relative_error": 0.5}), path)
    return path


@pytest.fixture
def small_disk(tmp_path):
    with mounted_disk(tmp_path, 32) as disk:
        yield disk


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
