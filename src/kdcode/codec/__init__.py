"""Codecs: how codes become vectors and vectors codes, and the bytes that this takes. numpy only.

A new kind of codec is a class here and a row in `CODECS`. It may have rows of variable length and positions that depend
on those before them: nothing outside of a codec reads packed rows or takes a code apart, `pack` and `unpack` do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kdcode.codec.block_sum import BlockSum
from kdcode.codec.codec import Codec, RowDecoder, Tensors
from kdcode.codec.codeword_rows import CodewordRows
from kdcode.codec.lstm import Lstm
from kdcode.codec.sizes import SizeLimit, Sizes, memory_bytes
from kdcode.codec.spec import TRANSFORM, CodecSpec
from kdcode.codec.transform import Transform, TransformSpec

__all__ = [
    "CODECS",
    "BlockSum",
    "Codec",
    "CodecSpec",
    "CodewordRows",
    "Lstm",
    "RowDecoder",
    "SizeLimit",
    "Sizes",
    "Transform",
    "TransformSpec",
    "codec_from_tensors",
    "make_codec",
    "make_spec",
    "memory_bytes",
]

CODECS: dict[str, type[Codec]] = {codec.kind: codec for codec in (BlockSum, Lstm, Transform)}
"""The one table of kinds; specs and files name them by these keys."""


def make_spec(fields: Mapping[str, Any]) -> CodecSpec:
    """The spec of a kind of codec from its fields by name, such as `dataclasses.asdict` gives them."""
    return (TransformSpec if fields.get("kind") == TRANSFORM else CodecSpec)(**fields)


def codec_from_tensors(spec: CodecSpec, tensors: Tensors) -> Codec:
    """The codec of stored tensors, which are kept as they are."""
    return CODECS[spec.kind](spec, tensors)


def make_codec(spec: CodecSpec, weights: Tensors) -> Codec:
    """The codec of float weights, rounded to what `spec` stores; names as in `spec.weight_shapes()`."""
    return CODECS[spec.kind].from_weights(spec, weights)
