"""What the commands print: numbers, sizes part by part, symbols, JSON."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from os import PathLike

    from kdcode.budget import Sizes
    from kdcode.coded import CodedTable
    from kdcode.table import FloatArray

_UNSHOWABLE = {"Cc", "Cs", "Zl", "Zp"}


def describe(coded: CodedTable, path: str | PathLike[str]) -> dict[str, Any]:
    """Everything that `info` says of a file, by name, as JSON values."""
    from pathlib import Path

    file_bytes = Path(path).stat().st_size
    count, dim, sizes = len(coded), coded.embedding_dim, coded.sizes
    return {
        "file": str(path),
        "file_bytes": file_bytes,
        "overhead_bytes": file_bytes - sizes.total,
        "num_embeddings": count,
        "embedding_dim": dim,
        "codebook_size": coded.codebook_size,
        "code_length": coded.code_length,
        "codeword_dim": coded.shape.codeword_dim,
        "composition": coded.composition.name,
        "number_format": coded.shape.number_format,
        "bits_per_symbol": coded.bits_per_symbol,
        "parameters": coded.shape.parameters,
        "original_bytes": 4 * count * dim,
        "sizes": sizes.as_dict(),
        "ratio_embedding": sizes.ratio(count, dim),
        "ratio_file": sizes.file_ratio(count, dim, file_bytes),
        "provenance": coded.provenance,
    }


def print_json(value: object) -> None:
    """One JSON document on stdout, a list with one item per line; what is not a finite number becomes null."""
    clean = _finite(value)
    if isinstance(clean, list):
        items = (f"  {json.dumps(item, ensure_ascii=False, allow_nan=False)}" for item in clean)
        click.echo("[\n" + ",\n".join(items) + "\n]" if clean else "[]")
    else:
        click.echo(json.dumps(clean, ensure_ascii=False, indent=2, allow_nan=False))


def size_rows(sizes: Sizes, num_embeddings: int, embedding_dim: int, file_bytes: int | None = None) -> list[str]:
    """The bytes of each part, their sum, and both ratios; without `file_bytes` it is a promise, header left out."""
    parts = [("codes", sizes.codes), ("codebook", sizes.codebook), ("composition", sizes.composition)]
    total, what = (sizes.total, "total") if file_bytes is None else (file_bytes, "file")
    ratio, file_ratio = (
        sizes.ratio(num_embeddings, embedding_dim),
        sizes.file_ratio(num_embeddings, embedding_dim, total),
    )
    rows = [f"  {name:<12}{amount(size):>16}" for name, size in parts]
    rows.append(f"  {'embedding':<12}{amount(sizes.embedding):>16}   {ratio:.1f}x smaller than float32 vectors")
    rows.append(f"  {'symbols':<12}{amount(sizes.symbols):>16}")
    if file_bytes is not None:
        rows.append(f"  {'header':<12}{amount(file_bytes - sizes.total):>16}")
    rows.append(f"  {what:<12}{amount(total):>16}   {file_ratio:.1f}x smaller than float32 vectors with symbols")
    return rows


def pairs(values: Mapping[str, object]) -> list[str]:
    """Names and values as aligned lines."""
    width = max(map(len, values)) + 2
    return [f"{name:<{width}}{value}" for name, value in values.items()]


def echo(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines to stdout, or to stderr."""
    click.echo("\n".join(lines), err=err)


def amount(size: int) -> str:
    """Bytes, exactly."""
    return f"{size:,} B"


def code_text(code: Iterable[int]) -> str:
    """A code as the paper prints it: 3-1-0-3."""
    return "-".join(str(int(value)) for value in code)


def shown(symbol: str) -> str:
    """A symbol for a line of text; control characters are escaped, so that it can neither break nor steer it."""
    if any(unicodedata.category(character) in _UNSHOWABLE for character in symbol):
        return repr(symbol)[1:-1]
    return symbol


def shortest(vector: FloatArray) -> list[float]:
    """The numbers of a float32 vector with no more digits than float32 has."""
    return [float(str(value)) for value in vector]


def clipped(words: Sequence[str], width: int) -> str:
    """As many of the words as fit in `width` columns."""
    line = ""
    for word in words:
        longer = f"{line} {shown(word)}".strip()
        if len(longer) > width:
            while len(line) > width - 2:
                line = line.rpartition(" ")[0]
            return f"{line} …".strip()
        line = longer
    return line


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
