"""PyTorch .pt, .pth and .bin: one matrix of a state dict, read by `torch.load` without running code.

`torch.load(weights_only=True)` calls no foreign code, but a pickle of 1 KB can make it fill gigabytes or compare tuples
for hours. So every pickle is walked before it is loaded, in time and memory in proportion to its bytes.
"""

from __future__ import annotations

import io
import pickletools
import re
import struct
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy.typing as npt

from kdcode.errors import FormatError, KdcodeError, MissingExtraError
from kdcode.io import matrices
from kdcode.io.format import ReadOptions
from kdcode.io.reader import Progress
from kdcode.limits import MemoryLimit
from kdcode.table import VectorTable

BARE = "tensor"
"""What errors call the tensor of a file that holds nothing else."""

_MAX_DEPTH = 8
_MEMORY_PER_PICKLE_BYTE = 100
_MEMORY_PER_NAME = 1000
_ZIP_MAGIC = b"PK\x03\x04"
_LEGACY_PICKLES, _LEGACY_VALUE = 5, 3
"""Files of PyTorch before 1.6 begin with pickles of a magic number, version, system, the value, keys of storages."""

_FLOATS = ("float64", "float32", "float16")
_SMALL_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
"""Types of tensors that become float32, because numpy has no such types."""

_ATOMS = {
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINSTRING"),
    *("NONE", "NEWTRUE", "NEWFALSE"),
}
_EMPTY = {"EMPTY_DICT": "dict", "EMPTY_LIST": "object", "EMPTY_TUPLE": "()"}
_DICT = "collections OrderedDict"
_REBUILD = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_meta_tensor_no_storage")
_FUNCTIONS = {
    _DICT,
    "torch Size",
    "torch device",
    *(f"torch._utils {name}" for name in (*_REBUILD, "_rebuild_parameter", "_rebuild_parameter_with_state")),
}
"""What a pickle may call. These make no more than their arguments hold, and call nothing in turn."""
_TYPES = re.compile(r"torch (\w+Storage|bool|[a-z]+\d\w*)|torch\.storage UntypedStorage")
"""What a pickle may name beside that: types of storages and numbers."""
_PROTOCOL = 2
_TAKEN = {"TUPLE2": 2, "TUPLE3": 3, "REDUCE": 2, "SETITEM": 2}
"""How many values an opcode takes from the stack; others take one, or those after a mark."""


def read(path: Path, options: ReadOptions, on_progress: Progress | None) -> VectorTable:
    """The table in a PyTorch file; tensors of nested dicts are named with dots, as in `state_dict.embed.weight`."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError("reading PyTorch files", "torch") from None
    limit = options.memory_limit(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python and torch about damaged pickles
            sizes = _check(path, limit)
            # Files of PyTorch before 1.6 cannot be mapped.
            value = torch.load(path, map_location="cpu", weights_only=True, mmap=sizes is not None)
        tensors, others = {}, {}
        for name, leaf in _leaves(value if isinstance(value, Mapping) else {BARE: value}, limit):
            if isinstance(leaf, torch.Tensor):
                if kind := _other_kind(leaf):
                    others[name] = kind
                else:
                    tensors[name] = leaf
        name = matrices.choose(
            path, {name: tuple(leaf.shape) for name, leaf in tensors.items()}, options.tensor, others
        )
        tensor = tensors[name]
        rows = options.rows_of(len(tensor))
        limit.check(f"the tensor {name[:80]!r}", 4 * rows * tensor.shape[1])
        if sizes is not None and tensor.untyped_storage().nbytes() not in sizes:
            raise ValueError(f"the storage of {name[:80]!r} is not the one in the file")
        matrix = _as_numpy(tensor[:rows])
    except KdcodeError:
        raise
    except Exception as error:  # damaged pickles and zip files end in a dozen exceptions
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise FormatError(
            f"{path}: not a PyTorch file of plain tensors: {reason[:200]} "
            "(files that need code to be run are never loaded; save the state dict or the tensor alone)"
        ) from None
    return matrices.named_table(path, options, matrix, len(tensor))


def _other_kind(tensor: Any) -> str:  # noqa: ANN401 - a torch tensor
    """What a tensor is, if not a plain one of floats in memory; otherwise an empty text."""
    if tensor.device.type == "meta":
        return "on the meta device, where tensors have no numbers"
    is_float = str(tensor.dtype).removeprefix("torch.") in (*_FLOATS, *_SMALL_FLOATS)
    return "" if is_float else f"of the type {tensor.dtype}"


def _as_numpy(tensor: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - a torch tensor
    """Its numbers; shared with the file where numpy has the type."""
    is_small = str(tensor.dtype).removeprefix("torch.") in _SMALL_FLOATS
    numbers: npt.NDArray[Any] = (tensor.float() if is_small else tensor).detach().resolve_neg().numpy()
    return numbers


def _leaves(values: Mapping[Any, Any], limit: MemoryLimit) -> Iterator[tuple[str, Any]]:
    """The values of nested dicts, by dotted name."""
    rest = [("", values, 1)]
    seen = length = 0
    while rest:
        prefix, inner, depth = rest.pop()
        for key, value in inner.items():
            name = f"{prefix}{key}"
            seen, length = seen + 1, length + len(name)
            limit.check("the names of its tensors", length + seen * _MEMORY_PER_NAME)
            if not isinstance(value, Mapping):
                yield name, value
            elif depth < _MAX_DEPTH:
                rest.append((f"{name}.", value, depth + 1))


def _check(path: Path, limit: MemoryLimit) -> set[int] | None:
    """Refuse a file that torch should not load.

    Returns:
        The sizes of the storages in a zip archive; None for files of PyTorch before 1.6.
    """
    with path.open("rb") as stream:
        if stream.read(4) != _ZIP_MAGIC:
            stream.seek(0)
            for number in range(_LEGACY_PICKLES):
                check_pickle(stream, shares=number == _LEGACY_VALUE)
            return None
        _check_end(stream)
        with zipfile.ZipFile(stream) as archive:
            entries = archive.infolist()
            pickles = [entry for entry in entries if entry.filename.partition("/")[2] == "data.pkl"]
            if len(pickles) != 1 or len({entry.filename for entry in entries}) != len(entries):
                raise ValueError("expected an archive with one data.pkl, and names that are distinct")
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError("its archive is compressed, which torch.save never does")
            limit.check("its pickle", pickles[0].file_size * _MEMORY_PER_PICKLE_BYTE)
            check_pickle(io.BytesIO(archive.read(pickles[0])))
        return {entry.file_size for entry in entries}


def _check_end(stream: IO[bytes]) -> None:
    """Refuse an archive in which torch and zipfile could find different directories, and so different pickles."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, size - 98))
    tail = stream.read()
    directory_size, start = struct.unpack_from("<II", tail, len(tail) - 10)
    end = size - 22
    if tail[-42:-38] == b"PK\x06\x07":  # a zip64 archive, as torch writes: its own record and locator come before
        end = size - 98
        directory_size, start = struct.unpack_from("<QQ", tail, 40)
        if tail[:4] != b"PK\x06\x06" or struct.unpack_from("<Q", tail, 64)[0] != end:
            raise ValueError("the end of the archive is damaged")
    if tail[-22:-18] != b"PK\x05\x06" or start + directory_size != end:
        raise ValueError("the end of the archive is damaged; is the file truncated?")


