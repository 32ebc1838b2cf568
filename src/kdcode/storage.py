"""The .kdc file: save and load. docs/format.md is the specification that this module follows.

The file is a safetensors file whose tensors are mapped, not copied, and checked against the file's digests where they
are read. The same table always gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from io import BytesIO
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from kdcode._version import __version__
from kdcode.codec import Codec, CodecSpec, codec_from_tensors, spec_of
from kdcode.codec.sizes import MAX_HEADER_BYTES
from kdcode.coded import CodedTable
from kdcode.digests import DIGEST_BYTES, Digester, digest_bytes
from kdcode.errors import DamagedFileError, OptionError, StorageError, file_error
from kdcode.files import check_readable, is_pipe, replacing
from kdcode.limits import MAX_EXPANSION, MemoryLimit
from kdcode.safetensors_header import DTYPES, Header, HeaderError, TensorPlace, header_bytes, header_of, parse_object
from kdcode.stored_array import ArrayInFile, BlockChecks, FileContent, StoredArray
from kdcode.symbols import RowNumbers, StoredSymbols

FORMAT_VERSION = 1
"""The version that is written and read."""
_NO_KDC = "not a .kdc file; `kdcode compress` makes one of a table of vectors"

MAX_NESTING = 32
"""How deep the objects and lists of the metadata may lie in each other."""
CHECKS = ("lazy", "full", "none")
"""When `load` checks the content of a file."""

_DTYPES = ("U8", "I8", "U16", "U64", "F16", "F32")
_SYMBOL_TENSORS = ("strings", "blocks", "starts", "order")

Places = dict[str, TensorPlace]


@dataclass(frozen=True)
class WrittenTensor:
    """A tensor on its way into a file.

    Args:
        dtype: of its numbers, little-endian.
        shape: in row-major order.
        pieces: its bytes, in as many pieces as they come in.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Iterable[bytes | memoryview]

    @classmethod
    def of(cls, array: ArrayInFile) -> WrittenTensor:
        """An array in memory or in another file, which is read when it is written."""
        dtype = array.dtype.newbyteorder("<")

        def whole() -> Iterator[memoryview]:
            yield np.ascontiguousarray(np.asarray(array).astype(dtype, copy=False)).data

        return cls(dtype, tuple(array.shape), whole())

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return self.dtype.itemsize * prod(self.shape)


def save(coded: CodedTable, path: str | PathLike[str]) -> int:
    """Write a coded table; the file appears whole or not at all.

    Returns:
        The bytes of the file.

    Raises:
        OptionError: the table's provenance is not JSON, or too long.
        FileError: the file cannot be written.
    """
    tensors = {name: WrittenTensor.of(array) for name, array in coded.codec.tensors().items()}
    if len(coded):
        rows = coded.codec.row_tensors(coded.packed)
        tensors |= {name: WrittenTensor.of(array) for name, array in rows.items()}
    if isinstance(coded.symbols, StoredSymbols):
        arrays = coded.symbols.arrays.items()
        tensors |= {f"symbols.{name}": WrittenTensor.of(array) for name, array in arrays}
    return write_file(Path(path), metadata_text(coded.spec, len(coded), coded.provenance), tensors)


def write_file(target: Path, metadata: str, tensors: Mapping[str, WrittenTensor]) -> int:
    """Write a .kdc file of its metadata and tensors, in whatever order these are given; see `save`."""
    # Wide numbers first, so that all are aligned, then by name.
    ordered = {name: tensors[name] for name in sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))}
    covered = sum(tensor.nbytes for tensor in ordered.values())
    header = _header_with_digests(metadata, ordered, covered)
    if len(header) > MAX_HEADER_BYTES:
        raise OptionError(
            f"header and metadata take {len(header)} bytes, at most {MAX_HEADER_BYTES} are allowed; "
            "shorten the table's provenance"
        )
    digester = Digester()
    try:
        with replacing(target) as temporary, temporary.open("wb") as stream:
            for pieces in ([header], *(tensor.pieces for tensor in ordered.values())):
                for piece in pieces:
                    stream.write(piece)
                    digester.update(piece)
            digests = digester.digests()
            stream.write(digests.data)
    except OSError as error:
        raise file_error(target, "written", error) from error
    return len(header) + covered + digests.nbytes


def _header_with_digests(metadata: str, tensors: Mapping[str, WrittenTensor], tensor_bytes: int) -> bytes:
    """The header of a file whose digests, which come last, cover it too."""
    blocks = 1
    while True:  # more digests may make the header longer by a digit, and so the digests more
        digests = WrittenTensor(np.dtype(np.uint8), (blocks, DIGEST_BYTES), ())
        header = header_bytes({"kdcode": metadata}, {**tensors, "digests": digests})
        needed = digest_bytes(len(header) + tensor_bytes) // DIGEST_BYTES
        if needed == blocks:
            return header
        blocks = needed


