"""Makes the files of this folder: `python tests/golden/make_golden.py`.

They are made once per format version and then kept: every later kdcode must load them. Numbers come from a formula and
not from a generator of random numbers, whose streams may change.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

from kdcode.codebook import Codebook
from kdcode.coded import CodedTable
from kdcode.composition import Grouped, Linear, Lstm, Product
from kdcode.row_scales import RowScales
from kdcode.storage import save

SYMBOLS = ["the", "", "of", "Zürich", "two words", "日本", "\U0001f600", "a\0b", "of course", "-1"]
MANY = [f"entity/{(number * 37) % 150:03d}" for number in range(150)]


def waves(*shape: int) -> np.ndarray:
    """Numbers in (−2, 2) of no pattern that rounding could hide."""
    flat = [2 * math.sin(1.7 * index * index + 0.3) for index in range(1, math.prod(shape) + 1)]
    return np.array(flat, dtype=np.float32).reshape(shape)


def turn(dim: int) -> np.ndarray:
    """A rotation: a reflection at a plane that is at no angle to the axes that one would think of."""
    normal = waves(dim)
    normal /= np.linalg.norm(normal)
    return np.asarray(np.eye(dim) - 2 * np.outer(normal, normal), dtype=np.float32)


def codes(rows: int, length: int, size: int) -> np.ndarray:
    """Codes that use every value up to K − 1."""
    return np.array([[(row * 5 + position * 3 + row // 7) % size for position in range(length)] for row in range(rows)])


def tables() -> dict[str, CodedTable]:
    """Every kind of table that a file can hold."""
    build = CodedTable.from_codes
    note = {"learner": "by hand", "seed": 0}
    return {
        "linear-float32": build(SYMBOLS, codes(10, 3, 6), Codebook.of(waves(3, 6, 4)), None, note),
        "projected-float16": build(
            SYMBOLS, codes(10, 4, 5), Codebook.of(waves(4, 5, 3), "float16"), Linear(7, waves(3, 7))
        ),
        "linear-int8": build(MANY, codes(150, 2, 17), Codebook.of(waves(2, 17, 5), "int8"), None, note),
        "lstm-float16": build(
            SYMBOLS,
            codes(10, 3, 4),
            Codebook.of(waves(3, 4, 3), "float16"),
            Lstm(waves(4, 3, 3), waves(4, 3), waves(3, 5)),
        ),
        "product-float32": build(SYMBOLS, codes(10, 3, 8), Codebook.of(waves(3, 8, 3)), Product(7)),
        "grouped-int8": build(SYMBOLS, codes(10, 5, 6), Codebook.of(waves(5, 6, 4), "int8"), Grouped(7)),
        "turned-int8": build(SYMBOLS, codes(10, 4, 6), Codebook.of(waves(4, 6, 2), "int8"), Product(7, turn(7))),
        "turned-float16": build(SYMBOLS, codes(10, 5, 6), Codebook.of(waves(5, 6, 4), "float16"), Grouped(7, turn(7))),
        "shared-float16": build(SYMBOLS, codes(10, 5, 6), Codebook.of(waves(1, 6, 4), "float16", shared_by=5)),
        "scaled-int8": build(
            SYMBOLS, codes(10, 3, 6), Codebook.of(waves(3, 6, 4), "int8"), scales=RowScales.of(np.exp(waves(10)), 3)
        ),
        "row-numbers": build(None, codes(40, 2, 300), Codebook.of(waves(2, 300, 1), "int8"), Linear(1), note),
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
