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

from kdcode import bitpack
from kdcode.codec import CodewordSpec, Transform, TransformSpec, make_codec
from kdcode.codec.transform import EncodedBlocks
from kdcode.codec.transform.blocks import row_numbers
from kdcode.codec.transform.codes import codes_of
from kdcode.codec.transform.rotation import packed_shape, stored_numbers
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


def codes(rows: int, spec: CodewordSpec) -> np.ndarray:
    """Codes that use every value up to K − 1, and every level of row scales."""
    limits = [spec.codebook_size] * spec.code_length + [1 << spec.scale_bits] * (spec.scale_bits > 0)
    return np.array(
        [[(row * 5 + column * 3 + row // 7) % limit for column, limit in enumerate(limits)] for row in range(rows)]
    )


def table(
    symbols: list[str] | None, spec: CodewordSpec, *, rows: int = 10, note: dict[str, Any] | None = None
) -> CodedTable:
    """A table of a spec, all of whose weights are waves, but for a rotation."""
    weights = {name: waves(*shape) for name, shape in spec.weight_shapes().items()}
    if spec.is_rotated:
        weights["basis"] = rotation(spec.embedding_dim)
    if spec.scale_bits:
        weights["scale_levels"] = np.sort(np.exp(waves(1 << spec.scale_bits)))
    return CodedTable.from_codes(symbols, codes(rows, spec), make_codec(spec, weights), note)


def weights_of(magnitudes: int, fall: int) -> list[int]:
    """Of level 0, of each magnitude, and of the escape, in sixteenths of an octave."""
    return [250, *(max(90, 250 - fall * size) for size in range(1, magnitudes + 1)), 130]


def transform_codec(
    lengths: tuple[int, ...],
    reflections: int,
    states: int,
    together: int = 1,
    *,
    signs: bool = True,
    centroids: int = 0,
    size: int = 60,
) -> Transform:
    """A codec of transform codes, of 7 dimensions and two contexts, all of whose tensors are formulas."""
    magnitudes = np.array([[3, 2], [5, 4]], dtype=np.uint16)
    weights = [weights_of(int(most), 40 - 10 * place) for place, most in enumerate(magnitudes.reshape(-1))]
    dim, bits, classes = 7, 4 if together == 1 else 6, len(lengths)
    groups = [4, 2] if states == 64 else [2, 2, 2, 1] if states == 32 else [1, 1, 2, 2, 1]
    spec = TransformSpec(
        kind="transform",
        embedding_dim=dim,
        codebook_size=size,
        reflections=reflections,
        states=states,
        level_groups=len(groups),
        contexts=2,
        weights=sum(len(table) for table in weights),
        lengths=lengths,
        mean_length=lengths[classes // 2] - 0.25,
        rows_per_block=together,
        signs=signs,
        centroids=centroids,
        centroid_bits=bits,
    )
    stored = {
        "mean": waves(dim),
        "steps": np.array([0.5, 0.25, 0.5, 0.125][:classes], dtype=np.float32),
        "group_sizes": np.array(groups, dtype=np.uint8),
        "group_contexts": np.array([1, 0, 1, 0, 0][: len(groups)], dtype=np.uint8),
        "class_contexts": np.array([0, 1, -1, 0][:classes], dtype=np.int8),
        "magnitudes": magnitudes,
        "weights": np.array([number for table in weights for number in table], dtype=np.uint8),
        "sides": np.array([61, 47, 60, 59, 52, 44, 40], dtype=np.uint8),
        "search": np.array([0.45, 0.5], dtype=np.float32),
    }
    if centroids:
        numbers = np.arange(centroids * dim).reshape(centroids, dim) * 19 % (1 << bits)
        stored["centroids"] = bitpack.pack(numbers, [bits] * dim)
        stored["centroid_scales"] = np.array([0.25, 0.125, 0.0625, 0, 0.09375, 0.03125, 0.015625], np.float32)
        rare = 3 * np.arange(1, centroids)
        stored["centroid_frequencies"] = np.array([*rare, 2**15 - rare.sum()], np.uint16)
    if reflections:
        rows, _ = packed_shape(reflections, dim)
        numbers = np.full(8 * rows, 8)
        count = stored_numbers(reflections, dim)
        numbers[:count] = [(number * 7 + 5) % 16 for number in range(count)]
        stored["reflections"] = bitpack.pack(numbers.reshape(rows, 8), [4] * 8)
        stored["reflection_scale"] = np.array([0.1875 / (1 + number) for number in range(reflections)], np.float32)
    return Transform(spec, stored)


FEEDBACK = {1: 0, 32: 22, 64: 38, 128: 73, 256: 153}
FORWARD = {1: 0, 32: 8, 64: 16, 128: 32, 256: 104}


def multiples_of(values: list[list[int]], states: int) -> np.ndarray:
    """(rows · d) multiples of the rows of a block, by the magnitudes and signs that values stand for."""
    found, state = [], 0
    for value in [value for row in values for value in row]:
        magnitude, quantizer = (value + 1) // 2, state % 2
        found.append((1 if value % 2 else -1) * (2 * magnitude - quantizer) if value else 0)
        state = state >> 1 ^ state % 2 * FEEDBACK[states] ^ magnitude % 2 * FORWARD[states]
    return np.array([found], dtype=np.int32)


def transform_table(symbols: list[str] | None, codec: Transform, rows: int, note: dict[str, Any]) -> CodedTable:
    """Rows whose values go up to escapes, blocks in the shortest class that has room for them, with all sides."""
    own, spec = [], codec.spec
    active, beyond = int(codec.stored["group_sizes"].sum()), spec.codebook_size // 2 - 9
    for first in range(0, rows, spec.rows_per_block):
        values, numbers = [], []
        for row in range(first, first + spec.rows_per_block):
            levels = [(row * column + row // 3 + column) % (3 + row % 5) for column in range(active)]
            levels[row % active] += beyond * (row % 4 == 1)
            levels = [value | 1 if value and not spec.signs else value for value in levels]
            there = row < rows
            values.append([*(levels if there else [0] * active), *[0] * (7 - active)])
            numbers.append(row * 7 % max(1, spec.centroids) if there else 0)
        multiples = multiples_of([value[:active] for value in values], spec.states).reshape(spec.rows_per_block, active)
        multiples = np.pad(multiples, ((0, 0), (0, 7 - active))).reshape(1, -1)
        named = np.array([numbers[: len(numbers) if spec.centroids else 0]], dtype=np.uint16)
        for kind in np.argsort(spec.lengths, kind="stable"):
            packed = np.zeros((1, max(spec.lengths)), dtype=np.uint8)
            room = np.zeros(1, dtype=np.int32)
            codec.core.write(multiples, named, np.array([[kind, 0, 0]], dtype=np.uint32), room, packed)
            if room[0] >= 0:
                there = min(spec.rows_per_block, rows - first)
                known = int(room[0])
                lost = max(0, known - there * active)  # sides of rows that there are not
                sides = (first * 11 + 5) % (1 << known) >> lost << lost
                others = np.array([[kind, known, sides]], dtype=np.uint32)
                blocks = EncodedBlocks(there, multiples, named, others, packed)
                own.append(codes_of(codec.spec, *row_numbers(codec.spec, codec.active, blocks)))
                break
        else:
            raise ValueError(f"no class has room for the block of row {first}")
    return CodedTable.from_codes(symbols, np.concatenate(own), codec, note)


def tables() -> dict[str, CodedTable]:
    """Every kind of table that a file can hold."""
    named = CodewordSpec.named
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
        "transform-equal": transform_table(SYMBOLS, transform_codec((13,), 0, 32), 10, NOTE),
        "transform-ragged": transform_table(MANY[:90], transform_codec((7, 4, 5, 11), 3, 64), 90, NOTE),
        "transform-many": transform_table(None, transform_codec((15, 5), 0, 128, size=3000), 270, {}),
        "transform-positive": transform_table(SYMBOLS, transform_codec((12, 6), 0, 64, signs=False), 10, NOTE),
        "transform-codebook": transform_table(None, transform_codec((9, 5), 6, 1), 3, NOTE).codebook(),
        "transform-blocks": transform_table(MANY[:90], transform_codec((28, 17, 22, 50), 3, 64, 4), 90, NOTE),
        "transform-equal-blocks": transform_table(SYMBOLS, transform_codec((36,), 0, 256, 3), 10, NOTE).select(
            [4, 5, 0, 1, 2, 7, 9, 8]
        ),
        "transform-centroids": transform_table(
            MANY[:60], transform_codec((11, 6, 8, 15), 3, 64, centroids=12), 60, NOTE
        ),
        "transform-centroids-blocks": transform_table(
            SYMBOLS, transform_codec((60, 40), 2, 32, 4, centroids=3), 10, NOTE
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
