"""What the commands print: numbers, sizes part by part, symbols, JSON."""

from __future__ import annotations

import json
import math
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kdcode.printable import is_safe, shown
from kdcode.wording import percent, shared_codes

if TYPE_CHECKING:
    from kdcode.arrays import FloatArray
    from kdcode.codec import CodecSpec, Sizes, TransformSpec
    from kdcode.coded import CodedTable
    from kdcode.evaluation import RowMatch
    from kdcode.options import CompressOptions

_CODEWORD_FACTS = (
    *("codebook_size", "code_length", "codeword_dim", "composition", "groups", "codebook_dtype", "scale_bits"),
)
_TRANSFORM_FACTS = (
    *("codebook_size", "code_length", "composition", "lengths", "mean_length", "reflections"),
    *("states", "level_groups", "contexts", "weights", "rows_per_block", "signs", "centroids", "centroid_bits"),
)
"""What `describe` says of the shape of a codec, by its names in the file."""
_NOT_ASCII = re.compile(r"[^ -~\n]")


def describe(coded: CodedTable, path: str) -> dict[str, Any]:
    """Everything that `info` says of a file, by name, as JSON values."""
    file_bytes = Path(path).stat().st_size
    count, dim, sizes = len(coded), coded.embedding_dim, coded.sizes
    shape = _TRANSFORM_FACTS if coded.codewords is None else _CODEWORD_FACTS
    return {
        "file": path,
        "file_bytes": file_bytes,
        "overhead_bytes": file_bytes - sizes.total,
        "num_embeddings": count,
        "embedding_dim": dim,
        **{name: getattr(coded.spec, name) for name in shape},
        "rotated": coded.spec.is_rotated,
        "bits": coded.spec.bits,
        "parameters": coded.spec.parameters,
        "original_bytes": 4 * count * dim,
        "sizes": sizes.as_dict(),
        "ratio_embedding": sizes.ratio(count, dim),
        "ratio_file": sizes.file_ratio(count, dim, file_bytes),
        "provenance": coded.provenance,
    }


def print_json(value: object) -> None:
    r"""One JSON document on stdout, a list with one item per line; what is not a finite number becomes null.

    Characters that are not safe to print, or that stdout cannot encode, are escaped as JSON has it: `\u001b`.
    """
    clean = _finite(value)
    if isinstance(clean, list):
        items = (f"  {_json(item)}" for item in clean)
        click.echo("[\n" + ",\n".join(items) + "\n]" if clean else "[]")
    else:
        click.echo(_json(clean, indent=2))


def size_rows(sizes: Sizes, num_embeddings: int, embedding_dim: int, file_bytes: int | None = None) -> list[str]:
    """The bytes of each part, their sum, and both ratios; without `file_bytes` it is a promise, header left out."""
    parts = [("codes", sizes.codes), ("codebook", sizes.codebook), ("composition", sizes.composition)]
    parts = [(name, size) for name, size in parts if size or name != "codebook"]  # transform codes have none
    total, what = (sizes.total, "total") if file_bytes is None else (file_bytes, "file")
    ratio = sizes.ratio(num_embeddings, embedding_dim)
    file_ratio = sizes.file_ratio(num_embeddings, embedding_dim, total)
    rows = [f"  {name:<12}{amount(size):>16}" for name, size in parts]
    if not num_embeddings:  # a codebook stands for no vectors yet
        return [*rows, f"  {what:<12}{amount(total):>16}"]
    rows.append(f"  {'embedding':<12}{amount(sizes.embedding):>16}   {ratio:.1f}x smaller than float32 vectors")
    rows.append(f"  {'symbols':<12}{amount(sizes.symbols):>16}")
    if file_bytes is not None:
        rows.append(f"  {'overhead':<12}{amount(file_bytes - sizes.total):>16}   header and digests")
    rows.append(f"  {what:<12}{amount(total):>16}   {file_ratio:.1f}x smaller than float32 vectors with symbols")
    return rows


def quality(measured: Mapping[str, Any], coded: CodedTable) -> dict[str, str]:
    """What was lost, in words, by what it is called; of `measured` what is there and is a number."""
    from kdcode.symbols import RowNumbers

    what, count = "rows" if isinstance(coded.symbols, RowNumbers) else "symbols", len(coded)
    nearest = f"of the 10 nearest {what}" if count > 10 else f"of the nearest {what}"
    words = {
        "relative_error": ("relative error", "{:.4f}   (0: perfect, 1: the mean vector for every row)"),
        "weighted_error": ("weighted error", "{:.4f}   (the same with every row counted by its weight)"),
        "mean_cosine": ("mean cosine", "{:.4f}   (between a vector and its copy)"),
    }
    numbers = {name: value for name, value in measured.items() if is_number(value)}
    lines = {label: text.format(numbers[name]) for name, (label, text) in words.items() if name in numbers}
    if {"low_cosine", "least_cosine"} <= set(numbers):
        low, least = numbers["low_cosine"], numbers["least_cosine"]
        lines["worst rows"] = f"cosine below {low:.3f} for 1 in 100, {least:.3f} for the worst"
    if "recall_at_10" in numbers:
        lines["nearest neighbours"] = f"{percent(numbers['recall_at_10'])} {nearest} are the same as before"
    if "shared_codes" in numbers and count:
        lines["shared codes"] = shared_codes(int(numbers["shared_codes"]), count, what)
    return lines


