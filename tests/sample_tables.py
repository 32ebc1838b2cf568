"""Small coded tables of every kind, for the tests of whatever takes one."""

from __future__ import annotations

import numpy as np

from kdcode.budget import weight_shapes
from kdcode.codebook import Codebook
from kdcode.coded import CodedTable
from kdcode.composition import Composition, from_weights, widest_span
from kdcode.row_scales import RowScales

KINDS = [
    (composition, numbers)
    for composition in ("linear", "projected", "lstm", "product", "grouped", "turned", "shared", "scaled")
    for numbers in ("float32", "float16", "int8")
]
"""Every composition with every number format.

"projected" is linear with codewords of another size than the vectors, "turned" is grouped with a rotation, "shared" and
"scaled" are linear with one codebook for all positions, and with scales of rows.
"""
_NAMES = {"projected": "linear", "shared": "linear", "scaled": "linear", "turned": "grouped"}


def coded_table(
    kind="linear", numbers="float32", *, rows=5, length=3, size=4, dim=6, symbols=None, seed=0, provenance=None
) -> CodedTable:
    """A table with random codes and codewords."""
    random = np.random.default_rng(seed)
    name = _NAMES.get(kind, kind)
    widths = {"linear": dim + 2 * (kind == "projected"), "lstm": 3, "grouped": -(-dim // min(2, dim, length))}
    width = widths.get(name) or widest_span(dim, length)
    values = random.normal(size=(length, size, width)).astype(np.float32)
    shared = kind == "shared"
    return CodedTable.from_codes(
        symbols,
        random.integers(0, size, size=(rows, length)),
        Codebook.of(values[:1] if shared else values, numbers, shared_by=length if shared else None),
        composition(kind, width, dim, seed),
        provenance,
        RowScales.of(np.exp(random.normal(size=rows)), 3) if kind == "scaled" else None,
    )


def composition(kind, width, dim, seed=0) -> Composition:
    """A composition of `kind` with random weights."""
    random = np.random.default_rng(seed + 1)
    name = _NAMES.get(kind, kind)
    shapes = weight_shapes(name, width, dim, rotated=kind == "turned")
    weights = {key: random.normal(size=shape) / 2 for key, shape in shapes.items()}
    if "rotation" in weights:
        weights["rotation"] = np.linalg.qr(weights["rotation"])[0]
    return from_weights(name, dim, weights)


def words(count) -> list[str]:
    """`count` distinct symbols that are in no order."""
    return [f"word{(number * 7919) % 1_000_003}" for number in range(count)]
