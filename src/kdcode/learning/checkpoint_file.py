"""The file of a checkpoint: a line with a digest, a line of JSON, and the bytes of arrays.

The first line is `kdcode checkpoint VERSION DIGEST`, where DIGEST is the SHA-256 of all bytes after it, in hexadecimal.
JSON has plain values as they are, and lists that begin with a letter for others: "l" a list, "t" a tuple, "d" the pairs
of a dict, and "a" the type and the shape of an array. Arrays stand one after another, in the order of JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

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
    """Write arrays and plain values, completely or not at all; gives back their digest.

    Raises:
        OSError: they cannot be written.
    """
    arrays: list[npt.NDArray[Any]] = []
    text = json.dumps(_described(content, arrays)).encode() + b"\n"
    digest = hashlib.sha256(text)
    with replacing(path) as temporary, temporary.open("wb") as stream:
        stream.write(bytes(_LINE_BYTES))
        stream.write(text)
        for array in arrays:
            whole = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
            digest.update(whole)
            stream.write(whole)
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
        try:
            content = _value(json.loads(stream.readline()), stream)
        except (ValueError, TypeError, IndexError) as error:  # of another version
            raise CheckpointError(
                f"{path}: the checkpoint cannot be read: {error}; remove it to start afresh"
            ) from error
    return content, digest


def _described(value: Any, arrays: list[npt.NDArray[Any]]) -> Any:  # noqa: ANN401 - values of any type
    """A value as JSON has it; arrays are added to a list.

    Raises:
        TypeError: it is neither a plain value nor an array.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays.append(value)
        return ["a", value.dtype.str, value.shape]
    if isinstance(value, list | tuple):
        return ["l" if isinstance(value, list) else "t", *(_described(item, arrays) for item in value)]
    if isinstance(value, dict):
        return ["d", *([_described(key, arrays), _described(item, arrays)] for key, item in value.items())]
    raise TypeError(f"a checkpoint holds plain values and arrays, got {type(value).__name__}")


def _value(described: Any, stream: IO[bytes]) -> Any:  # noqa: ANN401 - values of any type
    """What `_described` has described; its arrays are read from a stream."""
    if not isinstance(described, list):
        return described
    kind, *parts = described
    if kind == "a":
        dtype, shape = np.dtype(parts[0]), tuple(parts[1])
        array = np.empty(math.prod(shape), dtype)
        if dtype.hasobject or stream.readinto(array.view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
            raise ValueError("an array is cut short")
        return array.reshape(shape)
    if kind == "d":
        return {_value(key, stream): _value(item, stream) for key, item in parts}
    found = [_value(item, stream) for item in parts]
    return found if kind == "l" else tuple(found)


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
