"""The header of a GGUF file: its metadata and where its tensors lie.

Read here and not by `gguf.GGUFReader`, which makes several arrays for every token of a model and believes the counts of
the file. Here every count is checked against the bytes that are left before anything is made of it, and of the metadata
only the tokens and the alignment are kept.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from kdcode.formats.file_rows import SYMBOL_BYTES
from kdcode.limits import MemoryLimit

MAGIC = b"GGUF"
TOKENS = "tokenizer.ggml.tokens"
_ALIGNMENT = "general.alignment"
_DEFAULT_ALIGNMENT = 32
_VERSIONS = (2, 3)
_MAX_DIMENSIONS = 4  # of the format itself
_MAX_DEPTH = 8
_MAX_NAME_BYTES = 1 << 16
_ENTRY_BYTES = 1000
"""Memory that what is kept of a tensor or a key takes, at most."""

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_UINT32, _STRING, _ARRAY = 4, 8, 9
_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, _UINT32: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of each type of metadata that has a fixed size."""


@dataclass(frozen=True)
class TensorEntry:
    """What the header says of a tensor.

    Args:
        kind: the number of its type, of `gguf.GGMLQuantizationType`.
        shape: the slowest dimension first, as numpy has it: (rows, dimension).
        start: where its bytes begin in the file.
    """

    kind: int
    shape: tuple[int, ...]
    start: int


@dataclass
class GgufHeader:
    """The header of a file.

    Args:
        tensors: every tensor by name.
        tokens: the tokens of the model as bytes, or None where the file has none.
        file_bytes: the bytes of the file.
    """

    tensors: dict[str, TensorEntry] = field(default_factory=dict)
    tokens: list[bytes] | None = None
    file_bytes: int = 0


def read_gguf_header(path: Path, limit: MemoryLimit) -> GgufHeader:
    """The header of a GGUF file of version 2 or 3.

    Raises:
        ValueError: this is no GGUF file, or it is damaged; the text says what was found.
        LimitError: it would take more memory than allowed.
    """
    with path.open("rb") as stream:
        return _Parser(stream, limit).header()


