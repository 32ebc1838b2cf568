"""Small coded tables of every kind, for the tests of whatever takes one."""

from __future__ import annotations

import numpy as np

from kdcode.codec import Codec, CodecSpec, CodewordSpec, Transform, TransformSpec, make_codec
from kdcode.codec.row_scales import fit_levels
from kdcode.codec.spec import TRANSFORM
from kdcode.codec.transform import fitted_tables
from kdcode.codec.transform.centroids import rounded_centroids, rounded_frequencies
from kdcode.codec.transform.rotation import rounded_reflections
from kdcode.coded import CodedTable

DTYPES = ("float32", "float16", "int8")
"""Every codebook dtype."""

CODEWORD_NAMES = (
    "linear",
    "projected",
    "product",
    "grouped",
    "uneven",
    "rotated-product",
    "rotated-grouped",
    "scaled-linear",
    "scaled-rotated",
    "lstm",
    "scaled-lstm",
)
"""Every kind of codec whose codes choose codewords, for tests of what only these have: codebooks, training, scores.

"projected" is linear with codewords shorter than the vectors. "grouped" has two blocks and "uneven" three; with the
lengths that are the default here their blocks differ in width, and those of "uneven" in positions too. "scaled-rotated"
is grouped with a rotation and row scales.
"""

TRANSFORM_NAMES = (
    "transform",
    "transform-plain",
    "transform-centroids",
    "transform-blocks",
    "transform-plain-blocks",
    "transform-centroids-blocks",
)
"""Transform codes: rows of several lengths and two steps, after a rotation; rows of one length, without one ("plain");
rows that are measured from centroids; and all with blocks of several rows. Plain blocks have no signs."""

ROWS_PER_BLOCK = 3
"""Rows of a block, in the kinds with blocks."""

NAMES = (*CODEWORD_NAMES, *TRANSFORM_NAMES)
"""Every kind of codec."""

CODEWORD_KINDS = [(name, dtype) for name in CODEWORD_NAMES for dtype in DTYPES]
"""Every kind of codec that has codewords with every codebook dtype."""

KINDS = [*CODEWORD_KINDS, *((name, "float16") for name in TRANSFORM_NAMES)]
"""Every kind of codec with every codebook dtype: what a test that goes over kinds of tables goes over.

Transform codes have no codebook, and are there once.
"""

SCALE_BITS = 3
"""Bits of the row scales of the scaled kinds."""


def spec_of(kind: str = "linear", dtype: str = "float32", *, length: int = 4, size: int = 4, dim: int = 7) -> CodecSpec:
    """The spec of one of `NAMES`; d may be as small as the code length. Transform codes follow from d alone."""
    if kind in TRANSFORM_NAMES:
        return _transform_codec_of(kind, dim, 0).spec
    changes: dict[str, object] = {"codebook_dtype": dtype, "scale_bits": SCALE_BITS if "scaled" in kind else 0}
    composition = kind.rsplit("-", maxsplit=1)[-1]
    if kind == "projected":
        composition = "linear"
        changes["codeword_dim"] = dim - 2 if dim > 2 else dim + 2
    elif composition == "lstm":
        changes["codeword_dim"] = 3
    elif composition in ("grouped", "uneven", "rotated"):
        composition = "grouped"
        changes["groups"] = min(3 if kind == "uneven" else 2, length, dim)
    if "rotated" in kind:
        changes["rotation"] = True
    return CodewordSpec.named(composition, dim, size, length, **changes)


def codec_with(spec: CodewordSpec, seed: int = 0) -> Codec:
    """A codec of any spec with random weights; a rotation is one, and row scales lie around 1."""
    random = np.random.default_rng(seed)
    weights = {}
    for name, shape in spec.weight_shapes().items():
        weights[name] = random.normal(size=shape) / (1 if name == "codebook" else 2)
    if spec.is_rotated:
        weights["basis"] = np.linalg.qr(weights["basis"])[0]
    if spec.scale_bits:
        weights["scale_levels"] = fit_levels(np.exp(random.normal(size=100)).astype(np.float32), spec.scale_bits)
    return make_codec(spec, weights)


def _transform_codec_of(kind: str, dim: int, seed: int) -> Transform:
    blocks = ROWS_PER_BLOCK if "blocks" in kind else 1
    return transform_codec(
        dim, plain="plain" in kind, rows_per_block=blocks, centroids=5 if "centroids" in kind else 0, seed=seed
    )


