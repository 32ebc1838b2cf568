"""spec_of: the shape of a codec from the metadata of a file, every field of which is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kdcode.codec.spec import TRANSFORM, CodecSpec
from kdcode.codec.transform import TransformSpec
from kdcode.errors import StorageError

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "bool": (bool,),
    "str": (str,),
    "float": (float, int),
    "tuple[int, ...]": (list,),
}
_SPECS = {TRANSFORM: TransformSpec}
"""Kinds of codecs whose specs have fields of their own."""


def spec_of(metadata: Mapping[str, Any]) -> CodecSpec:
    """The shape of a codec.

    Raises:
        StorageError: a field is missing, or of another type.
        OptionError: numbers that do not fit together.
    """
    shape = _SPECS.get(str(metadata.get("kind")), CodecSpec)
    kinds = {item.name: _TYPES[str(item.type)] for item in fields(shape)}
    for name, kind in kinds.items():
        found = metadata.get(name)
        if type(found) not in kind:
            raise StorageError(f"{name}: expected a value of type {kind[0].__name__}, got {found!r:.100}")
        if type(found) is list and any(type(item) is not int for item in found):
            raise StorageError(f"{name}: expected a list of integers, got {found!r:.100}")
    return shape(**{name: metadata[name] for name in kinds})
