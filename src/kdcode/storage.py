"""The .kdc file: save, load and verify. docs/format.md is the law that this module follows.

Writing goes through the safetensors library. Reading parses the header here and maps the tensors, because the library
copies what it reads, and because every claim of the header is checked against the file's real size first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from kdcode import bitpack
from kdcode._version import __version__
from kdcode.codebook import Codebook
from kdcode.coded import CodedTable
from kdcode.composition import COMPOSITIONS, Composition, Lstm, from_weights, spans
from kdcode.errors import OptionError, StorageError
from kdcode.files import replacing
from kdcode.symbols import StoredSymbols
from kdcode.table import FloatArray, RowNumbers, VectorTable

FORMAT_VERSION = 1
MAX_OVERHEAD_BYTES = 4096
"""What header and metadata may add to the promised bytes."""

_MAX_HEADER_BYTES = 1 << 20
_EAGER_CHECK_BYTES = 1 << 24
_DTYPES = {"U8": np.uint8, "I8": np.int8, "U64": np.uint64, "F16": np.float16, "F32": np.float32}
_COUNTS = ("num_embeddings", "embedding_dim", "codebook_size", "code_length")

Arrays = dict[str, npt.NDArray[Any]]


def save(coded: CodedTable, path: str | PathLike[str]) -> int:
    """Write a coded table; the file appears whole or not at all.

    Returns:
        The bytes of the file.
    """
    target = Path(path)
    weight_type = np.float32 if coded.codebook.number_format == "float32" else np.float16
    tensors: Arrays = {"codes": coded.packed, "codebook": coded.codebook.stored}
    if coded.codebook.scale is not None:
        tensors["codebook_scale"] = coded.codebook.scale
    for name, weight in coded.composition.weights().items():
        tensors[f"composition.{name}"] = weight.astype(weight_type)
    if isinstance(coded.symbols, StoredSymbols):
        tensors.update({f"symbols.{name}": array for name, array in coded.symbols.arrays.items()})
    metadata = {
        "format": FORMAT_VERSION,
        "num_embeddings": len(coded),
        "embedding_dim": coded.embedding_dim,
        "codebook_size": coded.codebook_size,
        "code_length": coded.code_length,
        "composition": coded.composition.name,
        "written_by": f"kdcode {__version__}",
        "provenance": coded.provenance,
    }
    text = json.dumps(metadata, ensure_ascii=False, sort_keys=True, allow_nan=False)
    try:
        with replacing(target) as temporary:
            contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
            save_file(contiguous, temporary, metadata={"kdcode": text})
            overhead = temporary.stat().st_size - coded.sizes.total
            if overhead > MAX_OVERHEAD_BYTES:
                raise OptionError(
                    f"header and metadata take {overhead} bytes, at most {MAX_OVERHEAD_BYTES} are allowed; "
                    "shorten the table's provenance"
                )
    except OSError as error:
        raise StorageError(f"{target}: cannot be written: {error.strerror or error}") from error
    return target.stat().st_size


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
        file_bytes = Path(path).stat().st_size
        overhead = file_bytes - coded.sizes.total
        if not 0 <= overhead <= MAX_OVERHEAD_BYTES:
            raise StorageError(f"header and metadata take {overhead} bytes, at most {MAX_OVERHEAD_BYTES} are allowed")
        error = None if original is None else _error_against(coded, original)
    except StorageError as error_found:
        raise StorageError(f"{path}: {error_found}") from error_found
    return Verification(file_bytes, overhead, error)


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
        size = file.stat().st_size
        with file.open("rb") as stream:
            first = stream.read(8)
            if len(first) < 8:
                raise StorageError("not a .kdc file: shorter than 8 bytes")
            length = int.from_bytes(first, "little")
            if length > min(size - 8, _MAX_HEADER_BYTES):
                raise StorageError(f"header: claims {length} bytes in a file of {size}; truncated, or not a .kdc file")
            raw = stream.read(length)
    except OSError as error:
        raise StorageError(f"cannot be read: {error.strerror or error}") from error
    try:
        header = json.loads(raw)
        metadata = json.loads(header.pop("__metadata__")["kdcode"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise StorageError("header: no kdcode metadata; this is not a .kdc file") from None
    if not isinstance(metadata, dict):
        raise StorageError("header: the kdcode metadata is not a JSON object")
    body = size - 8 - length
    if body == 0:
        raise StorageError("the file holds no tensors")
    mapped = np.memmap(file, dtype=np.uint8, mode="r", offset=8 + length, shape=(body,))
    arrays = {name: _tensor(name, entry, mapped) for name, entry in header.items()}
    if sum(array.nbytes for array in arrays.values()) != body:
        raise StorageError(f"tensors: they do not fill the {body} bytes after the header")
    return metadata, arrays


def _tensor(name: str, entry: Any, mapped: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:  # noqa: ANN401 - unchecked JSON
    try:
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        shape = tuple(entry["shape"])
        start, end = entry["data_offsets"]
        good = all(type(number) is int and number >= 0 for number in (*shape, start, end)) and len(shape) <= 3
    except (KeyError, TypeError, ValueError):
        raise StorageError(f"{name}: the header entry is malformed or has an unknown dtype") from None
    if not good or not start <= end <= len(mapped) or end - start != math.prod(shape) * dtype.itemsize:
        raise StorageError(f"{name}: shape {shape} and offsets {start}–{end} do not fit the file")
    return np.ndarray(shape, dtype, buffer=mapped, offset=start) if end > start else np.empty(shape, dtype)


def _assemble(metadata: Mapping[str, Any], arrays: Arrays) -> CodedTable:
    """A CodedTable from checked parts; what is left over in the file is refused."""
    version = metadata.get("format")
    if type(version) is not int or version < 1:
        raise StorageError(f"format: expected a version number, got {version!r}")
    if version > FORMAT_VERSION:
        raise StorageError(
            f"format: version {version} is newer than {FORMAT_VERSION}, which this kdcode reads; upgrade"
        )
    count, dim, size, length = (_positive(metadata, name) for name in _COUNTS)
    if not 2 <= size <= 1 << 16:
        raise StorageError(f"codebook_size: expected 2 to 65536, got {size}")
    rest = dict(arrays)
    packed = _take(rest, "codes", ("uint8",), (count, bitpack.row_bytes(length, bitpack.bits_for(size))))
    codebook = _codebook(rest, length, size)
    composition = _composition(rest, metadata, dim, codebook)
    symbols: StoredSymbols | RowNumbers = RowNumbers(count)
    parts = ("blocks", "ends", "heads", "order")
    if any(f"symbols.{part}" in rest for part in parts):
        missing = [part for part in parts if f"symbols.{part}" not in rest]
        if missing:
            raise StorageError(f"symbols.{missing[0]}: missing")
        symbols = StoredSymbols(count, {part: rest.pop(f"symbols.{part}") for part in parts})
    if rest:
        raise StorageError(f"{min(rest)}: this tensor does not belong in a .kdc file of format {version}")
    provenance = metadata.get("provenance")
    coded = CodedTable(symbols, packed, codebook, composition, provenance if isinstance(provenance, dict) else None)
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
    stored = _take(arrays, "codebook", ("float32", "float16", "int8"), (length, size, None))
    if stored.dtype != np.int8:
        return Codebook(stored)
    scale: FloatArray = _take(arrays, "codebook_scale", ("float32",), (length, 1, 1))
    return Codebook(stored, scale)


def _composition(arrays: Arrays, metadata: Mapping[str, Any], dim: int, codebook: Codebook) -> Composition:
    name, width = metadata.get("composition"), codebook.codeword_dim
    if name not in COMPOSITIONS:
        raise StorageError(f"composition: expected one of {', '.join(COMPOSITIONS)}, got {name!r}")
    shapes: dict[str, tuple[int, ...]] = {}
    if name == Lstm.name:
        shapes = {"recurrent": (4, width, width), "bias": (4, width), "projection": (width, dim)}
    elif name == "linear" and width != dim:
        shapes = {"projection": (width, dim)}
    elif name == "product":
        widest = spans(dim, codebook.code_length)[0]
        if width != widest.stop:
            raise StorageError(
                f"codebook: a product code of {dim} dimensions has codewords of {widest.stop}, got {width}"
            )
    float_type = ("float32",) if codebook.number_format == "float32" else ("float16",)
    weights = {key: _take(arrays, f"composition.{key}", float_type, shape) for key, shape in shapes.items()}
    return from_weights(name, dim, weights)
