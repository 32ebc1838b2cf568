"""Vectors whose lengths are kept apart from their directions: what codes are then learned from, and the scales."""

from __future__ import annotations

import numpy as np

from kdcode.coded import CodedTable
from kdcode.options import CompressOptions
from kdcode.row_scales import RowScales, directions
from kdcode.table import VectorTable


def lengths_apart(options: CompressOptions) -> bool:
    """Whether codes are of directions alone."""
    return options.scale_bits > 0 or options.loss == "cosine"


def learned_from(table: VectorTable, options: CompressOptions) -> VectorTable:
    """The table or, where lengths are apart, its vectors made 1 long; as long as on average where no scales will tell.

    Vectors of zeros stay as they are.
    """
    if not lengths_apart(options):
        return table
    vectors = np.concatenate([directions(vectors) for _, vectors in table.chunks()])
    if not options.scale_bits:
        vectors *= np.concatenate([np.linalg.norm(vectors, axis=1) for _, vectors in table.chunks()]).mean()
    return VectorTable(table.symbols, vectors, table.weights)


def with_scales(coded: CodedTable, table: VectorTable, bits: int) -> CodedTable:
    """The same codes with the scales that make vectors as long as those of a table."""
    parts = []
    for (_, vectors), (_, copies) in zip(table.chunks(), coded.chunks(), strict=True):
        lengths, near = np.linalg.norm(vectors, axis=1), np.linalg.norm(copies, axis=1)
        parts.append(np.divide(lengths, near, where=near > 0, out=np.ones_like(lengths)))
    scales = RowScales.of(np.concatenate(parts), bits)
    return CodedTable(coded.symbols, coded.packed, coded.codebook, coded.composition, coded.provenance, scales)