def transform_codec(
    dim: int = 7,
    *,
    plain: bool = False,
    rows_per_block: int = 1,
    centroids: int = 0,
    states: int | None = None,
    seed: int = 0,
) -> Transform:
    """A codec for vectors of d numbers of spread 1, with random mean and rotation.

    Args:
        dim: d.
        plain: whether all rows have one length and one step, and there is no rotation.
        rows_per_block: rows that are coded together.
        centroids: that rows are measured from.
        states: of the trellis; as many as are right for the kind if None.
        seed: of all that is random.
    """
    random = np.random.default_rng(seed)
    spreads = np.array([1.0, 2.0, 4.0])  # of coordinates, in steps, by context
    sizes = np.arange(12)
    shares = np.exp(-np.square((2 * sizes - np.arange(2)[:, None]) / spreads[:, None, None]) / 2) + 1e-4
    signs = not plain or rows_per_block == 1
    tables = fitted_tables(1000 * shares, signs=signs)
    levels = rows_per_block * dim
    lengths = [levels // 4 + 1, levels // 2 + 1, levels + 2]
    lengths = lengths[-1:] if plain else lengths * 2
    reflections = 0 if plain else min(dim - 1, 3)
    groups = level_groups(dim)
    spec = TransformSpec(
        kind=TRANSFORM,
        embedding_dim=dim,
        codebook_size=200,
        reflections=reflections,
        states=states or (32 if plain else 64),
        level_groups=len(groups),
        contexts=3,
        weights=len(tables.weights),
        lengths=tuple(lengths),
        mean_length=float(np.mean(lengths)),
        rows_per_block=rows_per_block,
        signs=signs,
        centroids=centroids,
        centroid_bits=6,
    )
    stored = {
        "mean": (random.normal(size=dim) / 4).astype(np.float32),
        "steps": np.array([0.25] if plain else [0.5] * 3 + [0.25] * 3, dtype=np.float32),
        "group_sizes": groups,
        "group_contexts": np.array([2 - place % 2 for place in range(len(groups))], dtype=np.uint8),
        "class_contexts": np.array([0] if plain else [-2, -1, 0, -1, 0, 1], dtype=np.int8),
        "magnitudes": tables.magnitudes,
        "weights": tables.weights,
        "sides": np.arange(60, 60 - spec.most_sides, -1).astype(np.uint8),
        "search": np.array([0.45, 0.25], dtype=np.float32),
    }
    if centroids:
        found = rounded_centroids(random.normal(size=(centroids, dim)), spec.centroid_bits)
        stored["centroids"], stored["centroid_scales"] = found
        stored["centroid_frequencies"] = rounded_frequencies(np.arange(10 * centroids, 0, -10))
    if reflections:
        directions = np.linalg.qr(random.normal(size=(dim, reflections)))[0]
        stored["reflections"], stored["reflection_scale"] = rounded_reflections(directions)
    return Transform(spec, stored)


def level_groups(dim: int) -> np.ndarray:
    """Sizes of groups of d coordinates: quads whole, in halves, and in parts of several sizes."""
    sizes: list[int] = []
    kinds = ([4], [2, 1, 1], [1, 2, 1], [2, 2], [1, 1, 1, 1])
    for number, start in enumerate(range(0, dim, 4)):
        left = dim - start
        sizes += kinds[number % len(kinds)] if left >= 4 else [2, 1][: left - 1] if left > 1 else [1]
    return np.array(sizes, dtype=np.uint8)


def codec_of(
    kind: str = "linear", dtype: str = "float32", *, length: int = 4, size: int = 4, dim: int = 7, seed: int = 0
) -> Codec:
    """A codec of one of `NAMES` with random weights; codebook dtype, D and K are those of codes with codewords."""
    if kind in TRANSFORM_NAMES:
        return _transform_codec_of(kind, dim, seed)
    return codec_with(spec_of(kind, dtype, length=length, size=size, dim=dim), seed)


def random_codes(spec: CodecSpec, rows: int, seed: int = 0) -> np.ndarray:
    """(rows, columns) random codes of codewords, with levels of row scales where rows have them."""
    random = np.random.default_rng(seed + 1)
    codes = random.integers(0, spec.codebook_size, size=(rows, spec.code_length))
    if not spec.scale_bits:
        return codes
    return np.column_stack([codes, random.integers(0, 1 << spec.scale_bits, size=rows)])


def codes_of(codec: Codec, rows: int, seed: int = 0) -> np.ndarray:
    """(rows, columns) random codes; those of a transform codec are of random vectors, and have all of its classes."""
    if not isinstance(codec, Transform):
        return random_codes(codec.spec, rows, seed)
    random = np.random.default_rng(seed + 1)
    vectors = random.normal(size=(rows, codec.spec.embedding_dim)) * random.choice([0.2, 1, 2], size=(rows, 1))
    return weighted_codes(codec, vectors.astype(np.float32), random.choice([0.25, 1.0], size=rows))


def weighted_codes(codec: Transform, vectors: np.ndarray, weights: np.ndarray | None = None, **how) -> np.ndarray:
    """(n, columns) codes of (n, d) vectors whose squared errors count by weights; see `Transform.encode_blocks`."""
    return codec.unpack(codec.packed_rows(codec.encode_blocks(vectors, weights, **how)))


def coded_table(
    kind="linear", dtype="float32", *, rows=5, length=4, size=4, dim=7, symbols=None, seed=0, provenance=None
) -> CodedTable:
    """A table of one of `NAMES` with random codes and weights."""
    codec = codec_of(kind, dtype, length=length, size=size, dim=dim, seed=seed)
    return CodedTable.from_codes(symbols, codes_of(codec, rows, seed), codec, provenance)


def codebook_of(kind="linear", dtype="float32", **changes) -> CodedTable:
    """A table of one of `NAMES` without rows, with random weights."""
    return coded_table(kind, dtype, **changes).codebook()


def words(count) -> list[str]:
    """`count` distinct symbols that are in no order."""
    return [f"word{(number * 7919) % 1_000_003}" for number in range(count)]


def decode_packed(codec: Codec, packed: np.ndarray) -> np.ndarray:
    """(n, row bytes) packed rows to (n, d) vectors."""
    return codec.decoder(packed).decode(np.arange(len(packed)))
