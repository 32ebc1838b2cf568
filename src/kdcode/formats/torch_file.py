"""PyTorch .pt, .pth and .bin: one matrix of a state dict, memory-mapped. Nothing in a file is ever called.

Read here and not by `torch.load`, which builds all that a pickle asks for before one can tell how much that is: a file
of 1 KB makes it fill gigabytes. So PyTorch files are read without PyTorch.
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.errors import FormatError, KdcodeError
from kdcode.formats import matrices, small_floats
from kdcode.formats.format import Progress, ReadOptions
from kdcode.formats.pickle_data import Call, Global, Persistent, load
from kdcode.limits import MemoryLimit
from kdcode.table import VectorTable

BARE = "tensor"
"""What a file is taken to call its tensor when it holds nothing else."""

_MAX_DEPTH = 8
_MEMORY_PER_PICKLE_BYTE = 100
_MEMORY_PER_NAME = 1000
_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_ZIP_MAGIC = b"PK\x03\x04"
_LOCAL_HEADER = struct.Struct("<4s22xHH")

_NUMPY_TYPES = {"float64": "f8", "float32": "f4", "float16": "f2"}
_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
}
_ITEM_BYTES = {
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage", "QInt32Storage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    "ComplexDoubleStorage": 16,
}
"""Bytes of an element of a storage; the others have one."""

_MODULES = {"torch", "torch._utils", "torch._tensor", "torch.storage", "torch.serialization", "torch.nn.parameter"}
_DATA = {
    *(Global("collections", name) for name in ("OrderedDict", "Counter", "defaultdict")),
    *(Global(module, name) for module in ("builtins", "__builtin__") for name in ("bytearray", "set", "complex")),
    Global("_codecs", "encode"),
}
_OTHER_KINDS = {
    "_rebuild_sparse_tensor": "sparse",
    "_rebuild_meta_tensor_no_storage": "on the meta device, where tensors have no numbers",
    "_rebuild_nested_tensor": "nested",
    "_rebuild_qtensor": "quantized",
}


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table in a PyTorch file; tensors of nested dicts are named with dots, as in `state_dict.embed.weight`."""
    limit = options.memory_limit(path)
    try:
        content = _zipped(path, limit) if _is_zip(path) else _legacy(path)
        named = content.value if isinstance(content.value, Mapping) else {BARE: content.value}
        tensors, others = {}, {}
        for name, value in _leaves(named, limit):
            tensor, kind = _tensor_of(value)
            if tensor is not None:
                tensors[name] = tensor
            elif kind:
                others[name] = kind
        name = matrices.choose(path, {name: tensor.shape for name, tensor in tensors.items()}, options.tensor, others)
        tensor = tensors[name]
        rows = tensor.shape[0] if options.limit is None else min(tensor.shape[0], options.limit)
        limit.check(f"the tensor {name[:80]!r}", 4 * rows * tensor.shape[1])
        matrix = tensor.matrix(path, content, rows)
    except KdcodeError:
        raise
    except Exception as error:  # damaged pickles and zip files end in a dozen exceptions
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise FormatError(
            f"{path}: not a PyTorch file of plain tensors: {reason[:200]} "
            "(files that need code to be run are never loaded; save the state dict or the tensor alone)"
        ) from None
    return matrices.named_table(path, options, matrix, tensor.shape[0])


@dataclass(frozen=True)
class _Content:
    """What a file holds.

    Args:
        value: the state dict, or a tensor alone.
        storages: where the bytes of each storage begin and end in the file.
        byte_order: "<" or ">".
    """

    value: Any
    storages: Mapping[str, tuple[int, int]]
    byte_order: str


