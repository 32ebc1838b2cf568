"""The kinds of codec by name: what makes their specs and codecs from fields, tensors and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kdcode.codec.block_sum import BlockSum
from kdcode.codec.codec import Codec, Tensors
from kdcode.codec.codeword_spec import CodewordSpec
from kdcode.codec.codewords import CodewordCodec
from kdcode.codec.lstm import Lstm
from kdcode.codec.spec import CodecSpec
from kdcode.codec.transform import Transform, TransformSpec
from kdcode.errors import StorageError

CODEWORD_CODECS: dict[str, type[CodewordCodec]] = {codec.kind: codec for codec in (BlockSum, Lstm)}
CODECS: dict[str, type[Codec]] = {**CODEWORD_CODECS, Transform.kind: Transform}
"""The one table of kinds; specs and files name them by these keys."""

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "bool": (bool,),
    "str": (str,),
    "float": (float, int),
    "tuple[int, ...]": (list,),
}


def _shape_of(kind: object) -> type[CodecSpec]:
    return TransformSpec if kind == Transform.kind else CodewordSpec


def make_spec(values: Mapping[str, Any]) -> CodecSpec:
    """The spec of a kind of codec from its fields by name, such as `dataclasses.asdict` gives them."""
    return _shape_of(values.get("kind"))(**values)


def spec_of(metadata: Mapping[str, Any]) -> CodecSpec:
    """The shape of a codec from the metadata of a file, every field of which is there.

    Raises:
        StorageError: a field is missing, or of another type.
        OptionError: numbers that do not fit together.
    """
    shape = _shape_of(metadata.get("kind"))
    kinds = {item.name: _TYPES[str(item.type)] for item in fields(shape)}
    for name, kind in kinds.items():
        found = metadata.get(name)
        if type(found) not in kind:
            raise StorageError(f"{name}: expected a value of type {kind[0].__name__}, got {found!r:.100}")
        if type(found) is list and any(type(item) is not int for item in found):
            raise StorageError(f"{name}: expected a list of integers, got {found!r:.100}")
    return shape(**{name: metadata[name] for name in kinds})


def codec_from_tensors(spec: CodecSpec, tensors: Tensors) -> Codec:
    """The codec of stored tensors, which are kept as they are."""
    return CODECS[spec.kind](spec, tensors)


def make_codec(spec: CodewordSpec, weights: Tensors) -> CodewordCodec:
    """The codec of float weights, rounded to what `spec` stores; names as in `spec.weight_shapes()`."""
    return CODEWORD_CODECS[spec.kind].from_weights(spec, weights)
