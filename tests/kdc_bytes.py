"""Files of the .kdc kind, taken apart and put together wrongly on purpose."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DTYPE_BYTES = {"U8": 1, "I8": 1, "U64": 8, "F16": 2, "F32": 4, "F64": 8}


@dataclass
class Parts:
    """A file in pieces. `tensors` maps a name to [dtype, shape, bytes]; `metadata` is an object or raw text."""

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
        }
        return cls(metadata, tensors)

    def header(self) -> dict[str, Any]:
        text = self.metadata if isinstance(self.metadata, str) else json.dumps(self.metadata)
        header: dict[str, Any] = {"__metadata__": {"kdcode": text}}
        start = 0
        for name, (dtype, shape, content) in self.tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, start + len(content)]}
            start += len(content)
        return {**header, **self.extra_header}

    def body(self) -> bytes:
        return b"".join(content for _, _, content in self.tensors.values())

    def write(self, path: Path, header: dict[str, Any] | str | None = None) -> Path:
        """Write the file, with `header` in place of the true one where it is given."""
        header = self.header() if header is None else header
        text = (header if isinstance(header, str) else json.dumps(header)).encode("utf-8")
        path.write_bytes(len(text).to_bytes(8, "little") + text + self.body())
        return path
