"""Files that hold matrices: which one is the table, and its symbols in a text file beside it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.errors import FormatError
from kdcode.files import beside
from kdcode.formats import writing
from kdcode.formats.blocks import first_bytes, line_blocks
from kdcode.formats.file_rows import FileRows
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.opening import on_disk
from kdcode.formats.text import Header, trailing_numbers
from kdcode.printable import shown
from kdcode.rows import Rows
from kdcode.symbols import RowNumbers
from kdcode.table import VectorTable

_FIRST_LINE_BYTES = 1 << 16
_LINES_TOO_MANY = 1 << 16
_LISTED = 20
_SHOWN = 80

_TOKEN_TABLES = (
    "word_embeddings",  # BERT, RoBERTa, BLOOM
    "word_embedding",  # XLNet
    "tok_embeddings",  # ModernBERT, the first Llama
    "token_embedding",  # CLIP
    "embed_tokens",  # Llama, Mistral, Qwen, Gemma
    "shared",  # T5, BART
    "wte",  # GPT-2
    "embed_in",  # GPT-NeoX
    "item_embedding",  # recommenders
    "embedding",
    "embeddings",
    "embed",
    "emb",
)
"""How models call the table of their tokens, without `.weight`; where two are found, the one that stands first."""


class ChosenMatrixWarning(UserWarning):
    """A file holds several matrices, and the one that is called like a table of tokens was read.

    Args:
        path: the file.
        name: the matrix that was read.
        shape: its rows and its dimension.
    """

    def __init__(self, path: Path, name: str, shape: tuple[int, ...]) -> None:
        super().__init__(path, name, shape)  # what pickle calls the class with again

    def __str__(self) -> str:
        path, name, (rows, dim) = self.args
        return shown(f"{path}: read the tensor {name!r}, {rows} x {dim}; another one is read with tensor=")


def choose(
    path: Path, shapes: Mapping[str, tuple[int, ...]], wanted: str | None, others: Mapping[str, str] | None = None
) -> str:
    """The name of the matrix to read: the one that was asked for, the only one there is, or the obvious one.

    Args:
        path: the file, for messages.
        shapes: the shape of every array of real numbers in the file, by name.
        wanted: the name that was asked for.
        others: what arrays are that cannot be read, by name.

    Raises:
        FormatError: no such array, or several to choose from; the message lists them.
    """
    matrices = {name: shape for name, shape in shapes.items() if len(shape) == 2}
    if wanted is not None:
        if wanted in matrices:
            return wanted
        found = f"it has shape {shapes[wanted]}" if wanted in shapes else "there is none of that name"
        found = f"it is {others[wanted]}" if others and wanted in others else found
        raise FormatError(
            f"{path}: expected {wanted!r} to be a matrix of floats, {found}; matrices: {_listed(matrices) or 'none'}"
        )
    if not matrices:
        instead = ", ".join(f"{name[:_SHOWN]} is {kind}" for name, kind in [*(others or {}).items()][:_LISTED])
        raise FormatError(f"{path}: expected a matrix of floats, found none" + (f": {instead}" if instead else ""))
    if len(matrices) == 1:
        return next(iter(matrices))
    obvious = _obvious(matrices)
    if obvious is None:
        raise FormatError(f"{path}: holds {len(matrices)} matrices, name one with tensor=: {_listed(matrices)}")
    # From here over a format's `read`, `formats._read` and `formats.read` to the user's line.
    warnings.warn(ChosenMatrixWarning(path, obvious, matrices[obvious]), stacklevel=5)
    return obvious


def _obvious(names: Iterable[str]) -> str | None:
    """The one name that a table of tokens would have, or None."""
    for kind in _TOKEN_TABLES:
        found = [name for name in names if name.removesuffix(".weight").rpartition(".")[2] == kind]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _listed(matrices: Mapping[str, tuple[int, ...]]) -> str:
    """Names and shapes, the largest first: tables are large."""
    names = sorted(matrices, key=lambda name: -matrices[name][0] * matrices[name][1])
    listed = ", ".join(f"{name[:_SHOWN]} {matrices[name][0]} x {matrices[name][1]}" for name in names[:_LISTED])
    return listed + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


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
    if file is None:
        return VectorTable(None, matrix)
    with on_disk(file) as there:
        return VectorTable(_symbols(there, path, options, count, len(matrix)), matrix)


def written_beside(path: Path) -> Path:
    """Where writers put the symbols of the matrix at `path`."""
    return beside(path, path.stem, ".symbols.txt")


def found_beside(path: Path, dim: int) -> Path | None:
    """`<stem>.symbols.txt`, `<stem>.txt` or `symbols.txt` in the folder of `path`, the first that is there."""
    same_stem = path.with_suffix(".txt")
    for file in (written_beside(path), same_stem, path.with_name("symbols.txt")):
        if file.is_file() and not (file == same_stem and _holds_vectors(file, dim)):
            return file
    return None


def write(rows: Rows, path: Path, on_progress: Progress | None, head: bytes) -> None:
    """Write a file that is `head` and then float32 rows; symbols, where rows have them, go to `<stem>.symbols.txt`.

    Raises:
        FormatError: the symbols file cannot hold a symbol, or a file of other symbols would be read as theirs.
    """
    unnamed = isinstance(getattr(rows, "symbols", None), RowNumbers)
    if unnamed and (stale := found_beside(path, rows.embedding_dim)):
        raise FormatError(
            f"{path}: the rows to write have no symbols, but {stale} would be read as theirs; "
            "remove it or write elsewhere"
        )
    with ExitStack() as stack:
        names = None if unnamed else stack.enter_context(writing.fresh_file(written_beside(path)))
        stream = stack.enter_context(writing.fresh_file(path))
        stream.write(head)
        for symbols, vectors in writing.checked_chunks(rows, path, symbol_fault, on_progress):
            if names is not None:
                names.write("".join(f"{symbol}\n" for symbol in symbols).encode("utf-8"))
            stream.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
        if names is not None:
            names.flush()
            os.fsync(names.fileno())  # a full disk shows here, before the matrix takes its place


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


def _symbols(file: Path, matrix: Path, options: ReadOptions, count: int, wanted: int) -> list[str]:
    """The first `wanted` symbols of a file that must have `count` of them."""
    limit = options.memory_limit(file)
    rows = FileRows(file, "line", limit)
    lines = 0
    for first, block in line_blocks(file, None, limit):
        for number, raw in enumerate(block[: max(0, wanted + 1 - first)], first):
            symbol = raw.removesuffix(b"\r")
            if not symbol:
                rows.reject(number, "expected a symbol, found an empty line")
            rows.add(number, symbol)
        lines += len(block)
        if lines > count + _LINES_TOO_MANY:
            break
    if lines != count:
        more = " or more" if lines > count + _LINES_TOO_MANY else ""
        raise FormatError(
            f"{file}: line {min(lines, count) + 1}: expected one symbol for each of the {count} rows of {matrix}, "
            f"found {lines} lines{more}; if this is not the file of its symbols, name one with symbols="
        )
    return list(rows.numbers)
