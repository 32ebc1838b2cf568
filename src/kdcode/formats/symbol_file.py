"""Symbols that stand beside a matrix: a text file with one symbol per line."""

from __future__ import annotations

from pathlib import Path

from kdcode.errors import FormatError
from kdcode.formats.blocks import first_bytes, line_blocks
from kdcode.formats.format import ReadOptions
from kdcode.formats.text_rows import Header, trailing_numbers, utf8_fault

_FIRST_LINE_BYTES = 1 << 16


def written_beside(path: Path) -> Path:
    """Where writers put the symbols of the matrix at `path`."""
    return path.with_name(f"{path.stem}.symbols.txt")


def symbols_for(path: Path, options: ReadOptions, shape: tuple[int, int]) -> list[str] | None:
    """The symbols of the (N, d) matrix at `path`: from the file that was named, or one found beside it.

    Returns:
        The first `options.limit` of N symbols, or None where no file was named or found.

    Raises:
        FormatError: the file does not hold N distinct symbols.
    """
    file = found_beside(path, shape[1]) if options.symbols is None else Path(options.symbols)
    return None if file is None else _read(file, path, shape[0], options.limit)


def found_beside(path: Path, dim: int) -> Path | None:
    """`<stem>.symbols.txt`, `<stem>.txt` or `symbols.txt` in the folder of `path`, the first that is there."""
    same_stem = path.with_suffix(".txt")
    for file in (written_beside(path), same_stem, path.with_name("symbols.txt")):
        if file.is_file() and not (file == same_stem and _holds_vectors(file, dim)):
            return file
    return None


def fault(symbol: str) -> str | None:
    """Why a line cannot hold `symbol`, or None."""
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


def _read(file: Path, matrix: Path, count: int, limit: int | None) -> list[str]:
    lines: dict[str, int] = {}
    wanted = count if limit is None else min(limit, count)
    last = 0
    for first, block in line_blocks(file):
        for number, raw in enumerate(block[: max(0, wanted + 1 - first)], first):
            symbol = _symbol(file, number, raw)
            if symbol in lines:
                raise FormatError(
                    f"{file}: line {number}: the symbol {symbol!r} stands in line {lines[symbol]} already; "
                    "symbols must be distinct"
                )
            lines[symbol] = number
        last = first + len(block) - 1
    if last != count:
        raise FormatError(
            f"{file}: line {min(last, count) + 1}: expected one symbol for each of the {count} rows of {matrix}, "
            f"found {last} lines; if this is not the file of its symbols, name one with symbols="
        )
    return list(lines)


def _symbol(file: Path, number: int, raw: bytes) -> str:
    line = raw.removesuffix(b"\r")
    if not line:
        raise FormatError(f"{file}: line {number}: expected a symbol, found an empty line")
    if undecodable := utf8_fault(line):
        raise FormatError(f"{file}: line {number}: {undecodable}")
    return line.decode("utf-8")