def metadata_text(spec: CodecSpec, count: int, provenance: Mapping[str, Any]) -> str:
    """The metadata of a table of `count` rows, as JSON.

    Raises:
        OptionError: the provenance is not JSON, or too deep.
    """
    metadata = {
        "format": FORMAT_VERSION,
        "num_embeddings": count,
        **{item.name: getattr(spec, item.name) for item in fields(spec)},
        "written_by": f"kdcode {__version__}",
        "provenance": provenance,
    }
    try:
        text = json.dumps(metadata, ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":"))
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"provenance: cannot be written as JSON: {error}") from error
    if _is_too_deep(json.loads(text)):
        raise OptionError(f"provenance: nested deeper than {MAX_NESTING} levels, the metadata around it counted")
    return text


def load(
    path: str | PathLike[str], *, check: str = "lazy", mmap: bool = True, max_expansion: float = MAX_EXPANSION
) -> CodedTable:
    """Open a .kdc file. Codes and symbols stay on disk, memory-mapped, until they are used.

    Args:
        path: the file.
        check: when its content is compared with its digests and checked against the specification: "lazy", where it is
            read, so that a file of any size opens at once; "full", all of it now; or "none", digests never.
        mmap: whether to map the file; False reads all of it into memory, from a pipe too. A mapped file must not be
            written to while it is in use: to replace it, write another and rename it, as `save` does.
        max_expansion: how many times the bytes of the file it may take in memory, 256 MiB in any case; see
            `kdcode.limits`.

    Raises:
        FileError: the file is not there (also a FileNotFoundError) or cannot be opened.
        StorageError: the file does not follow docs/format.md; the message names the field. Where its bytes have changed
            since they were written, this is a DamagedFileError, which reading a row may raise as well.
        LimitError: the file would take more memory than `max_expansion` allows.
    """
    if check not in CHECKS:
        raise OptionError(f"check must be one of {', '.join(CHECKS)}, got {check!r}")
    file, limit = Path(path), MemoryLimit(0, max_expansion)
    try:
        with _opened(file, mapped=mmap) as stream:
            header = _header_of(stream, file)
            metadata, places = _metadata_in(header), _places_in(header)
            content = FileContent.of(stream, file, mapped=mmap)
        arrays = _arrays_in(header, places, content, check)
        coded = _assemble(metadata, arrays, replace(limit, file_bytes=len(content.data), name=str(file)))
        if check == "full":
            coded.check()
    except DamagedFileError:
        raise  # names the file itself, because it may come later too
    except (StorageError, OptionError, HeaderError) as error:
        raise StorageError(f"{file}: {error}") from error
    return coded


@contextmanager
def _opened(file: Path, *, mapped: bool) -> Iterator[BinaryIO]:
    """The file, open for reading; in memory where it is not to be mapped."""
    check_readable(file)
    try:
        if mapped and is_pipe(file):
            raise StorageError("this is a pipe, which cannot be mapped; load it with mmap=False")
        with file.open("rb") as stream:
            yield stream if mapped else BytesIO(stream.read())
    except OSError as error:
        raise file_error(file, "read", error) from error


def _header_of(stream: BinaryIO, file: Path) -> Header:
    """The header of a .kdc file. Files that do not begin like one are refused as other files, not as damaged ones."""
    try:
        return header_of(stream, file, MAX_HEADER_BYTES - 8)
    except HeaderError:
        stream.seek(0)
        begin = stream.read(9)
        if len(begin) == 9 and begin[8:] != b"{" and any(begin[2:8]):  # 2 bytes hold the length
            raise StorageError(_NO_KDC) from None
        raise


def _metadata_in(header: Header) -> dict[str, Any]:
    """The kdcode metadata, of the version that is read here."""
    try:
        metadata = parse_object(header.metadata["kdcode"])
    except KeyError:
        raise StorageError(f"this is a safetensors file, {_NO_KDC}") from None
    except (ValueError, RecursionError) as error:
        raise StorageError(f"header: the kdcode metadata cannot be read: {error}") from None
    version = metadata.get("format")
    if type(version) is not int or version < 1:
        raise StorageError(f"format: expected a version number, got {version!r}")
    if version > FORMAT_VERSION:
        raise StorageError(
            f"format: version {version} is newer than {FORMAT_VERSION}, which this kdcode reads; upgrade"
        )
    if _is_too_deep(metadata):
        raise StorageError(f"metadata: nested deeper than {MAX_NESTING} levels")
    return metadata


