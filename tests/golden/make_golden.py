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

from kdcode.codec import CodecSpec, make_codec
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
