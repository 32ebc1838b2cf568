"""Makes the files of this folder: `python tests/golden/make_golden.py`.

They are made once per format version and then kept: every later kdcode must load them. Numbers come from a formula and
not from a generator of random numbers, whose streams may change.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from kdcode.codec.transform.reflections import packed_shape, stored_numbers
from kdcode.codec.transform.row_blocks import BlockCodes

from kdcode import bitpack
from kdcode.codec import CodecSpec, Transform, TransformSpec, make_codec
from kdcode.coded import CodedTable
from kdcode.storage import save

SYMBOLS = ["the", "", "of", "Zürich", "two words", "日本", "\U0001f600", "a\0b", "of course", "-1"]
MANY = [f"entity/{(number * 37) % 150:03d}" for number in range(150)]
NOTE = {"learner": "by hand", "seed": 0}


def waves(*shape: int) -> np.ndarray:
    """Numbers in (−2, 2) of no pattern that rounding could hide."""
    flat = [2 * math.sin(1.7 * index * index + 0.3) for index in range(1, math.prod(shape) + 1)]
    return np.array(flat, dtype=np.float32).reshape(shape)


def rotation(dim: int) -> np.ndarray:
    """An orthogonal matrix: a reflection at a plane that leans to every axis."""
    normal = waves(dim)
    normal /= np.linalg.norm(normal)
    return np.asarray(np.eye(dim) - 2 * np.outer(normal, normal), dtype=np.float32)


def codes(rows: int, spec: CodecSpec) -> np.ndarray:
    """Codes that use every value up to K − 1, and every level of row scales."""
    limits = [spec.codebook_size] * spec.code_length + [1 << spec.scale_bits] * (spec.scale_bits > 0)
    return np.array(
        [[(row * 5 + column * 3 + row // 7) % limit for column, limit in enumerate(limits)] for row in range(rows)]
    )


def table(
    symbols: list[str] | None, spec: CodecSpec, *, rows: int = 10, note: dict[str, Any] | None = None
) -> CodedTable:
    """A table of a spec, all of whose weights are waves, but for a rotation."""
    weights = {name: waves(*shape) for name, shape in spec.weight_shapes().items()}
    if spec.is_rotated:
        weights["basis"] = rotation(spec.embedding_dim)
    if spec.scale_bits:
        weights["scale_levels"] = np.sort(np.exp(waves(1 << spec.scale_bits)))
    return CodedTable.from_codes(symbols, codes(rows, spec), make_codec(spec, weights), note)


def frequencies(magnitudes: int, falling: int, signs: int = 2) -> list[int]:
    """Of level 0, of each magnitude, and of the escape: the larger `falling`, the sooner they are small."""
    own = [max(3, 6000 >> falling * size) for size in range(1, magnitudes + 1)]
    return [2**15 - signs * sum(own) - 70, *own, 70]


def transform_codec(
    lengths: tuple[int, ...],
    reflections: int,
    states: int,
    together: int = 1,
    *,
    signs: bool = True,
    centroids: int = 0,
) -> Transform:
    """A codec of transform codes, of 7 dimensions and two contexts, all of whose tensors are formulas."""
    magnitudes = np.array([[3, 2], [5, 4]], dtype=np.uint16)
    tables = [frequencies(int(most), 2 - place // 2, 1 + signs) for place, most in enumerate(magnitudes.reshape(-1))]
    dim, bits, classes = 7, 6, len(lengths)
    spec = TransformSpec(
        kind="transform",
        embedding_dim=dim,
        codebook_size=40,
        code_length=dim,
        inner_dim=dim,
        basis=reflections > 0,
        reflections=reflections,
        reflection_bits=bits,
        states=states,
        contexts=2,
        frequencies=sum(len(table) for table in tables),
        lengths=lengths,
        mean_length=lengths[classes // 2] - 0.25,
        rows_per_block=together,
        signs=signs,
        centroids=centroids,
        centroid_bits=5,
    )
    stored = {
        "mean": waves(dim),
        "steps": np.array([0.5, 0.25, 0.5, 0.125][:classes], dtype=np.float32),
        "coordinate_contexts": np.array([1, 1, 1, 0, 1, 0, 0], dtype=np.uint8),
        "class_contexts": np.array([0, 1, -1, 0][:classes], dtype=np.int8),
        "magnitudes": magnitudes,
        "frequencies": np.array([number for table in tables for number in table], dtype=np.uint16),
        "shifts": np.array([[40, 30], [20, 10]], dtype=np.uint8),
        "sides": np.array([61, 47], dtype=np.uint8),
        "search": np.array([0.45, 0.5], dtype=np.float32),
    }
    if centroids:
        numbers = np.arange(centroids * dim).reshape(centroids, dim) * 19 % 32
        stored["centroids"] = bitpack.pack(numbers, [5] * dim)
        stored["centroid_scales"] = np.array([0.25, 0.125, 0.0625, 0, 0.09375, 0.03125, 0.015625], np.float32)
        rare = 3 * np.arange(1, centroids)
        stored["centroid_frequencies"] = np.array([*rare, 2**15 - rare.sum()], np.uint16)
    if reflections:
        rows, _ = packed_shape(reflections, dim, bits)
        numbers = np.full(8 * rows, 1 << bits - 1)
        numbers[: stored_numbers(reflections, dim)] = [
            (number * 23 + 5) % 64 for number in range(stored_numbers(reflections, dim))
        ]
        stored["reflections"] = bitpack.pack(numbers.reshape(rows, 8), [bits] * 8)
        stored["reflection_scale"] = np.array([0.0625 / (1 + number) for number in range(reflections)], np.float32)
    return Transform(spec, stored)


def transform_table(symbols: list[str] | None, codec: Transform, rows: int, note: dict[str, Any]) -> CodedTable:
    """Rows whose values go up to escapes, blocks in the shortest class that has room for them, with all sides."""
    own, blocks, named = [], codec.spec.row_blocks, codec.coder.numbers
    for first in range(0, rows, blocks.rows):
        numbers = np.arange(first, first + named)[None] * 7 % max(1, codec.spec.centroids)
        numbers[:, rows - first :] = 0
        values = np.zeros((blocks.rows, 7), dtype=np.int64)
        for row in range(first, min(first + blocks.rows, rows)):
            values[row - first] = [(row * column + row // 3 + column) % (3 + row % 5) for column in range(7)]
            values[row - first, row % 7] += 25 * (row % 4 == 1)
        if not codec.spec.signs:
            values[values > 0] |= 1
        for kind in np.argsort(codec.spec.lengths, kind="stable"):
            room = int(codec.coder.write(values.reshape(1, -1), numbers, np.array([kind]), None)[1][0])
            if room >= 0:
                sides = 1 << room | (first * 11 + 5) % (1 << room)
                block = BlockCodes(values.reshape(1, -1), numbers, np.array([kind]), np.array([sides]))
                own.append(blocks.row_codes(block, np.zeros(blocks.rows, dtype=np.int64), np.arange(blocks.rows)))
                break
    return CodedTable.from_codes(symbols, np.concatenate(own)[:rows], codec, note)


def tables() -> dict[str, CodedTable]:
    """Every kind of table that a file can hold."""
    named = CodecSpec.named
    return {
        "linear-float32": table(SYMBOLS, named("linear", 4, 6, 3, codebook_dtype="float32"), note=NOTE),
        "projected-float16": table(SYMBOLS, named("linear", 7, 5, 4, codeword_dim=3)),
        "projected-int8": table(SYMBOLS, named("linear", 7, 5, 4, codeword_dim=3, codebook_dtype="int8")),
        "linear-int8": table(MANY, named("linear", 5, 17, 2, codebook_dtype="int8"), rows=150, note=NOTE),
        "lstm-float16": table(SYMBOLS, named("lstm", 5, 4, 3, codeword_dim=3)),
        "product-float32": table(SYMBOLS, named("product", 7, 8, 3, codebook_dtype="float32")),
        "grouped-int8": table(SYMBOLS, named("grouped", 7, 6, 5, groups=2, codebook_dtype="int8")),
        "rotated-int8": table(SYMBOLS, named("product", 7, 6, 4, rotation=True, codebook_dtype="int8")),
        "rotated-float16": table(SYMBOLS, named("grouped", 7, 6, 5, groups=2, rotation=True)),
        "scaled-int8": table(SYMBOLS, named("linear", 4, 6, 3, codebook_dtype="int8", scale_bits=3)),
        "scaled-rotated-float32": table(
            SYMBOLS, named("grouped", 4, 6, 3, groups=2, rotation=True, codebook_dtype="float32", scale_bits=8)
        ),
        "scaled-lstm-int8": table(SYMBOLS, named("lstm", 5, 4, 3, codeword_dim=3, codebook_dtype="int8", scale_bits=1)),
        "codebook": table(None, named("product", 6, 8, 3, rotation=True, codebook_dtype="int8"), note=NOTE).codebook(),
        "transform-equal": transform_table(SYMBOLS, transform_codec((8,), 0, 4), 10, NOTE),
        "transform-ragged": transform_table(MANY[:90], transform_codec((7, 3, 5, 9), 3, 8), 90, NOTE),
        "transform-many": transform_table(None, transform_codec((9, 4), 0, 32), 270, {}),
        "transform-positive": transform_table(SYMBOLS, transform_codec((8, 5), 0, 8, signs=False), 10, NOTE),
        "transform-codebook": transform_table(None, transform_codec((7, 4), 6, 1), 3, NOTE).codebook(),
        "transform-blocks": transform_table(MANY[:90], transform_codec((28, 12, 20, 36), 3, 8, 4), 90, NOTE),
        "transform-equal-blocks": transform_table(SYMBOLS, transform_codec((27,), 0, 4, 3), 10, NOTE).select(
            [4, 5, 0, 1, 2, 7, 9, 8]
        ),
        "transform-centroids": transform_table(
            MANY[:60], transform_codec((11, 6, 8, 13), 3, 8, centroids=12), 60, NOTE
        ),
        "transform-centroids-blocks": transform_table(
            SYMBOLS, transform_codec((36, 30), 2, 4, 4, centroids=3), 10, NOTE
        ),
        "row-numbers": table(None, named("linear", 1, 300, 2, codebook_dtype="int8"), rows=40, note=NOTE),
    }


def expected(coded: CodedTable) -> dict[str, object]:
    """What a file must give back, as JSON."""
    vectors = coded.decode(np.arange(len(coded))).tolist()
    return {
        "symbols": list(coded.symbols),
        "codes": coded.codes.tolist(),
        "vectors": [[round(number, 6) for number in vector] for vector in vectors],
        "provenance": coded.provenance,
    }


def main(folder: Path) -> None:
    """Write the files and what they must give back."""
    made = tables()
    for name, coded in made.items():
        save(coded, folder / f"{name}.kdc")
    lines = [f"{json.dumps(name)}: {json.dumps(expected(coded))}" for name, coded in made.items()]
    (folder / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
