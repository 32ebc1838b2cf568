"""The search space of a plan: shapes of codes, in each a ladder of codebook sizes with the longest code that fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from kdcode.codec import CodecSpec
from kdcode.options import CompressOptions

Setting = dict[str, Any]
"""Options of a shape, by name; the code length follows from the limit."""

SUM_SIZES = (2, 4, 8, 16, 32, 64, 128, 256)
PRODUCT_SIZES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Codebook sizes of sums, and of codes without sums."""
SUM_SHARE, PRODUCT_SHARE = 0.10, 0.03
"""Share of the bytes that the codebook takes in good settings; the search begins with the size that is nearest."""
_MOST_WORK = 1 << 18
"""Additions of a sweep over all positions of one row; beyond it sums are split into groups."""
_LONGEST = 512
"""Positions of a sum that are ever proposed."""
_LITTLE = 0.1
"""Share of the bytes that a rotation may take without a look at codes that have none."""

_MORE_BITS = 1.03
"""Times the bits of a code that another one has to have to be worth a probe."""

Fits = Callable[[CompressOptions], bool]


def longest_codes(
    base: CompressOptions, settings: Sequence[Setting], embedding_dim: int, fits: Fits
) -> list[CompressOptions]:
    """For each setting of a ladder the options with the longest code that fits.

    Those that do not fit at all are left out, and so are those for which a larger codebook fits with a code as long,
    since codes take whole bytes: it is always better.
    """
    found = []
    for setting in settings:
        options = base.changed(**{"codebook_dtype": "int8", **setting})
        shortest = options.groups or 1
        low, high = shortest - 1, embedding_dim if options.composition == "product" else max(_LONGEST, shortest)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(options.changed(code_length=middle)) else (low, middle - 1)
        if low >= shortest:
            found.append(options.changed(code_length=low))
    lengths = [*(options.code_length for options in found[1:]), 0]
    return [options for options, next_length in zip(found, lengths, strict=False) if options.code_length > next_length]


def fuller_codes(options: CompressOptions, fits: Fits) -> list[CompressOptions]:
    """Codes as long or a position longer, with the largest codebook that fits, of any size, where they say more.

    A ladder leaves up to half of the bytes unused where the next size of the codebook just does not fit.
    """
    size, length = int(options.codebook_size or 0), int(options.code_length or 0)
    found = []
    for positions in (length, length + 1):
        low, high = 1, 2 * size
        while low < high:
            middle = (low + high + 1) // 2
            is_small = fits(options.changed(codebook_size=middle, code_length=positions))
            low, high = (middle, high) if is_small else (low, middle - 1)
        if low > 1 and positions * math.log2(low) > _MORE_BITS * length * math.log2(size):
            found.append(options.changed(codebook_size=low, code_length=positions))
    return found


def product_ladder(rotation: bool) -> list[Setting]:
    """Codes without sums, one for each codebook size."""
    return [{"codebook_size": size, "composition": "product", "rotation": rotation} for size in PRODUCT_SIZES]


def sum_ladder(groups: int = 1) -> list[Setting]:
    """Sums, one for each codebook size, in one block or in rotated groups."""
    if groups == 1:
        return [{"codebook_size": size} for size in SUM_SIZES]
    shape = {"composition": "grouped", "groups": groups, "rotation": True}
    return [{"codebook_size": size, **shape} for size in SUM_SIZES]


def begin_with(ladder: Sequence[CompressOptions], embedding_dim: int, num_embeddings: int, share: float) -> int:
    """The place in a ladder of the setting whose codebook is nearest to a share of the bytes."""

    def distance(place: int) -> float:
        spec = ladder[place].spec(embedding_dim)
        sizes = spec.sizes(num_embeddings, 0)
        return abs(sizes.codebook / sizes.embedding - share)

    return min(range(len(ladder)), key=distance)


def enough_groups(longest: CompressOptions, embedding_dim: int) -> int:
    """In how many groups a code is quick enough to search: 1 where it is as one sum."""
    groups = 1
    while work_of(longest.spec(embedding_dim), groups) > _MOST_WORK and 2 * groups <= embedding_dim // 2:
        groups *= 2
    return groups


def rotation_is_cheap(options: CompressOptions, embedding_dim: int, num_embeddings: int) -> bool:
    """Whether a rotation takes so little that codes without one need no look."""
    sizes = options.spec(embedding_dim).sizes(num_embeddings, 0)
    return sizes.composition <= _LITTLE * sizes.embedding


def work_of(spec: CodecSpec, groups: int) -> int:
    """Additions of a sweep over all positions of one row of a code in groups: D·K for each position of a sum."""
    return spec.code_length * max(1, spec.code_length // groups) * spec.codebook_size
