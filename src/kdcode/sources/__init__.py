"""Rows of files that need not fit into memory: read in order, from any row to any other, a piece at a time.

source.py          RowSource: what they have in common
places.py          files by path or URL (fsspec), and the parts that a pattern names
matrix_source.py   matrices in .npy and safetensors files
symbol_lines.py    the symbols of a matrix, one per line of a text file
parquet_source.py  Parquet
opening.py         open_source and open_parts
sampling.py        sample_rows: rows drawn evenly from a source
"""

from __future__ import annotations

from kdcode.sources.opening import open_parts, open_source
from kdcode.sources.sampling import read_all, sample_rows
from kdcode.sources.source import JoinedSource, RowSource

__all__ = ["JoinedSource", "RowSource", "open_parts", "open_source", "read_all", "sample_rows"]
