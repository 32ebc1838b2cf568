"""Files that hold matrices: which one is the table, and its symbols in a text file beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from kdcode.errors import FormatError
from kdcode.formats.blocks import first_bytes, line_blocks
from kdcode.formats.file_rows import FileRows
from kdcode.formats.format import ReadOptions
from kdcode.formats.text import Header, trailing_numbers
from kdcode.table import VectorTable

_FIRST_LINE_BYTES = 1 << 16
_LISTED = 20


def choose(path: Path, shapes: Mapping[str, tuple[int, ...]], wanted: str | None) -> str:
    """The name of the matrix to read: the one that was asked for, or the only one there is.

    Args:
        path: the file, for messages.
        shapes: the shape of every array of real numbers in the file, by name.
        wanted: the name that was asked for.

    Raises:
        FormatError: no such array, or several to choose from; the message lists them.
    """
    matrices = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    names = sorted(matrices, key=lambda name: -matrices[name][0] * matrices[name][1])  # tables are large: those first
    listed = ", ".join(f"{name} {matrices[name][0]} x {matrices[name][1]}" for name in names[:_LISTED])
    listed += f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    if wanted is not None:
        if wanted in matrices:
            return wanted
        found = f"it has shape {shapes[wanted]}" if wanted in shapes else "there is none of that name"
        raise FormatError(
            f"{path}: expected {wanted!r} to be a matrix of floats, {found}; matrices: {listed or 'none'}"
        )
    if not matrices:
        raise FormatError(f"{path}: expected a matrix of floats, found none")
    if len(matrices) > 1:
        raise FormatError(f"{path}: holds {len(matrices)} matrices, name one with tensor=: {listed}")
    return names[0]


def named_table(path: Path, options: ReadOptions, matrix: npt.NDArray[Any], count: int) -> VectorTable:
    """The table of a matrix, with the symbols of the file that was named, or of one found beside it.

    Args:
        path: the file of the matrix.
        options: how it is read.
        matrix: its first `options.limit` rows.
        count: how many rows it has in all.

    Raises:
        FormatError: the file of symbols does not hold `count` distinct ones.
    """
    file = found_beside(path, matrix.shape[1]) if options.symbols is None else Path(options.symbols)
    return VectorTable(None if file is None else _symbols(file, path, count, len(matrix)), matrix)


def written_beside(path: Path) -> Path:
    """Where writers put the symbols of the matrix at `path`."""
    return path.with_name(f"{path.stem}.symbols.txt")


def found_beside(path: Path, dim: int) -> Path | None:
    """`<stem>.symbols.txt`, `<stem>.txt` or `symbols.txt` in the folder of `path`, the first that is there."""
    same_stem = path.with_suffix(".txt")
    for file in (written_beside(path), same_stem, path.with_name("symbols.txt")):
        if file.is_file() and not (file == same_stem and _holds_vectors(file, dim)):
            return file
    return None


def symbol_fault(symbol: str) -> str | None:
    """Why a line of a symbols file cannot hold `symbol`, or None."""
    if not symbol:
        return "is empty, and the symbols file has no place for that"
    if "\n" in symbol or symbol.endswith("\r"):
        return "holds a line break, which ends a symbol in the symbols file"
    return None


def _holds_vectors(file: Path, dim: int) -> bool:
    """Whether a text file is a table itself: `glove.txt` beside `glove.npy` is the same table, not its symbols."""
    line = first_bytes(file, _FIRST_LINE_BYTES).partition(b"\n")[0]
    header = Header.parse(line)
    return trailing_numbers(line) >= dim or (header is not None and header.dim == dim)


def _symbols(file: Path, matrix: Path, count: int, wanted: int) -> list[str]:
    """The first `wanted` symbols of a file that must have `count` of them."""
    rows = FileRows(file, "line")
    lines = 0
    for first, block in line_blocks(file):
        for number, raw in enumerate(block[: max(0, wanted + 1 - first)], first):
            symbol = raw.removesuffix(b"\r")
            if not symbol:
                rows.reject(number, "expected a symbol, found an empty line")
            rows.add(number, symbol)
        lines += len(block)
    if lines != count:
        raise FormatError(
            f"{file}: line {min(lines, count) + 1}: expected one symbol for each of the {count} rows of {matrix}, "
            f"found {lines} lines; if this is not the file of its symbols, name one with symbols="
        )
    return list(rows.numbers)