def check_pickle(stream: IO[bytes], *, shares: bool = True) -> None:
    """Walk a pickle as `torch.save` writes it, up to its end, without building what it describes.

    A value on the stack is known as "atom", "flat" (a tuple of atoms and names), "()", "dict", "object", or by its
    name. Only calls that make tensors and dicts pass, and only atoms become keys of dicts and names of storages: nested
    tuples can take exponential time to hash and to print.

    Args:
        stream: where the pickle begins; it is left behind the pickle.
        shares: whether a value may be used twice; torch prints values of some pickles, which then have no limit.

    Raises:
        ValueError: the pickle has what tensors do not need. Damage may end in other exceptions too.
    """
    stack: list[str] = []
    marks: list[int] = []
    memo: dict[int, str] = {}
    for opcode, given, _ in pickletools.genops(stream):
        name, argument = opcode.name, cast(Any, given)
        if name in _ATOMS:
            stack.append("atom")
        elif name == "GLOBAL":
            if argument not in _FUNCTIONS and not _TYPES.fullmatch(argument):
                raise ValueError(f"it names {argument.replace(' ', '.')[:100]}, which plain tensors do not need")
            stack.append(argument)
        elif name in _EMPTY:
            stack.append(_EMPTY[name])
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET") and shares:
            stack.append(memo[argument])
        elif name == "MARK":
            marks.append(len(stack))
        elif name == "PROTO" and argument != _PROTOCOL:
            raise ValueError(f"its pickles have protocol {argument}, expected {_PROTOCOL} as torch.save writes")
        elif name not in ("PROTO", "STOP"):
            start = marks.pop() if name in ("TUPLE", "SETITEMS", "APPENDS") else len(stack) - _TAKEN.get(name, 1)
            items = stack[start:]
            del stack[start:]
            stack += _made(name, items)


def _made(name: str, items: list[str]) -> list[str]:
    """What an opcode leaves on the stack in place of the values that it takes."""
    if name in ("APPEND", "APPENDS") or (name == "BUILD" and items == ["dict"]):
        return []
    if name.startswith("TUPLE"):
        return ["object" if {"object", "dict", "()", "flat"} & set(items) else "flat"]
    if name in ("SETITEM", "SETITEMS") and set(items[::2]) <= {"atom"}:
        return []
    if name == "BINPERSID" and items == ["flat"]:
        return ["object"]
    if name == "REDUCE" and items[0] in _FUNCTIONS and (items[0] != _DICT or items[1] == "()"):
        return ["object"]
    raise ValueError(f"it uses {name} as files of tensors do not")
