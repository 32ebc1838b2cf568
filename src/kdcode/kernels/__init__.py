"""Compiled loops of transform codes. They need numba: `kdcode.compiled` loads this package where it is installed.

    packed.py    how kernels are compiled
    vectors.py   arrays that numba does not count references of
    level_reading.py, level_writing.py, level_search.py  rows to levels or coordinates, levels to rows, and the search
                 for levels
    ragged.py    rows of different lengths, found and copied

numba does not check indices. Rows, codes, levels and blocks of a file are checked here before they are used.

Compiled code is kept in `__pycache__` by the file of the function that is called. After a change to a function in
another file that it calls, remove that folder.
"""

from __future__ import annotations

from kdcode.kernels.level_reading import NO_CLASS, NO_VALUE, TOO_LARGE, TOO_MANY, read_rows
from kdcode.kernels.level_search import search_rows
from kdcode.kernels.level_writing import write_levels
from kdcode.kernels.packed import NOT_CHECKED, stopped
from kdcode.kernels.ragged import copy_rows

__all__ = [
    "NOT_CHECKED",
    "NO_CLASS",
    "NO_VALUE",
    "TOO_LARGE",
    "TOO_MANY",
    "copy_rows",
    "read_rows",
    "search_rows",
    "stopped",
    "write_levels",
]
