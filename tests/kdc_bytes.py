"""Files of the .kdc kind, taken apart and put together wrongly on purpose."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DTYPE_BYTES = {"U8": 1, "I8": 1, "U16": 2, "U64": 8, "F16": 2, "F32": 4, "F64": 8}


@dataclass
class Parts:
    """A file in pieces. `tensors` maps a name to [dtype, shape, bytes]; `metadata` is an object or raw text.

    Digests are none of the pieces: they are made anew when the file is written.
    """

    metadata: Any
    tensors: dict[str, list[Any]]
    extra_header: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path) -> Parts:
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header, body = json.loads(raw[8 : 8 + length]), raw[8 + length :]
        metadata = json.loads(header.pop("__metadata__")["kdcode"])
        tensors = {
            name: [entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])]]
            for name, entry in header.items()
            if name != "digests"
        }
        return cls(metadata, tensors)

    def header(self) -> dict[str, Any]:
        """The header of the file, in which `digests` covers it and all tensors."""
        text = self.metadata if isinstance(self.metadata, str) else json.dumps(self.metadata)
        header: dict[str, Any] = {"__metadata__": {"kdcode": text}}
        start = 0
        for name, (dtype, shape, content) in self.tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, start + len(content)]}
            start += len(content)
        header |= self.extra_header
        blocks = 1 + (start + len(json.dumps(header)) + 200) // 65536  # the entry of the digests takes some 80 bytes
        header["digests"] = {"dtype": "U8", "shape": [blocks, 16], "data_offsets": [start, start + 16 * blocks]}
        return header

    def body(self) -> bytes:
        return b"".join(content for _, _, content in self.tensors.values())

    def write(self, path: Path, header: dict[str, Any] | str | None = None) -> Path:
        """Write the file, with `header` in place of the true one where it is given."""
        header = self.header() if header is None else header
        text = (header if isinstance(header, str) else json.dumps(header)).encode("utf-8")
        path.write_bytes(with_digests(len(text).to_bytes(8, "little") + text + self.body()))
        return path


def with_digests(covered: bytes) -> bytes:
    """A file with its digests at its end."""
    blocks = [covered[start : start + 65536] for start in range(0, len(covered), 65536)]
    return covered + b"".join(hashlib.sha256(block).digest()[:16] for block in blocks)
