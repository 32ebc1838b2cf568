"""The file of a checkpoint: a line with a digest, plain values as JSON, and the bytes of arrays and tensors.

The line is `kdcode checkpoint VERSION DIGEST`, where DIGEST is the SHA-256 of all bytes after it, in hexadecimal. After
it come the length of the JSON in 8 bytes, the JSON, and the arrays one after another, whose types and shapes it has.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from kdcode.errors import CheckpointError
from kdcode.files import replacing

_MAGIC = b"kdcode checkpoint "
_OPENING = _MAGIC + b"5 "
_LINE_BYTES = len(_OPENING) + 64 + 1

Content = dict[str, Any]
"""`identity`, `state` and `plan`, any of which may be None, and `files` where rows are apart; see `Checkpoint`."""

FILES = "files"
"""Where the files of rows are listed, each with its name, its first row, the number of its rows, and its digest."""

_STATE = {"step": int, "stage": int, "seconds": float, "losses": list, "state": dict}
_PLAN = {"identity": str, "options": dict | None, "probes": dict}


def write_checkpoint(path: Path, content: Content) -> None:
    """Write a checkpoint; the old file is there until the new one is whole.

    Raises:
        OSError: it cannot be written.
    """
    write_digested(path, content)


def write_digested(path: Path, content: Content) -> str:
    """Write tensors and plain values, completely or not at all; gives back their digest.

    Raises:
        OSError: they cannot be written.
    """
    arrays: list[Any] = []
    text = json.dumps(_plain(content, arrays)).encode()
    digest = hashlib.sha256()
    with replacing(path) as temporary, temporary.open("wb") as stream:
        stream.write(bytes(_LINE_BYTES))
        for part in (len(text).to_bytes(8, "little"), text, *(array.reshape(-1).view(np.uint8) for array in arrays)):
            stream.write(part)
            digest.update(part)
        stream.seek(0)
        stream.write(_line(digest.hexdigest()))
    return digest.hexdigest()


def read_checkpoint(path: Path) -> Content:
    """The content of a checkpoint, which is known to be what was written.

    Raises:
        CheckpointError: the file is no checkpoint, is damaged, or lacks something.
        OSError: it cannot be read.
    """
    content, _ = read_digested(path)
    if fault := _fault(content):
        raise CheckpointError(f"{path}: not a checkpoint of this version of kdcode: {fault}; remove it to start afresh")
    return dict(content)


def read_digested(path: Path) -> tuple[Any, str]:
    """What `write_digested` has written, and its digest.

    Raises:
        CheckpointError: the file is no checkpoint, or is damaged.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        line = stream.read(_LINE_BYTES)
        if not line.startswith(_MAGIC):
            raise CheckpointError(f"{path}: not a checkpoint; remove it to start afresh")
        if not line.startswith(_OPENING):
            raise CheckpointError(f"{path}: not a checkpoint of this version of kdcode; remove it to start afresh")
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if line != _line(digest):
            raise CheckpointError(
                f"{path}: the checkpoint is damaged, its bytes do not match their digest; remove it to start afresh"
            )
        stream.seek(_LINE_BYTES)
        text = stream.read(int.from_bytes(stream.read(8), "little"))
        arrays = bytearray(stream.read())
    try:
        return _restored(json.loads(text), arrays), digest
    except Exception as error:  # whatever stands in a file that something else has written
        raise CheckpointError(f"{path}: the checkpoint cannot be read: {error}; remove it to start afresh") from error


def _plain(value: Any, arrays: list[Any]) -> Any:  # noqa: ANN401 - values of any type
    """A value as JSON can have it; arrays and tensors are added to a list, and named by type, shape and place."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_plain(item, arrays) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key, arrays), _plain(item, arrays)] for key, item in value.items()]}
    kind = "array" if isinstance(value, np.ndarray) else "tensor"
    array = np.ascontiguousarray(value if kind == "array" else value.detach().cpu().numpy())
    place = sum(other.nbytes for other in arrays)
    arrays.append(array)
    return {kind: [array.dtype.str, list(np.shape(value)), place]}


def _restored(value: Any, arrays: bytearray) -> Any:  # noqa: ANN401 - values of any type
    """Undoes `_plain`, with the bytes of all arrays."""
    if isinstance(value, list):
        return [_restored(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, parts),) = value.items()
    if kind == "tuple":
        return tuple(_restored(item, arrays) for item in parts)
    if kind == "dict":
        return {_restored(key, arrays): _restored(item, arrays) for key, item in parts}
    dtype, shape, place = parts
    array = np.frombuffer(arrays, dtype=dtype, count=math.prod(shape), offset=place).reshape(shape)
    if kind == "array":
        return array
    import torch

    return torch.from_numpy(array)


def _line(digest: str) -> bytes:
    return _OPENING + digest.encode() + b"\n"


def _fault(content: Any) -> str | None:  # noqa: ANN401 - whatever was in the file
    """What is wrong with the content of a file; None where it is as `Checkpoint` writes it."""
    kinds: dict[str, Any] = {"identity": str | None, "state": dict | None, "plan": dict | None}
    if isinstance(content, dict) and FILES in content:
        kinds[FILES] = list
        if any(type(file) is not list or list(map(type, file)) != [str, int, int, str] for file in content[FILES]):
            return "its list of files of rows is no such list"
    if fault := _fault_of("checkpoint", content, kinds):
        return fault
    for name, parts in (("state", _STATE), ("plan", _PLAN)):
        if content[name] is not None and (fault := _fault_of(name, content[name], parts)):
            return fault
    losses = [] if content["state"] is None else content["state"]["losses"]
    if any(type(loss) is not float for loss in losses):
        return f"losses of state are no numbers but {losses!r}"
    probes = {} if content["plan"] is None else content["plan"]["probes"]
    for name, numbers in probes.items():
        if not isinstance(name, str) or not isinstance(numbers, list) or not all(type(one) is float for one in numbers):
            return f"a probe is no list of numbers but {numbers!r}"
    return None


def _fault_of(name: str, value: object, kinds: dict[str, Any]) -> str | None:
    if not isinstance(value, dict):
        return f"{name} is of type {type(value).__name__}, expected dict"
    if set(value) != set(kinds):
        return f"{name} has {sorted(map(str, value))}, expected {sorted(kinds)}"
    for key, kind in kinds.items():
        if not isinstance(value[key], kind) or isinstance(value[key], bool):
            return f"{key} of {name} is of type {type(value[key]).__name__}"
    return None
