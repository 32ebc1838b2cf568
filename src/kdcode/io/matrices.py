"""Files that hold matrices: which matrix is the table, its rows, and its symbols in a text file beside it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.arrays import FloatArray
from kdcode.errors import FormatError
from kdcode.files import beside
from kdcode.io.format import ReadOptions, checked_chunks, fresh_file, warn_caller
from kdcode.io.lines import RowCollector, byte_blocks, first_bytes, line_blocks
from kdcode.io.places import Place
from kdcode.io.reader import Chunk, Progress, Reader
from kdcode.io.text import Header, trailing_numbers
from kdcode.limits import MemoryLimit
from kdcode.printable import shown
from kdcode.rows import Rows
from kdcode.symbols import RowNumbers
from kdcode.table import VectorTable

_FIRST_LINE_BYTES = 1 << 16
_LINES_TOO_MANY = 1 << 16
_MARK_LINES = 1 << 16
"""The offset of every 65,536th line of a symbols file is kept, so that reading can start near any line."""
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
"""What models call the table of their tokens, without `.weight`; the first of these that a file has is read."""


class ChosenMatrixWarning(UserWarning):
    """A file holds several matrices, and the one with the usual name of a table of tokens was read.

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
    """The name of the matrix to read: the one that the user named, the only one, or the one with the usual name.

    Args:
        path: the file, for messages.
        shapes: the shape of every array of real numbers in the file, by name.
        wanted: the name that the user gave.
        others: the kind of each array that cannot be read, by name.

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
    warn_caller(ChosenMatrixWarning(path, obvious, matrices[obvious]))
    return obvious


def _obvious(names: Iterable[str]) -> str | None:
    """The usual name of a table of tokens, or None if there is none or more than one."""
    for kind in _TOKEN_TABLES:
        found = [name for name in names if name.removesuffix(".weight").rpartition(".")[2] == kind]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _listed(matrices: Mapping[str, tuple[int, ...]]) -> str:
    """Names and shapes, largest first."""
    names = sorted(matrices, key=lambda name: -matrices[name][0] * matrices[name][1])
    listed = ", ".join(f"{name[:_SHOWN]} {matrices[name][0]} x {matrices[name][1]}" for name in names[:_LISTED])
    return listed + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


@dataclass(frozen=True)
class StoredArray:
    """Where the numbers of an array are in a file.

    Args:
        start: the byte of the first.
        shape: sizes of its axes; rows and dimension of a matrix.
        dtype: how they are stored.
        order: "C" where rows lie one after another, "F" where columns do.
        is_bfloat16: whether they are bfloat16, stored here as 16-bit integers because numpy has no such type.
    """

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str = "C"
    is_bfloat16: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        shape = f"{self.shape[:5]}"[:-1] + ", …)" if len(self.shape) > 5 else f"{self.shape}"
        return f"of shape {shape} and type {self.dtype}"

    def mapped(self, path: Path) -> npt.NDArray[Any]:
        """All of it, memory-mapped."""
        try:
            return np.memmap(path, self.dtype, "r", self.start, self.shape, self.order)  # type: ignore[call-overload,no-any-return]
        except ValueError as error:  # it was cut short just now
            raise FormatError(f"{path}: the file changed while it was opened: {error}") from None

    def as_float32(self, stored: npt.NDArray[Any]) -> FloatArray:
        """Stored numbers as float32."""
        if self.is_bfloat16:  # the upper half of a float32
            wide = stored.astype(np.uint32)
            wide <<= 16
            numbers: FloatArray = wide.view(np.float32)
            return numbers
        with np.errstate(over="ignore", invalid="ignore"):  # numbers that become inf or NaN are refused later
            return stored.astype(np.float32)


class MatrixReader(Reader):
    """The rows of a matrix in a file, read by seeking; only `table` maps the file into memory.

    Args:
        place: the file.
        matrix: where its numbers are.
        options: may name the file of its symbols; otherwise one is looked for beside a local file.
    """

    def __init__(self, place: Place, matrix: StoredArray, options: ReadOptions) -> None:
        self.matrix, self._options = matrix, options
        total, dim = matrix.shape
        self.symbols = _symbol_file(place, options, matrix.shape)
        places = [place] if self.symbols is None else [place, self.symbols.place]
        super().__init__(places, options.rows_of(total), dim, has_symbols=self.symbols is not None)

    def check_parts(self) -> None:
        """Refuse a matrix whose columns lie one after another.

        Raises:
            FormatError: it is such a matrix.
        """
        if self.matrix.order == "F" and 1 not in self.matrix.shape:
            raise FormatError(
                f"{self.name}: its numbers lie column by column, so rows cannot be read one after another; "
                "save it again with numpy.save(path, numpy.ascontiguousarray(matrix))"
            )

    def table(self, on_progress: Progress | None = None) -> VectorTable:
        """The whole table; its matrix is memory-mapped where the file is local and numpy has its type."""
        if self.places[0].is_remote:
            return super().table(on_progress)
        matrix = self.matrix.mapped(Path(self.name))[: len(self)]
        if self.matrix.is_bfloat16:
            self._options.memory_limit(Path(self.name)).check("its numbers as float32", 4 * matrix.size)
            matrix = self.matrix.as_float32(matrix)
        return VectorTable(None if self.symbols is None else self.symbols.first(len(self)), matrix)

    def _read(self, start: int, stop: int, rows: int) -> Iterator[Chunk]:
        width = self.embedding_dim * self.matrix.dtype.itemsize
        names = None if self.symbols is None else self.symbols.read(start, stop)
        with self.places[0].opened() as stream:
            stream.seek(self.matrix.start + start * width)
            for first in range(start, stop, rows):
                wanted = min(rows, stop - first) * width
                raw = stream.read(wanted)
                if len(raw) < wanted:
                    raise FormatError(f"{self.name}: ends inside row {first + len(raw) // width}; has it changed?")
                stored: npt.NDArray[Any] = np.frombuffer(raw, self.matrix.dtype).reshape(-1, self.embedding_dim)
                vectors = self.matrix.as_float32(stored)
                yield None if names is None else list(islice(names, len(vectors))), vectors


class SymbolFile:
    """The symbols of a matrix, one per line of a text file. Reads it once to count its lines.

    Args:
        place: the file, which may be gzipped.
        rows: how many lines it must have.
        owner: the file of the matrix, for messages.
        max_expansion: how many times its size it may take in memory.

    Raises:
        FormatError: it has another number of lines.
    """

    def __init__(self, place: Place, rows: int, owner: str, max_expansion: float) -> None:
        self.place = place
        self._limit = MemoryLimit(place.size(), max_expansion, place.name)
        self._marks = [0]
        lines, reached, last = 0, 0, b"\n"
        for block in byte_blocks(place, None, self._limit):
            breaks = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
            self._marks += (reached + 1 + breaks[-(lines + 1) % _MARK_LINES :: _MARK_LINES]).tolist()
            lines, reached, last = lines + len(breaks), reached + len(block), block[-1:]
            if lines > rows + _LINES_TOO_MANY:
                break
        more = " or more" if lines > rows + _LINES_TOO_MANY else ""
        lines += last != b"\n"
        if lines != rows:
            raise FormatError(
                f"{place.name}: line {min(lines, rows) + 1}: expected one symbol for each of the {rows} rows of "
                f"{owner}, found {lines} lines{more}; if this is not the file of its symbols, name one with symbols="
            )

    def read(self, start: int, stop: int) -> Iterator[str]:
        """The symbols of the rows from `start` up to `stop`.

        Raises:
            FormatError: a line is empty, too long or not UTF-8; the message has its number, counted from 1.
        """
        for number, symbol in self._lines(start, stop):
            try:
                yield symbol.decode("utf-8")
            except UnicodeDecodeError as error:
                raise self._refusal(number, f"the symbol is not UTF-8: {error.reason}") from None

    def first(self, count: int) -> list[str]:
        """The first symbols, each checked to be distinct."""
        rows = RowCollector(self.place.name, "line", self._limit)
        for number, symbol in self._lines(0, count):
            rows.add(number, symbol)
        return list(rows.numbers)

    def _lines(self, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """The lines of some rows, with their numbers from 1."""
        mark = start // _MARK_LINES
        for first, block in line_blocks(self.place, None, self._limit, (self._marks[mark], mark * _MARK_LINES + 1)):
            for number, line in enumerate(block[: stop + 1 - first], first):
                if number <= start:
                    continue
                symbol = line.removesuffix(b"\r")
                if not symbol:
                    raise self._refusal(number, "expected a symbol, found an empty line")
                yield number, symbol
            if first + len(block) > stop:
                return

    def _refusal(self, number: int, reason: str) -> FormatError:
        return FormatError(f"{self.place.name}: line {number}: {reason}")


def _symbol_file(place: Place, options: ReadOptions, shape: tuple[int, ...]) -> SymbolFile | None:
    """The file of symbols that was named, or one found beside a local file."""
    named = options.symbols
    if named is None and not place.is_remote and (found := found_beside(Path(place.name), shape[1])):
        named = str(found)
    return None if named is None else SymbolFile(Place(named), shape[0], place.name, options.max_expansion)


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
    symbols = _symbol_file(Place(str(path)), options, (count, matrix.shape[1]))
    return VectorTable(None if symbols is None else symbols.first(len(matrix)), matrix)


def written_beside(path: Path) -> Path:
    """The file in which writers put the symbols of the matrix at `path`."""
    return beside(path, path.stem, ".symbols.txt")


def found_beside(path: Path, dim: int) -> Path | None:
    """The first of `<stem>.symbols.txt`, `<stem>.txt` and `symbols.txt` that is in the folder of `path`."""
    same_stem = path.with_suffix(".txt")
    for file in (written_beside(path), same_stem, path.with_name("symbols.txt")):
        if file.is_file() and not (file == same_stem and _holds_vectors(file, dim)):
            return file
    return None


def write(rows: Rows, path: Path, on_progress: Progress | None, head: bytes) -> None:
    """Write `head` and then float32 rows to a file; symbols, where rows have them, go to `<stem>.symbols.txt`.

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
        names = None if unnamed else stack.enter_context(fresh_file(written_beside(path)))
        stream = stack.enter_context(fresh_file(path))
        stream.write(head)
        for symbols, vectors in checked_chunks(rows, path, symbol_fault, on_progress):
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