def matched(match: RowMatch, file: str, original: str) -> list[str]:
    """Which rows were compared, and which symbols are only in the file or only in the original."""
    if not match.by_symbol:
        return [f"compared with {original} row by row, since there are no symbols to match: {match.rows:,} rows"]
    which = f"all {match.rows:,} symbols" if match.is_complete else f"the {match.rows:,} symbols that both have"
    order = "" if match.same_order else ", which are in another order there"
    lines = [f"compared with {original}: {which}{order}"]
    sides = ((original, match.only_in_original, match.missing), (file, match.only_in_copy, match.added))
    for where, count, some in sides:
        if count:
            names = ", ".join(map(shown, some)) + (", …" if count > len(some) else "")
            lines.append(f"{count:,} {'symbol is' if count == 1 else 'symbols are'} only in {where}: {names}")
    return lines


def is_number(value: object) -> bool:
    """Whether a JSON value is a number that can be shown; files of others may hold anything."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def composition(options: CompressOptions) -> str:
    """The composition of codes with what sets it apart: linear, codewords of 30; grouped, 4 groups, rotated."""
    words = f", codewords of {options.codeword_dim}" if options.codeword_dim else ""
    words += f", {options.groups} groups" if options.groups else ""
    return options.composition + words + (", rotated" if options.rotation else "")


def pairs(values: Mapping[str, object]) -> list[str]:
    """Names and values as aligned lines."""
    width = max(map(len, values)) + 2
    return [f"{name:<{width}}{value}" for name, value in values.items()]


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Rows of cells as lines with aligned columns; those numbered in `right` are aligned at their right edge."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    edges = [">" if number in right else "<" for number in range(len(widths))]
    lines = ([f"{cell:{edge}{width}}" for cell, edge, width in zip(row, edges, widths, strict=True)] for row in rows)
    return ["  ".join(line).rstrip() for line in lines]


def echo(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines to stdout, or to stderr."""
    click.echo("\n".join(lines), err=err)


def amount(size: int) -> str:
    """Bytes, exactly."""
    return f"{size:,} B"


def code_text(code: Sequence[int], spec: CodecSpec) -> str:
    """A code as the paper prints it: 3-1-0-3. A transform code is shown by its levels: 0 1 -2 (5 bytes, sides +-)."""
    import numpy as np

    from kdcode.codec import TransformSpec
    from kdcode.codec.transform import signed

    if not isinstance(spec, TransformSpec):
        return "-".join(str(int(value)) for value in code)
    values, (*others, row_class, sides) = code[: spec.code_length], code[spec.code_length :]
    levels = " ".join(str(level) for level in signed(np.array(values)).tolist())
    signs = f"{sides:b}"[1:].replace("1", "+").replace("0", "-")
    length = f"{spec.lengths[row_class]} bytes"
    if spec.rows_per_block > 1:
        length += f" of {spec.rows_per_block} rows"
    from_centroid = f"from centroid {others[0]}: " if spec.centroids else ""
    return f"{from_centroid}{levels} ({length}, {f'sides {signs}' if signs else 'no sides'})"


def code_shape(coded: CodedTable) -> dict[str, str]:
    """What the codes of a file are, by what it is called."""
    from kdcode.codec import CodewordSpec, TransformSpec

    spec = coded.spec
    if isinstance(spec, TransformSpec):
        return _transform_shape(coded, spec)
    assert isinstance(spec, CodewordSpec)  # noqa: S101 - for the type checker
    scale = f", {spec.scale_bits} bits of scale" if spec.scale_bits else ""
    groups = f" of {spec.groups} groups" if spec.composition == "grouped" else ""
    rotated = ", rotated" if spec.is_rotated else ""
    codewords = f"codewords of {spec.codeword_dim} {spec.codebook_dtype} numbers"
    return {
        "code": f"K={spec.codebook_size}, D={spec.code_length}{scale}, {spec.bits} bits per symbol",
        "composition": f"{spec.composition}{groups}, {codewords}{rotated}",
        "parameters": f"{spec.parameters:,} (excluding codes)",
    }


def _transform_shape(coded: CodedTable, spec: TransformSpec) -> dict[str, str]:
    lengths = f" on average, {len(spec.lengths)} lengths from {min(spec.lengths)} to {max(spec.lengths)}"
    together = spec.rows_per_block
    mean = coded.packed.nbytes * together / len(coded) if len(coded) else spec.mean_length
    each = f"{mean:.1f} bytes{lengths}" if len(spec.lengths) > 1 else f"{spec.lengths[0]} bytes"
    each += f", for blocks of {together} rows" if together > 1 else ""
    rotation = f"rotation of {spec.reflections} reflections"
    return {
        "code": f"a level for each dimension, {each}",
        "composition": f"transform, {rotation if spec.reflections else 'no rotation'}, {spec.states} states",
        "tables": f"{spec.weights:,} weights of levels, in {spec.contexts} contexts",
        **({"centroids": f"{spec.centroids:,}, {spec.centroid_bits} bits a number"} if spec.centroids else {}),
    }


def shortest(vector: FloatArray) -> list[float]:
    """The numbers of a float32 vector with no more digits than float32 has."""
    return [float(str(value)) for value in vector]


def clipped(words: Sequence[str], width: int) -> str:
    """As many of the words as fit in `width` columns."""
    line = " ".join(map(shown, words))
    return textwrap.shorten(line, width, placeholder=" …", break_long_words=False, break_on_hyphens=False)


def _json(value: object, indent: int | None = None) -> str:
    text, encoding = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False), sys.stdout.encoding

    def kept(found: re.Match[str]) -> str:
        character = found[0]
        can_print = is_safe(character) and character.encode(encoding, "ignore")
        return character if can_print else json.dumps(character)[1:-1]

    return _NOT_ASCII.sub(kept, text)


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
