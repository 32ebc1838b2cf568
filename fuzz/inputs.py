"""Damaged and hostile files in every format that kdcode reads: each gives a table that is whole, or is refused.

    python fuzz/inputs.py --count 50000 --seed 0

A case changes a good file, gives it the right name or another one, and reads it with some options: all of it and its
first rows, from the disk and, now and then, from a pipe. Nothing but a KdcodeError may be raised, and no warning but
those of kdcode given. Most of these formats have no checksums, so changed numbers may well be read; but a table that is
read is finite, its symbols are distinct text, and its first rows are those that reading only them gives. A good file
gives its own symbols and numbers, and what is read of a safetensors file, the safetensors library reads too.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import harness
import numpy as np
from case_worker import Case, WrongError
from input_mutations import damaged
from input_samples import ROWS, SAMPLES, SYMBOLS, Sample
from safetensors import safe_open

import kdcode
from kdcode.errors import KdcodeError
from kdcode.io import FORMATS, ChosenMatrixWarning, SkippedLinesWarning, detect
from kdcode.table import VectorTable

SUFFIXES = tuple(suffix for format in FORMATS.values() for suffix in format.suffixes)
OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "tensor": ("w", "a.b", "embed.weight", "token_embd.weight", "vectors", "none", "\x1b[31m"),
    "symbol_column": ("s", "id", "1", "word", "", "none"),
    "vector_column": ("v", "2", "vector", "", "none"),
    "on_bad_line": ("skip",),
    "max_expansion": (1, 100, 1e9),
}
GOOD_SHARE, PIPE_SHARE = 0.03, 0.02


def check(case: Case) -> str:
    """Make one file and read it in several ways."""
    random = case.random
    sample = random.choice(SAMPLES)
    if random.random() < GOOD_SHARE:
        return _good(case, sample)
    how, content = damaged(random, sample)
    suffix = sample.suffix if random.random() < 0.8 else random.choice((*SUFFIXES, "", ".kdc"))
    path = case.folder / f"file{suffix}"
    path.write_bytes(content)
    options = _options(random, sample, path)
    what = f"{sample.format}, {how}, as {path.name}, {options}"
    table = _read(path, options, what)
    if table is None:
        return f"{sample.format}: refused"
    _check_whole(table, what)
    _check_first_rows(random, path, options, table, what)
    if options.get("format", _detected(path)) == "safetensors":
        _check_library(path, what)
    if random.random() < PIPE_SHARE:
        _check_pipe(case.folder, content, suffix, options, table, what)
    return f"{sample.format}: read"


def _good(case: Case, sample: Sample) -> str:
    """A good file gives what it holds."""
    path = case.folder / f"file{sample.suffix}"
    path.write_bytes(sample.content)
    table = _read(path, {"format": sample.format, **dict(sample.options)}, "a good file")
    if table is None or not np.array_equal(np.asarray(table.matrix, dtype=np.float32), sample.matrix):
        raise WrongError(f"a good file of {sample.format} was not read as it is")
    if tuple(table.symbols) != (sample.symbols or tuple(map(str, range(len(table))))):
        raise WrongError(f"a good file of {sample.format} has other symbols than were written")
    return "good"


def _options(random: Random, sample: Sample, path: Path) -> dict[str, Any]:
    """Options of reading; those that a format does not have are refused, which is tried now and then."""
    options: dict[str, Any] = dict(sample.options) if random.random() < 0.9 else {}
    for name, values in OPTIONS.items():
        if random.random() < (0.15 if name in FORMATS[sample.format].options else 0.003):
            options[name] = random.choice(values)
    if random.random() < 0.3:
        options["format"] = sample.format if random.random() < 0.7 else random.choice(list(FORMATS))
    if random.random() < 0.3 and "symbols" in FORMATS[sample.format].options:
        beside = path.with_name(random.choice(("file.symbols.txt", "symbols.txt", "names")))
        lines = SYMBOLS + random.choice(([], [], ["more"], ["w0"], [""]))
        beside.write_bytes("\n".join(lines[: random.choice((ROWS, ROWS, ROWS - 1, None))]).encode())
        if beside.name == "names":
            options["symbols"] = str(beside)
    return options


def _read(path: Path, options: dict[str, Any], what: str) -> VectorTable | None:
    """The table of a file, or None where it is refused."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            table = kdcode.read(path, **options)
        except KdcodeError as error:
            str(error).encode("utf-8")
            table = None
    for warning in given:
        if not issubclass(warning.category, SkippedLinesWarning | ChosenMatrixWarning):
            raise WrongError(f"{what}: the warning {warning.message}")
    return table


def _detected(path: Path) -> str:
    try:
        return detect(path).name
    except KdcodeError:
        return ""


def _check_whole(table: VectorTable, what: str) -> None:
    """A table has one distinct symbol of text for each row, and finite numbers."""
    symbols = list(table.symbols)
    matrix = np.concatenate([vectors for _, vectors in table.chunks()])
    if matrix.shape != (len(symbols), table.embedding_dim) or len(set(symbols)) != len(symbols) or not matrix.size:
        raise WrongError(f"{what}: {len(symbols)} symbols, {len(set(symbols))} of them distinct, for {matrix.shape}")
    if not np.isfinite(matrix).all() or matrix.dtype != np.float32:
        raise WrongError(f"{what}: a number that is not finite")
    "".join(symbols).encode("utf-8")


def _check_first_rows(random: Random, path: Path, options: dict[str, Any], table: VectorTable, what: str) -> None:
    """Reading the first rows gives the first rows."""
    limit = random.choice((1, 2, len(table), 10**9))
    first = _read(path, {**options, "limit": limit}, what)
    if first is None:
        raise WrongError(f"{what}: refused with limit={limit}, and read without")
    _check_same(first, table, limit, f"{what}: limit={limit}")


def _check_same(given: VectorTable, table: VectorTable, rows: int, what: str) -> None:
    same = np.array_equal(np.asarray(given.matrix), np.asarray(table.matrix[:rows]))
    if not same or list(given.symbols) != list(table.symbols[:rows]):
        raise WrongError(f"{what}: gives other rows")


def _check_library(path: Path, what: str) -> None:
    try:
        with safe_open(path, "numpy") as file:
            file.keys()
    except Exception as error:
        raise WrongError(f"{what}: accepted, and the safetensors library refuses: {error}") from error


def _check_pipe(
    folder: Path, content: bytes, suffix: str, options: dict[str, Any], table: VectorTable, what: str
) -> None:
    """The same bytes from a pipe give the same table; the symbols beside a pipe are not looked for."""
    pipe = folder / f"pipe{suffix}"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    given = _read(pipe, options, what)
    writer.join()
    if given is None or not np.array_equal(np.asarray(given.matrix), np.asarray(table.matrix)):
        raise WrongError(f"{what}: other numbers from a pipe")


if __name__ == "__main__":
    packages = ("gguf", "numpy", "pyarrow", "safetensors", "torch")
    raise SystemExit(harness.main("inputs", check, count=50_000, packages=packages))
