"""The search space of a plan: sizes and shapes of codebooks, each near the best of those before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kdcode.options import CompressOptions

FIRST_SIZE, SMALLER_SIZES, LARGER_SIZES = 16, (8, 4, 2), (64, 256)
"""Codebook sizes of sums: probed first, where that is too much, and where sums do well."""
PRODUCT_SIZES, MORE_PRODUCT_SIZES = (16, 256), (8, 64)
"""Codebook sizes of product codes: probed first, and where there are bits for more."""
MOST_WORK = 1 << 18
"""Additions of a sweep over all positions of one row; beyond it sums are split into groups."""
_WIDE = 32
"""Dimensions from which codewords shorter than vectors are worth a probe."""
_MANY_BITS = 2.0
"""Bits for each coordinate from which short sums in many groups are likely the best."""


def work_of(options: CompressOptions) -> int:
    """Additions of a sweep over all positions of one row: D·K for each position of a sum."""
    return options.code_length * positions_in_sum(options) * options.codebook_size


def positions_in_sum(options: CompressOptions) -> int:
    """How many codewords are added for a coordinate."""
    return 1 if options.composition == "product" else max(1, options.code_length // (options.groups or 1))


def enough_groups(longest: CompressOptions, embedding_dim: int) -> dict[str, Any]:
    """The setting of a code that is too long to search as one sum: as few groups as will do."""
    groups = 2
    while groups < embedding_dim:
        if work_of(longest.changed(composition="grouped", groups=groups)) <= MOST_WORK:
            break
        groups *= 2
    return {
        "codebook_size": longest.codebook_size,
        "composition": "grouped",
        "groups": min(groups, embedding_dim),
        "rotation": True,
    }


def other_shapes(best: CompressOptions, embedding_dim: int) -> list[dict[str, Any]]:
    """Fewer and more groups than the best has, with a rotation and without, and codewords shorter than vectors."""
    if embedding_dim < _WIDE:
        return []
    size, groups = best.codebook_size, best.groups or 1
    settings: list[dict[str, Any]] = [{"codebook_size": size, "codeword_dim": embedding_dim * 3 // 4}]
    for many in (groups // 2, groups, 2 * groups, 4 * groups):
        if 1 < many <= embedding_dim // 2:
            settings += [
                {
                    "codebook_size": size,
                    "composition": "grouped",
                    "groups": many,
                    "rotation": rotation,
                }
                for rotation in (False, True)
            ]
    return settings


def other_sizes(best: CompressOptions, embedding_dim: int) -> list[dict[str, Any]]:
    """Half and twice as many codewords in the same shape; float16 where integers may be too coarse."""
    shape = {name: getattr(best, name) for name in ("composition", "codeword_dim", "groups", "rotation")}
    sizes = [size for size in (best.codebook_size // 2, best.codebook_size * 2) if size > 1]
    return [
        *({"codebook_size": size, **shape} for size in sizes),
        {"codebook_size": best.codebook_size, **shape, "codebook_dtype": "float16"},
    ]


def product_codes(sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Product codes with codebooks of these sizes, with a rotation and without."""
    return [
        {"codebook_size": size, "composition": "product", "rotation": rotation}
        for size in sizes
        for rotation in (False, True)
    ]


def short_sums(tried: Sequence[CompressOptions], embedding_dim: int) -> list[dict[str, Any]]:
    """Sums of few coordinates, and more product codes, where some code has many bits for each coordinate."""
    longest = max(options.code_length * (options.codebook_size - 1).bit_length() for options in tried)
    if longest < _MANY_BITS * embedding_dim:
        return []
    settings = product_codes(MORE_PRODUCT_SIZES)
    if embedding_dim >= _WIDE:
        settings += [
            {"codebook_size": size, "composition": "grouped", "groups": embedding_dim // 4, "rotation": True}
            for size in (32, 64)
        ]
    return settings
