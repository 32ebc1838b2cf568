"""Compiled loops over packed codes. They need numba: `kdcode.compiled` loads this package where it is installed.

    packed.py    rows of packed codes: their bits, and whether they may be read
    vectors.py   sums of codewords in registers
    decoding.py  rows to vectors
    scanning.py  all rows to scores of queries
    level_reading.py, level_writing.py, level_search.py  transform codes: rows to levels or coordinates, levels to rows,
                 and the search for levels
    ragged.py    rows of different lengths, found and copied

What makes them quick: the bytes of many rows are fetched before any is used, so that waits for memory overlap; sums are
kept in registers until all codewords are added; codewords stay in their stored type and are converted on the way, so
that a codebook of int8 numbers takes a quarter of the cache. All indices are unsigned, which spares numba its test for
negative ones.

numba does not check indices. Rows, codes, levels and blocks of a file are checked here before they are used.

Compiled code is kept in `__pycache__` by the file of the function that is called. After a change to a function in
another file that it calls, remove that folder.
"""

from __future__ import annotations

from kdcode.kernels.decoding import decode_rows, decode_rows_at, multiply_rows
from kdcode.kernels.level_reading import NO_CLASS, NO_VALUE, TOO_LARGE, TOO_MANY, read_rows
from kdcode.kernels.level_search import search_rows
from kdcode.kernels.level_writing import write_levels
from kdcode.kernels.packed import NOT_CHECKED, PLAN, stopped
from kdcode.kernels.ragged import copy_rows
from kdcode.kernels.scanning import scan_rows

__all__ = [
    "NOT_CHECKED",
    "NO_CLASS",
    "NO_VALUE",
    "PLAN",
    "TOO_LARGE",
    "TOO_MANY",
    "copy_rows",
    "decode_rows",
    "decode_rows_at",
    "multiply_rows",
    "read_rows",
    "scan_rows",
    "search_rows",
    "stopped",
    "write_levels",
]