@dataclass(frozen=True)
class _Tensor:
    """A tensor of floats, as strides over a storage, all counted in elements."""

    storage: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    negative: bool

    def matrix(self, path: Path, content: _Content, rows: int) -> npt.NDArray[Any]:
        """Its first rows; shared with the file where numpy has the type."""
        start, end = content.storages[self.storage]
        small = self.dtype in small_floats.NAMES
        code = f"u{small_floats.itemsize(self.dtype)}" if small else _NUMPY_TYPES[self.dtype]
        dtype = np.dtype(f"{content.byte_order}{code}")
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        if 0 in self.shape or (last + 1) * dtype.itemsize > end - start:
            raise ValueError(f"a tensor of shape {self.shape} does not fit its storage of {end - start} bytes")
        flat = np.memmap(path, np.uint8, "r", start, (end - start) // dtype.itemsize * dtype.itemsize).view(dtype)
        strides = tuple(stride * dtype.itemsize for stride in self.strides)
        kept = np.lib.stride_tricks.as_strided(flat[self.offset :], (rows, self.shape[1]), strides, writeable=False)
        values = small_floats.as_float32(kept, self.dtype) if small else kept
        return -values if self.negative else values


def _allowed(named: Global) -> bool:
    return named.module in _MODULES or named in _DATA or named.module.partition(".")[0] == "numpy"


def _is_zip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == _ZIP_MAGIC


def _zipped(path: Path, limit: MemoryLimit) -> _Content:
    """The content of a file as `torch.save` writes it."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        pickles = [entry for entry in entries if entry.filename.partition("/")[2] == "data.pkl"]
        if len(pickles) != 1 or len({entry.filename for entry in entries}) != len(entries):
            raise ValueError("expected an archive with one data.pkl, and names that are distinct")
        limit.check("its pickle", pickles[0].file_size * _MEMORY_PER_PICKLE_BYTE)
        folder = pickles[0].filename.partition("/")[0]
        with archive.open(pickles[0]) as stream:
            value = load(stream, _allowed)
        order = f"{folder}/byteorder"
        is_big = order in archive.NameToInfo and archive.open(order).read(3) == b"big"
        storages = {}
        for entry in entries:
            key = entry.filename.removeprefix(f"{folder}/data/")
            if key != entry.filename and entry.compress_type == zipfile.ZIP_STORED:
                storages[key] = _stored_place(path, archive, entry)
    return _Content(value, storages, ">" if is_big else "<")


def _stored_place(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> tuple[int, int]:
    """Where the bytes of an entry begin and end in the file."""
    stream = archive.fp
    if stream is None:
        raise ValueError("the archive is closed")
    stream.seek(entry.header_offset)
    magic, name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    start = entry.header_offset + _LOCAL_HEADER.size + name + extra
    if magic != _ZIP_MAGIC or start + entry.file_size > path.stat().st_size:
        raise ValueError(f"the storage {entry.filename[:80]!r} lies outside of the file")
    return start, start + entry.file_size


def _legacy(path: Path) -> _Content:
    """The content of a file as PyTorch wrote it before 1.6: several pickles, then the storages."""
    storages = {}
    with path.open("rb") as stream:
        if load(stream, _allowed) != _MAGIC_NUMBER:
            raise ValueError("expected a zip archive, or a pickle with the magic number of PyTorch")
        load(stream, _allowed)
        system = load(stream, _allowed)
        value = load(stream, _allowed)
        item_bytes = {storage.key: storage.item_bytes for storage in map(_storage_of, _persistent_in(value)) if storage}
        size = path.stat().st_size
        for key in load(stream, _allowed):
            count = int.from_bytes(stream.read(8), "little")
            start = stream.tell()
            end = start + count * item_bytes[key]
            if end > size:
                raise ValueError(f"the storage {key[:80]!r} of {count} elements lies outside of the file")
            storages[key] = (start, end)
            stream.seek(end)
    is_big = isinstance(system, Mapping) and system.get("little_endian") is False
    return _Content(value, storages, ">" if is_big else "<")


@dataclass(frozen=True)
class _Storage:
    """A storage that a pickle refers to: what it is called, its type as torch calls it, and its bytes per element."""

    key: str
    kind: str
    item_bytes: int


def _storage_of(value: object) -> _Storage | None:
    """What a reference of a pickle means, or None."""
    if not isinstance(value, Persistent) or not isinstance(value.key, tuple) or len(value.key) < 5:
        return None
    word, kind, key, *rest = value.key
    views = rest[2:]  # None in all but the very first files
    if word not in ("storage", b"storage") or not isinstance(kind, Global) or type(key) is not str or any(views):
        return None
    return _Storage(key, kind.name, _ITEM_BYTES.get(kind.name, 1))


def _persistent_in(value: object) -> Iterator[Persistent]:
    """The references that a value holds, each once."""
    seen, rest = set(), [value]
    while rest:
        item = rest.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Persistent):
            yield item
        elif isinstance(item, Call):
            rest += [item.function, item.arguments]
        elif isinstance(item, list | tuple):
            rest += item
        elif isinstance(item, dict):
            rest += item.values()


def _leaves(values: Mapping[str, Any], limit: MemoryLimit) -> Iterator[tuple[str, Any]]:
    """What nested dicts hold, by dotted name."""
    rest = [("", values, 1)]
    seen = length = 0
    while rest:
        prefix, inner, depth = rest.pop()
        for key, value in inner.items():
            seen, length = seen + 1, length + len(prefix) + len(key)
            limit.check("the names of its tensors", length + seen * _MEMORY_PER_NAME)
            if not isinstance(value, Mapping):
                yield f"{prefix}{key}", value
            elif depth < _MAX_DEPTH:
                rest.append((f"{prefix}{key}.", value, depth + 1))


def _tensor_of(value: object) -> tuple[_Tensor | None, str]:
    """The tensor of floats that a value is; or None, and what kind of tensor it is instead, if any."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(value, Call) or not isinstance(value.function, Global):
            return None, ""
        name, arguments = value.function.name, value.arguments
        if not isinstance(arguments, tuple):
            return None, ""
        if name in ("_rebuild_parameter", "_rebuild_parameter_with_state", "Parameter"):
            value = arguments[0]
        elif name == "_rebuild_from_type_v2":
            value = Call(arguments[0], arguments[2])
        elif name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"):
            return _strided(name, arguments), "of another type"
        else:
            return None, _OTHER_KINDS.get(name, "")
    return None, ""


def _strided(function: str, arguments: tuple[Any, ...]) -> _Tensor | None:
    """The tensor that one of the functions of torch builds of a storage; None where it holds no floats."""
    reference, offset, size, strides, *rest = arguments
    storage = _storage_of(reference)
    if storage is None:
        return None
    typed = _STORAGES.get(storage.kind)
    if function == "_rebuild_tensor_v3":
        dtype = rest[2].name if isinstance(rest[2], Global) else None
        metadata = rest[3] if len(rest) > 3 else None
    else:
        dtype, metadata = typed, rest[2] if len(rest) > 2 else None
    if dtype not in _NUMPY_TYPES and dtype not in small_floats.NAMES:
        return None
    shape = size.arguments[0] if isinstance(size, Call) else size
    counts = (offset, *shape, *strides)
    if len(shape) != len(strides) or not all(type(count) is int and 0 <= count < 1 << 48 for count in counts):
        raise ValueError(f"a tensor of shape {str(shape)[:80]} has strides {str(strides)[:80]}")
    if math.prod(shape) >= 1 << 60:
        raise ValueError(f"a tensor has the shape {str(shape)[:80]}")
    negative = isinstance(metadata, dict) and metadata.get("neg") is True
    return _Tensor(storage.key, str(dtype), offset, tuple(shape), tuple(strides), negative)
