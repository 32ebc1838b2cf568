"""The file of a checkpoint: a line with a digest, and what torch.save makes of the content.

The line is `kdcode checkpoint VERSION DIGEST`, where DIGEST is the SHA-256 of all bytes after it, in hexadecimal.
Nothing is unpickled before the digest is known to be right, and then only tensors and plain values.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO, Any, cast

import torch

from kdcode.errors import CheckpointError
from kdcode.files import replacing

_MAGIC = b"kdcode checkpoint "
_OPENING = _MAGIC + b"4 "
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
    with replacing(path) as temporary, temporary.open("wb") as stream:
        stream.write(bytes(_LINE_BYTES))
        digested = _DigestedStream(stream)
        torch.save(content, cast("IO[bytes]", digested))  # which needs no more than these two methods
        if digested.error is not None:
            raise digested.error
        stream.seek(0)
        digest = digested.digest.hexdigest()
        stream.write(_line(digest))
    return digest


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
            content = torch.load(stream, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever torch makes of bytes that another torch wrote
            raise CheckpointError(
                f"{path}: the checkpoint cannot be read: {error}; remove it to start afresh"
            ) from error
    return content, digest


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


class _DigestedStream:
    """What torch.save writes to: hands bytes on, with a digest of them.

    The first error is kept and the rest is dropped. torch's own C++ would make several others of it.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.digest = hashlib.sha256()
        self.error: OSError | None = None
        self._stream = stream

    def write(self, data: bytes) -> int:
        if self.error is None:
            try:
                self._stream.write(data)
            except OSError as error:
                self.error = error
            self.digest.update(data)
        return len(data)

    def flush(self) -> None:
        """Nothing: the stream is closed in a moment."""
