"""Small coded tables of every kind, for the tests of whatever takes one."""

from __future__ import annotations

import numpy as np

from kdcode.codec import Codec, CodecSpec, make_codec
from kdcode.codec.row_scales import fit_levels
from kdcode.coded import CodedTable

DTYPES = ("float32", "float16", "int8")
"""Every codebook dtype."""

NAMES = (
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
"""Every kind of codec.

"projected" is linear with codewords shorter than the vectors. "grouped" has two blocks and "uneven" three; with the
lengths that are the default here their blocks differ in width, and those of "uneven" in positions too. "scaled-rotated"
is grouped with a rotation and row scales.
"""

KINDS = [(name, dtype) for name in NAMES for dtype in DTYPES]
"""Every kind of codec with every codebook dtype: what a test that goes over kinds of tables goes over."""

SCALE_BITS = 3
"""Bits of the row scales of the scaled kinds."""


def spec_of(kind: str = "linear", dtype: str = "float32", *, length: int = 4, size: int = 4, dim: int = 7) -> CodecSpec:
    """The spec of one of `NAMES`; d may be as small as the code length."""
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
    return CodecSpec.named(composition, dim, size, length, **changes)


def codec_with(spec: CodecSpec, seed: int = 0) -> Codec:
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


def codec_of(
    kind: str = "linear", dtype: str = "float32", *, length: int = 4, size: int = 4, dim: int = 7, seed: int = 0
) -> Codec:
    """A codec of one of `NAMES` with random weights."""
    return codec_with(spec_of(kind, dtype, length=length, size=size, dim=dim), seed)


def codes_of(spec: CodecSpec, rows: int, seed: int = 0) -> np.ndarray:
    """(rows, columns) random codes, with levels of row scales where rows have them."""
    random = np.random.default_rng(seed + 1)
    codes = random.integers(0, spec.codebook_size, size=(rows, spec.code_length))
    if not spec.scale_bits:
        return codes
    return np.column_stack([codes, random.integers(0, 1 << spec.scale_bits, size=rows)])


def coded_table(
    kind="linear", dtype="float32", *, rows=5, length=4, size=4, dim=7, symbols=None, seed=0, provenance=None
) -> CodedTable:
    """A table of one of `NAMES` with random codes and weights."""
    codec = codec_of(kind, dtype, length=length, size=size, dim=dim, seed=seed)
    return CodedTable.from_codes(symbols, codes_of(codec.spec, rows, seed), codec, provenance)


def codebook_of(kind="linear", dtype="float32", **changes) -> CodedTable:
    """A table of one of `NAMES` without rows, with random weights."""
    return coded_table(kind, dtype, **changes).codebook()


def words(count) -> list[str]:
    """`count` distinct symbols that are in no order."""
    return [f"word{(number * 7919) % 1_000_003}" for number in range(count)]
