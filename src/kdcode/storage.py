"""The .kdc file: save and load. docs/format.md is the specification that this module follows.

The file is a safetensors file with tensors that are mapped and not copied, and the same table always gives the same
bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode._version import __version__
from kdcode.codec import CodecSpec, codec_from_tensors
from kdcode.codec.sizes import MAX_OVERHEAD_BYTES
from kdcode.coded import CodedTable
from kdcode.errors import OptionError, StorageError, file_error
from kdcode.files import is_pipe, replacing
from kdcode.safetensors_header import Header, HeaderError, header_bytes, parse_object, read_header
from kdcode.symbols import RowNumbers, StoredSymbols

FORMAT_VERSION = 1
"""The version that is written and read."""

_EAGER_CHECK_BYTES = 1 << 24
_DTYPES = ("U8", "I8", "U64", "F16", "F32")
_SPEC_TYPES: dict[str, type] = {
    item.name: {"int": int, "bool": bool, "str": str}[str(item.type)] for item in fields(CodecSpec)
}
_SYMBOL_TENSORS = ("blocks", "ends", "heads", "order")

Arrays = dict[str, npt.NDArray[Any]]


def save(coded: CodedTable, path: str | PathLike[str]) -> int:
    """Write a coded table; the file appears whole or not at all.

    Returns:
        The bytes of the file.

    Raises:
        OptionError: the table's provenance is not JSON, or too long.
        FileError: the file cannot be written.
    """
    tensors = _tensors_of(coded)
    header = header_bytes({"kdcode": _metadata_of(coded)}, tensors)
    if len(header) > MAX_OVERHEAD_BYTES:
        raise OptionError(
            f"header and metadata take {len(header)} bytes, at most {MAX_OVERHEAD_BYTES} are allowed; "
            "shorten the table's provenance"
        )
    target = Path(path)
    try:
        with replacing(target) as temporary, temporary.open("wb") as stream:
            stream.write(header)
            for array in tensors.values():
                stream.write(np.ascontiguousarray(array).data)
    except OSError as error:
        raise file_error(target, "written", error) from error
    return len(header) + sum(array.nbytes for array in tensors.values())


def _tensors_of(coded: CodedTable) -> Arrays:
    """The tensors in the order of the file: wide numbers first, so that all are aligned, then by name."""
    tensors: Arrays = {"codes": coded.packed, **coded.codec.tensors()}
    if isinstance(coded.symbols, StoredSymbols):
        tensors.update({f"symbols.{name}": array for name, array in coded.symbols.arrays.items()})
    ordered = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    return {name: tensors[name].astype(tensors[name].dtype.newbyteorder("<"), copy=False) for name in ordered}


def _metadata_of(coded: CodedTable) -> str:
    spec = coded.spec
    metadata = {
        "format": FORMAT_VERSION,
        "num_embeddings": len(coded),
        **{name: getattr(spec, name) for name in _SPEC_TYPES},
        "written_by": f"kdcode {__version__}",
        "provenance": coded.provenance,
    }
    try:
        text = json.dumps(metadata, ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":"))
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"provenance: cannot be written as JSON: {error}") from error
    return text


def load(path: str | PathLike[str]) -> CodedTable:
    """Open a .kdc file. Codes and symbols stay on disk, memory-mapped, until they are used.

    Raises:
        FileError: the file is not there (also a FileNotFoundError) or cannot be opened.
        StorageError: the file does not follow docs/format.md; the message names the field.
    """
    file = Path(path)
    try:
        if is_pipe(file):
            raise StorageError("this is a pipe; a .kdc file is mapped into memory, so copy it to a file first")
        header = _header_of(file)
        return _assemble(_metadata_in(header), _mapped(header))
    except (StorageError, OptionError, HeaderError) as error:
        raise StorageError(f"{file}: {error}") from error


def _header_of(file: Path) -> Header:
    try:
        return read_header(file, MAX_OVERHEAD_BYTES - 8)
    except OSError as error:
        raise file_error(file, "read", error) from error


def _metadata_in(header: Header) -> dict[str, Any]:
    """The kdcode metadata, of the version that is read here."""
    try:
        metadata = parse_object(header.metadata["kdcode"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StorageError("header: no kdcode metadata; this is not a .kdc file") from None
    version = metadata.get("format")
    if type(version) is not int or version < 1:
        raise StorageError(f"format: expected a version number, got {version!r}")
    if version > FORMAT_VERSION:
        raise StorageError(
            f"format: version {version} is newer than {FORMAT_VERSION}, which this kdcode reads; upgrade"
        )
    return metadata


def _mapped(header: Header) -> Arrays:
    """All tensors, mapped, once they are known to tile the file without gaps."""
    places = {name: header.place(name) for name in header.entries}
    for name, place in places.items():
        if place.dtype not in _DTYPES or not 1 <= len(place.shape) <= 3 or place.start == place.end:
            raise StorageError(f"{name}: {place.dtype} of shape {place.shape} is not what a .kdc file holds")
    reached = 0
    for name, place in sorted(places.items(), key=lambda item: item[1].start):
        if place.start != reached:
            raise StorageError(f"{name}: starts at byte {place.start}, where the tensor before it ends at {reached}")
        reached = place.end
    if reached != header.data_bytes or not places:
        raise StorageError(f"tensors: they fill {reached} of the {header.data_bytes} bytes after the header")
    return {name: np.asarray(header.mapped(name)) for name in places}


def _assemble(metadata: Mapping[str, Any], arrays: Arrays) -> CodedTable:
    """A CodedTable from checked parts; what is left over in the file is refused."""
    count = metadata.get("num_embeddings")
    if type(count) is not int or not 1 <= count < 1 << 48:
        raise StorageError(f"num_embeddings: expected a positive integer, got {count!r}")
    provenance = metadata.get("provenance", {})
    if not isinstance(provenance, dict):
        raise StorageError(f"provenance: expected a JSON object, got {type(provenance).__name__}")
    spec = _spec_of(metadata)
    rest = dict(arrays)
    packed = rest.pop("codes", None)
    if packed is None:
        raise StorageError("codes: missing")
    if packed.dtype != np.uint8 or packed.shape != (count, spec.row_bytes):
        raise StorageError(
            f"codes: expected uint8 of shape {(count, spec.row_bytes)}, got {packed.dtype} of shape {packed.shape}"
        )
    symbols = _symbols_of(rest, count)
    coded = CodedTable(symbols, packed, codec_from_tensors(spec, rest), provenance)
    if packed.nbytes <= _EAGER_CHECK_BYTES:
        for _ in coded.code_chunks():
            pass  # larger files are checked as their rows are read, so that they open at once
    return coded


def _spec_of(metadata: Mapping[str, Any]) -> CodecSpec:
    """The shape of the codec, every field of which is in the metadata."""
    for name, kind in _SPEC_TYPES.items():
        if type(metadata.get(name)) is not kind:
            raise StorageError(f"{name}: expected a value of type {kind.__name__}, got {metadata.get(name)!r}")
    return CodecSpec(**{name: metadata[name] for name in _SPEC_TYPES})


def _symbols_of(arrays: Arrays, count: int) -> StoredSymbols | RowNumbers:
    """The symbols, whose tensors are removed from `arrays`; row numbers where there are none."""
    names = {part: f"symbols.{part}" for part in _SYMBOL_TENSORS}
    missing = [name for name in names.values() if name not in arrays]
    if len(missing) == len(names):
        return RowNumbers(count)
    if missing:
        raise StorageError(f"{missing[0]}: missing")
    return StoredSymbols(count, {part: arrays.pop(name) for part, name in names.items()})