class _Parser:
    """A walk through the header.

    Args:
        stream: the file, at its first byte.
        limit: how much memory tokens and names may take.
    """

    def __init__(self, stream: BinaryIO, limit: MemoryLimit) -> None:
        self._stream, self._limit = stream, limit
        self._size = stream.seek(0, os.SEEK_END)
        self._place = stream.seek(0)
        self._alignment = _DEFAULT_ALIGNMENT
        self._tokens: list[bytes] | None = None

    def header(self) -> GgufHeader:
        """All of it."""
        if self._take(4, "the magic number") != MAGIC:
            raise ValueError("expected the bytes GGUF at its beginning")
        version = self._u32("the version")
        if version not in _VERSIONS:
            order = " in another byte order" if version & 0xFFFF == 0 and version else ""
            raise ValueError(f"version {version}{order} is not read here; expected 2 or 3, little-endian")
        tensor_count, key_count = self._u64("the number of tensors"), self._u64("the number of keys")
        self._check_count("metadata keys", key_count, 13)  # the length of a key, a type and a value of one byte
        seen: set[str] = set()
        for _ in range(key_count):
            key = self._name("a metadata key")
            if key in seen:
                raise ValueError(f"the metadata key {key[:80]!r} appears twice")
            seen.add(key)
            self._value(key, self._u32(f"the type of {key[:80]!r}"), 0)
        entries = self._tensor_entries(tensor_count)
        start = -(-self._place // self._alignment) * self._alignment
        placed = {name: TensorEntry(kind, shape, start + offset) for name, (kind, shape, offset) in entries.items()}
        return GgufHeader(placed, self._tokens, self._size)

    def _tensor_entries(self, count: int) -> dict[str, tuple[int, tuple[int, ...], int]]:
        self._check_count("tensors", count, 24)  # the length of a name, dimensions, a type and an offset
        entries: dict[str, tuple[int, tuple[int, ...], int]] = {}
        for _ in range(count):
            name = self._name("the name of a tensor")
            if name in entries:
                raise ValueError(f"two of its tensors are called {name[:80]!r}")
            dimensions = self._u32(f"the dimensions of {name[:80]!r}")
            if not 1 <= dimensions <= _MAX_DIMENSIONS:
                raise ValueError(f"the tensor {name[:80]!r} has {dimensions} dimensions, expected 1 to 4")
            shape = tuple(self._u64(f"the shape of {name[:80]!r}") for _ in range(dimensions))[::-1]
            kind, offset = self._u32(f"the type of {name[:80]!r}"), self._u64(f"the place of {name[:80]!r}")
            if offset % self._alignment:
                raise ValueError(f"the tensor {name[:80]!r} begins at {offset}, not a multiple of {self._alignment}")
            entries[name] = (kind, shape, offset)
        return entries

    def _value(self, key: str, kind: int, depth: int) -> None:
        """Pass over a value, and keep the alignment."""
        if kind == _STRING:
            self._skip(self._u64(f"the length of {key[:80]!r}"), key)
        elif kind == _ARRAY:
            self._array(key, depth)
        elif kind == _UINT32 and key == _ALIGNMENT:
            self._alignment = self._u32(key)
            if self._alignment == 0 or self._alignment & self._alignment - 1:
                raise ValueError(f"{_ALIGNMENT} is {self._alignment}, expected a power of two")
        elif kind in _SCALAR_BYTES:
            self._skip(_SCALAR_BYTES[kind], key)
        else:
            raise ValueError(f"the metadata key {key[:80]!r} has the unknown type {kind}")
        if key == _ALIGNMENT and kind != _UINT32:
            raise ValueError(f"{_ALIGNMENT} has the type {kind}, expected an unsigned integer of 32 bits")

    def _array(self, key: str, depth: int) -> None:
        """Pass over an array, and keep the tokens."""
        if depth >= _MAX_DEPTH:
            raise ValueError(f"the metadata key {key[:80]!r} holds arrays within arrays, more than {_MAX_DEPTH} deep")
        kind, count = self._u32(f"the type of {key[:80]!r}"), self._u64(f"the length of {key[:80]!r}")
        if kind in _SCALAR_BYTES:
            self._skip(count * _SCALAR_BYTES[kind], key)
            return
        self._check_count(f"values of {key[:80]!r}", count, 12 if kind == _ARRAY else 8, 0)
        if key == TOKENS and depth == 0 and kind == _STRING:
            self._tokens = self._strings(key, count)
            return
        for _ in range(count):
            self._value(key, kind, depth + 1)

    def _strings(self, key: str, count: int) -> list[bytes]:
        """The strings of an array; one byte string of each is in memory."""
        self._limit.check(f"{count} tokens", count * SYMBOL_BYTES)
        strings, text = [], 0
        for number in range(count):
            strings.append(self._take(self._u64(f"the length of token {number}"), f"token {number}"))
            text += len(strings[-1])
        self._limit.check(f"{count} tokens", count * SYMBOL_BYTES + 2 * text)
        return strings

    def _name(self, what: str) -> str:
        length = self._u64(what)
        if length > _MAX_NAME_BYTES:
            raise ValueError(f"{what} takes {length} bytes, expected at most {_MAX_NAME_BYTES}")
        raw = self._take(length, what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{what} is not UTF-8: {raw[:60]!r}, {error.reason}") from None

    def _check_count(self, what: str, count: int, least: int, memory: int = _ENTRY_BYTES) -> None:
        """Refuse a count of things that the bytes left cannot hold, each taking `least` bytes or more."""
        if count * least > self._size - self._place:
            raise ValueError(
                f"it claims {count} {what}, and {self._size - self._place} bytes are left; is the file truncated?"
            )
        self._limit.check(f"{count} {what}", count * memory)

    def _u32(self, what: str) -> int:
        return int(_U32.unpack(self._take(4, what))[0])

    def _u64(self, what: str) -> int:
        return int(_U64.unpack(self._take(8, what))[0])

    def _take(self, count: int, what: str) -> bytes:
        self._check_left(count, what)
        self._place += count
        taken = self._stream.read(count)
        if len(taken) < count:
            raise ValueError("the file was cut short while it was read")
        return taken

    def _skip(self, count: int, what: str) -> None:
        self._check_left(count, what)
        self._place = self._stream.seek(self._place + count)

    def _check_left(self, count: int, what: str) -> None:
        if count > self._size - self._place:
            raise ValueError(
                f"{what[:100]} takes {count} bytes, and {self._size - self._place} are left; is the file truncated?"
            )
