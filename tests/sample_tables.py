"""Small coded tables of every kind, for the tests of whatever takes one."""

from __future__ import annotations

import numpy as np

from kdcode.budget import weight_shapes
from kdcode.codebook import Codebook
from kdcode.coded import CodedTable
from kdcode.composition import Composition, from_weights, widest_span

KINDS = [
    (composition, numbers)
    for composition in ("linear", "projected", "lstm", "product", "grouped")
    for numbers in ("float32", "float16", "int8")
]
"""Every composition with every number format; "projected" is linear with codewords of another size than the vectors."""


def coded_table(
    kind="linear", numbers="float32", *, rows=5, length=3, size=4, dim=6, symbols=None, seed=0, provenance=None
) -> CodedTable:
    """A table with random codes and codewords."""
    random = np.random.default_rng(seed)
    width = {"linear": dim, "projected": dim + 2, "lstm": 3, "grouped": -(-dim // min(2, dim, length))}.get(
        kind
    ) or widest_span(dim, length)
    values = random.normal(size=(length, size, width)).astype(np.float32)
    return CodedTable.from_codes(
        symbols,
        random.integers(0, size, size=(rows, length)),
        Codebook.of(values, numbers),
        composition(kind, width, dim, seed),
        provenance,
    )


def composition(kind, width, dim, seed=0) -> Composition:
    """A composition of `kind` with random weights."""
    random = np.random.default_rng(seed + 1)
    name = "linear" if kind == "projected" else kind
    shapes = weight_shapes(name, width, dim)
    return from_weights(name, dim, {key: random.normal(size=shape) / 2 for key, shape in shapes.items()})


def words(count) -> list[str]:
    """`count` distinct symbols that are in no order."""
    return [f"word{(number * 7919) % 1_000_003}" for number in range(count)]
