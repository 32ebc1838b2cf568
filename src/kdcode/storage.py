"""The .kdc file: save, load and verify. docs/format.md is the law that this module follows.

The file is a safetensors file, read and written here: the library copies what it reads, where this maps it; every
claim of the header is checked against the file's real size first; and the same table gives the same bytes for ever.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode._version import __version__
from kdcode.budget import MAX_CODEBOOK_SIZE, MAX_OVERHEAD_BYTES, NUMBER_BYTES, CodeShape, weight_tensors
from kdcode.codebook import Codebook
from kdcode.coded import CodedTable
from kdcode.composition import COMPOSITIONS, Composition, from_weights, stored_weights, weights_of
from kdcode.errors import OptionError, StorageError
from kdcode.files import replacing
from kdcode.row_scales import RowScales
from kdcode.symbols import StoredSymbols
from kdcode.table import RowNumbers, VectorTable

FORMAT_VERSION = 2
"""The newest version that is read. A file has the lowest version that has all it needs."""


_EAGER_CHECK_BYTES = 1 << 24
_DTYPES = {"U8": "uint8", "I8": "int8", "U64": "uint64", "F16": "float16", "F32": "float32"}
_DTYPE_NAMES = {name: code for code, name in _DTYPES.items()}
_COUNTS = ("num_embeddings", "embedding_dim", "codebook_size", "code_length")

Arrays = dict[str, npt.NDArray[Any]]


def save(coded: CodedTable, path: str | PathLike[str]) -> int:
    """Write a coded table; the file appears whole or not at all.

    Returns:
        The bytes of the file.

    Raises:
        OptionError: the table's provenance is not JSON, or too long.
        StorageError: the file cannot be written.
    """
    tensors = _tensors_of(coded)
    header = _header(_metadata_of(coded), tensors)
    overhead = 8 + len(header)
    if overhead > MAX_OVERHEAD_BYTES:
        raise OptionError(
            f"header and metadata take {overhead} bytes, at most {MAX_OVERHEAD_BYTES} are allowed; "
            "shorten the table's provenance"
        )
    target = Path(path)
    try:
        with replacing(target) as temporary, temporary.open("wb") as stream:
            stream.write(len(header).to_bytes(8, "little") + header)
            for array in tensors.values():
                stream.write(np.ascontiguousarray(array).data)
    except OSError as error:
        raise StorageError(f"{target}: cannot be written: {error.strerror or error}") from error
    return overhead + sum(array.nbytes for array in tensors.values())


def _tensors_of(coded: CodedTable) -> Arrays:
    """The tensors in the order of the file: wide numbers first, so that all are aligned, then by name."""
    tensors: Arrays = {"codes": coded.packed, "codebook": coded.codebook.stored}
    if coded.codebook.scale is not None:
        tensors["codebook_scale"] = coded.codebook.scale
    for name, weight in stored_weights(coded.composition, coded.codebook.number_format).items():
        tensors[f"composition.{name}"] = weight
    if coded.scales is not None:
        tensors |= {"scales.packed": coded.scales.packed, "scales.levels": coded.scales.levels}
    if isinstance(coded.symbols, StoredSymbols):
        tensors.update({f"symbols.{name}": array for name, array in coded.symbols.arrays.items()})
    ordered = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    return {name: tensors[name].astype(tensors[name].dtype.newbyteorder("<"), copy=False) for name in ordered}


def _metadata_of(coded: CodedTable) -> str:
    metadata = {
        "format": 2 if _beyond_format_1(coded.shape) else 1,
        "num_embeddings": len(coded),
        "embedding_dim": coded.embedding_dim,
        "codebook_size": coded.codebook_size,
        "code_length": coded.code_length,
        "composition": coded.composition.name,
        "written_by": f"kdcode {__version__}",
        "provenance": coded.provenance,
    }
    try:
        text = json.dumps(metadata, ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":"))
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"provenance: cannot be written as JSON: {error}") from error
    return text


def _beyond_format_1(shape: CodeShape) -> list[str]:
    """What a table has that came with format 2."""
    parts = {
        "a grouped composition": shape.composition == "grouped",
        "a rotation": shape.rotated,
        "shared codewords": shape.shared,
        "scales of rows": shape.scale_bits > 0,
    }
    return [name for name, there in parts.items() if there]


def _header(metadata: str, tensors: Arrays) -> bytes:
    """The safetensors header, padded so that the tensors start at a multiple of 8 bytes."""
    header: dict[str, Any] = {"__metadata__": {"kdcode": metadata}}
    start = 0
    for name, array in tensors.items():
        offsets = [start, start + array.nbytes]
        header[name] = {"dtype": _DTYPE_NAMES[array.dtype.name], "shape": array.shape, "data_offsets": offsets}
        start += array.nbytes
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    return text + b" " * (-len(text) % 8)


def load(path: str | PathLike[str]) -> CodedTable:
    """Open a .kdc file. Codes and symbols stay on disk, memory-mapped, until they are used.

    Raises:
        StorageError: the file does not obey docs/format.md; the message names the field.
    """
    file = Path(path)
    try:
        metadata, arrays = _open(file)
        return _assemble(metadata, arrays)
    except (StorageError, OptionError) as error:
        raise StorageError(f"{file}: {error}") from error


@dataclass(frozen=True)
class Verification:
    """What `verify` found in a file that obeys the law.

    Args:
        file_bytes: size of the file.
        overhead_bytes: what header and metadata take of it.
        relative_error: squared error over variance against the original table, or None where none was given.
    """

    file_bytes: int
    overhead_bytes: int
    relative_error: float | None = None


def verify(path: str | PathLike[str], original: VectorTable | None = None) -> Verification:
    """Check a whole file: every code, every symbol, and its agreement with the table it was made from.

    Raises:
        StorageError: the file breaks its law, or holds other symbols than `original`.
    """
    coded = load(path)
    try:
        for _ in coded.code_chunks():
            pass  # unpacking checks the range of every code
        if isinstance(coded.symbols, StoredSymbols):
            coded.symbols.verify()
        error = None if original is None else _error_against(coded, original)
    except StorageError as error_found:
        raise StorageError(f"{path}: {error_found}") from error_found
    file_bytes = Path(path).stat().st_size
    return Verification(file_bytes, file_bytes - coded.sizes.total, error)


def _error_against(coded: CodedTable, original: VectorTable) -> float:
    from kdcode.evaluation import relative_error

    if (len(coded), coded.embedding_dim) != original.matrix.shape:
        raise StorageError(
            f"the file holds {len(coded)} x {coded.embedding_dim}, the original table "
            f"{original.matrix.shape[0]} x {original.matrix.shape[1]}"
        )
    if coded.symbols != original.symbols:
        raise StorageError("the file's symbols are not those of the original table, row by row")
    return relative_error(original, coded)


def _open(file: Path) -> tuple[dict[str, Any], Arrays]:
    """The metadata and the mapped tensors, sizes checked against the file before anything is made."""
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            first = stream.read(8)
            if len(first) < 8:
                raise StorageError("not a .kdc file: shorter than 8 bytes")
            length = int.from_bytes(first, "little")
            if length > size - 8:
                raise StorageError(f"header: claims {length} bytes in a file of {size}; truncated, or not a .kdc file")
            if 8 + length > MAX_OVERHEAD_BYTES:
                raise StorageError(
                    f"header: takes {length} bytes, too many for a .kdc file; is it another safetensors?"
                )
            metadata, header = _parse(stream.read(length))
            body = size - 8 - length
            if body == 0:
                raise StorageError("the file holds no tensors")
            mapped = np.memmap(stream, dtype=np.uint8, mode="r", offset=8 + length, shape=(body,))
    except OSError as error:
        raise StorageError(f"cannot be read: {error.strerror or error}") from error
    spans_taken = sorted(_span(name, entry, body) for name, entry in header.items())
    place = 0
    for start, end, name in spans_taken:
        if start != place:
            raise StorageError(f"{name}: starts at byte {start}, where the tensor before it ends at {place}")
        place = end
    if place != body:
        raise StorageError(f"tensors: they fill {place} of the {body} bytes after the header")
    return metadata, {name: _tensor(header[name], mapped) for name in header}


def _parse(raw: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The kdcode metadata, of a version that is read here, and the entries of the tensors, not checked yet."""
    try:
        header = _parse_object(raw.decode("utf-8"))
        metadata = _parse_object(header.pop("__metadata__")["kdcode"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StorageError("header: no kdcode metadata; this is not a .kdc file") from None
    version = metadata.get("format")
    if type(version) is not int or version < 1:
        raise StorageError(f"format: expected a version number, got {version!r}")
    if version > FORMAT_VERSION:
        raise StorageError(
            f"format: version {version} is newer than {FORMAT_VERSION}, which this kdcode reads; upgrade"
        )
    return metadata, header


def _parse_object(text: str) -> dict[str, Any]:
    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a key appears twice")
        return dict(pairs)

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    parsed = json.loads(text, object_pairs_hook=distinct, parse_constant=refuse)
    if not isinstance(parsed, dict):
        raise ValueError("not an object")
    return parsed


def _span(name: str, entry: Any, body: int) -> tuple[int, int, str]:  # noqa: ANN401 - unchecked JSON
    """Where a tensor starts and ends, once its entry is known to be sound."""
    try:
        itemsize = np.dtype(_DTYPES[entry["dtype"]]).itemsize
        shape = tuple(entry["shape"])
        start, end = entry["data_offsets"]
        sound = 1 <= len(shape) <= 3 and all(type(number) is int and number >= 0 for number in (*shape, start, end))
    except (KeyError, TypeError, ValueError):
        raise StorageError(f"{name}: the header entry is malformed or has an unknown dtype") from None
    if not sound or not start < end <= body or end - start != math.prod(shape) * itemsize:
        raise StorageError(f"{name}: shape {shape} and offsets {start}–{end} do not fit the {body} bytes of tensors")
    return start, end, name


def _tensor(entry: Mapping[str, Any], mapped: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    dtype = np.dtype(_DTYPES[entry["dtype"]]).newbyteorder("<")
    return np.ndarray(tuple(entry["shape"]), dtype, buffer=mapped, offset=entry["data_offsets"][0])


def _assemble(metadata: Mapping[str, Any], arrays: Arrays) -> CodedTable:
    """A CodedTable from checked parts; what is left over in the file is refused."""
    count, dim, size, length = (_positive(metadata, name) for name in _COUNTS)
    if not 2 <= size <= MAX_CODEBOOK_SIZE:
        raise StorageError(f"codebook_size: expected 2 to {MAX_CODEBOOK_SIZE}, got {size}")
    provenance = metadata.get("provenance", {})
    if not isinstance(provenance, dict):
        raise StorageError(f"provenance: expected a JSON object, got {type(provenance).__name__}")
    rest = dict(arrays)
    packed = _take(rest, "codes", ("uint8",), (count, bitpack.row_bytes(length, bitpack.bits_for(size))))
    codebook = _codebook(rest, length, size)
    composition = _composition(rest, metadata, dim, codebook)
    scales = None
    if any(name.startswith("scales.") for name in rest):
        chosen = _take(rest, "scales.packed", ("uint8",), (-(-count // 8), None))
        scales = RowScales(count, chosen, _take(rest, "scales.levels", ("float32",), (1 << chosen.shape[1],)))
    symbols: StoredSymbols | RowNumbers = RowNumbers(count)
    parts = ("blocks", "ends", "heads", "order")
    if any(f"symbols.{part}" in rest for part in parts):
        missing = [part for part in parts if f"symbols.{part}" not in rest]
        if missing:
            raise StorageError(f"symbols.{missing[0]}: missing")
        symbols = StoredSymbols(count, {part: rest.pop(f"symbols.{part}") for part in parts})
    if rest:
        raise StorageError(f"{min(rest)}: this tensor does not belong in a .kdc file of format {metadata['format']}")
    coded = CodedTable(symbols, packed, codebook, composition, provenance, scales)
    newer = _beyond_format_1(coded.shape)
    if newer and metadata["format"] < 2:
        raise StorageError(f"format: the file says {metadata['format']}, and holds {newer[0]}, which format 2 brought")
    if packed.nbytes <= _EAGER_CHECK_BYTES:
        for _ in coded.code_chunks():
            pass  # larger files are checked as their rows are read, so that they open at once
    return coded


def _positive(metadata: Mapping[str, Any], name: str) -> int:
    value = metadata.get(name)
    if type(value) is not int or not 1 <= value < 1 << 48:
        raise StorageError(f"{name}: expected a positive integer, got {value!r}")
    return value


def _take(arrays: Arrays, name: str, dtypes: tuple[str, ...], shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
    """Remove a tensor and check it; None in a shape stands for any size above zero."""
    array = arrays.pop(name, None)
    if array is None:
        raise StorageError(f"{name}: missing")
    fits = len(array.shape) == len(shape) and all(
        have == want or (want is None and have > 0) for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits or array.dtype.name not in dtypes:
        wanted = tuple("any" if want is None else want for want in shape)
        raise StorageError(
            f"{name}: expected {' or '.join(dtypes)} of shape {wanted}, got {array.dtype} of shape {array.shape}"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise StorageError(f"{name}: holds values that are not finite")
    return array


def _codebook(arrays: Arrays, length: int, size: int) -> Codebook:
    found = arrays.get("codebook")
    shared = found is not None and found.shape[:1] == (1,)
    sets = 1 if shared else length
    stored = _take(arrays, "codebook", tuple(NUMBER_BYTES), (sets, size, None))
    scale = None
    if stored.dtype == np.int8:
        scale = _take(arrays, "codebook_scale", ("float32",), (sets, 1, 1))
    return Codebook(stored, scale, length if shared else None)


def _composition(arrays: Arrays, metadata: Mapping[str, Any], dim: int, codebook: Codebook) -> Composition:
    name = metadata.get("composition")
    if not isinstance(name, str) or name not in COMPOSITIONS:
        raise StorageError(f"composition: expected one of {', '.join(COMPOSITIONS)}, got {name!r}")
    rotated = any(name.startswith("composition.rotation") for name in arrays)
    expected = weight_tensors(name, codebook.codeword_dim, dim, codebook.number_format, rotated=rotated)
    tensors = {key: _take(arrays, f"composition.{key}", (kind,), shape) for key, (kind, shape) in expected.items()}
    return from_weights(name, dim, weights_of(tensors))