def _is_too_deep(value: object) -> bool:
    """Whether objects and lists lie deeper in each other than `MAX_NESTING`."""
    level = [value]
    for _ in range(MAX_NESTING + 1):
        inside = [list(item.values()) if isinstance(item, dict) else item for item in level]
        level = [inner for items in inside if isinstance(items, list) for inner in items]
    return bool(level)


def _places_in(header: Header) -> Places:
    """Where all tensors lie, once they are known to tile the file without gaps, digests last."""
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
    digests = places.get("digests")
    if digests is None:
        raise StorageError("digests: missing")
    expected = (digest_bytes(header.data_start + digests.start) // DIGEST_BYTES, DIGEST_BYTES)
    if digests.dtype != "U8" or digests.shape != expected or digests.end != reached:
        raise StorageError(
            f"digests: expected U8 of shape {expected} at the end of the file, got {digests.dtype} of shape "
            f"{digests.shape} that ends at byte {digests.end} of {reached}"
        )
    return places


def _arrays_in(header: Header, places: Places, content: FileContent, check: str) -> dict[str, ArrayInFile]:
    """The tensors; their blocks are checked when they are read, unless `check` is "none"."""
    if len(content.data) != header.data_start + header.data_bytes:
        raise StorageError("the file changed while it was opened")
    rest = dict(places)
    end = header.data_start + rest["digests"].start
    digests = content.data[end:].reshape(rest.pop("digests").shape)
    checks = BlockChecks(content, digests, end, trusted=check == "none")
    checks.check(0, header.data_start if check == "lazy" else end)
    return {
        name: StoredArray(
            checks, header.data_start + place.start, np.dtype(DTYPES[place.dtype]).newbyteorder("<"), place.shape
        )
        for name, place in rest.items()
    }


def _assemble(metadata: Mapping[str, Any], arrays: Mapping[str, ArrayInFile], limit: MemoryLimit) -> CodedTable:
    """A CodedTable from checked parts; what is left over in the file is refused."""
    count = metadata.get("num_embeddings")
    if type(count) is not int or not 0 <= count < 1 << 48:
        raise StorageError(f"num_embeddings: expected an integer of at least 0, got {count!r}")
    provenance = metadata.get("provenance", {})
    if not isinstance(provenance, dict):
        raise StorageError(f"provenance: expected a JSON object, got {type(provenance).__name__}")
    spec = spec_of(metadata)
    rest = dict(arrays)
    if not count:
        return CodedTable.of_codec(_codec_of(spec, rest, limit), provenance)
    rows = _rows_in(rest, spec, count)
    symbols = _symbols_of(rest, count, limit)
    codec = _codec_of(spec, rest, limit, count)
    return CodedTable(symbols, codec.rows_of_tensors(rows, count), codec, provenance)


def _rows_in(arrays: dict[str, ArrayInFile], spec: CodecSpec, count: int) -> dict[str, ArrayInFile]:
    """The tensors of rows, which are removed from `arrays`."""
    found: dict[str, ArrayInFile] = {}
    for name, (dtype, shape) in spec.row_layout(count).items():
        if name not in arrays:
            raise StorageError(f"{name}: missing")
        array = found[name] = arrays.pop(name)
        known = tuple(number for number, wanted in zip(array.shape, shape, strict=False) if wanted is not None)
        if array.dtype != dtype or len(array.shape) != len(shape) or known != tuple(n for n in shape if n is not None):
            raise StorageError(f"{name}: expected {dtype} of shape {shape}, got {array.dtype} of shape {array.shape}")
    return found


def _codec_of(spec: CodecSpec, arrays: Mapping[str, ArrayInFile], limit: MemoryLimit, count: int = 0) -> Codec:
    """The codec of a file of `count` rows, to which all `arrays` must belong."""
    for name in (*spec.row_layout(1), *(f"symbols.{part}" for part in _SYMBOL_TENSORS)):
        if name in arrays:  # all rows have codes, and symbols were taken out before
            raise StorageError(f"{name}: there is none in a file of 0 rows")
    codec = codec_from_tensors(spec, {name: _in_memory(array) for name, array in arrays.items()})
    spec.check_memory(limit, count)
    return codec


def _in_memory(array: ArrayInFile) -> npt.NDArray[Any]:
    """A checked copy of an array in a file, which no change of the file can reach."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def _symbols_of(arrays: dict[str, ArrayInFile], count: int, limit: MemoryLimit) -> StoredSymbols | RowNumbers:
    """The symbols, whose tensors are removed from `arrays`; row numbers where there are none."""
    names = {part: f"symbols.{part}" for part in _SYMBOL_TENSORS}
    missing = [name for name in names.values() if name not in arrays]
    if len(missing) == len(names):
        return RowNumbers(count)
    if missing:
        raise StorageError(f"{missing[0]}: missing")
    return StoredSymbols(count, {part: arrays.pop(name) for part, name in names.items()}, limit)
