"""manifest.json: what the slices of a folder were made from, so that a run can go on and nothing is mixed up."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kdcode.bulk.settings import EncodeSettings
from kdcode.bulk.slices import Slice, cut
from kdcode.codec import Codec
from kdcode.errors import CheckpointError, KdcodeError, file_error
from kdcode.files import replacing
from kdcode.io import Reader

FILE_NAME = "manifest.json"
FORMAT = "kdcode-encode 1"


@dataclass(frozen=True)
class Part:
    """A part as it was when a run began.

    Args:
        name: as it was given.
        fingerprint: what changes when it does.
        rows: how many it has.
    """

    name: str
    fingerprint: str
    rows: int


@dataclass(frozen=True)
class Manifest:
    """All that decides the codes in a folder.

    Args:
        codebook: the digest of the codec.
        settings: how codes are searched for.
        has_symbols: whether rows have symbols, or else numbers.
        parts: what is encoded.
    """

    codebook: str
    settings: EncodeSettings
    has_symbols: bool
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, sources: Sequence[Reader], codec: Codec, settings: EncodeSettings) -> Manifest:
        """That of a run which begins now."""
        parts = tuple(Part(source.name, source.fingerprint(), len(source)) for source in sources)
        return cls(codec_digest(codec), settings, sources[0].has_symbols, parts)

    @cached_property
    def slices(self) -> list[Slice]:
        """In what pieces the parts are encoded."""
        return cut([part.rows for part in self.parts], self.settings.rows_per_slice)

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return sum(part.rows for part in self.parts)

    @cached_property
    def stamp(self) -> str:
        """What the file of each slice carries: a digest of all of this."""
        return hashlib.sha256(self._text().encode("utf-8")).hexdigest()

    def differences(self, other: Manifest) -> list[str]:
        """What is not the same in another manifest, in words, ours first."""
        found = []
        if self.codebook != other.codebook:
            found.append("the codebook is another")
        for name, value in asdict(self.settings).items():
            before = getattr(other.settings, name)
            if value != before:
                found.append(f"{name}= is {value}, and was {before}")
        ours, theirs = {part.name: part for part in self.parts}, {part.name: part for part in other.parts}
        found += [f"the part {name} is new" for name in ours if name not in theirs]
        found += [f"the part {name} is missing" for name in theirs if name not in ours]
        found += [
            f"the part {name} has changed" for name, part in ours.items() if name in theirs and part != theirs[name]
        ]
        if not found and self != other:
            found.append("the parts are in another order, or have symbols where they had none")
        return found

    def write(self, folder: Path) -> None:
        """Write it into a folder.

        Raises:
            FileError: it cannot be written.
        """
        path = folder / FILE_NAME
        try:
            with replacing(path) as temporary:
                temporary.write_text(self._text(), encoding="utf-8")
        except OSError as error:
            raise file_error(path, "written", error) from error

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """That of a folder; None where it has none.

        Raises:
            CheckpointError: it is damaged, or of another version.
            FileError: it cannot be read.
        """
        path = folder / FILE_NAME
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise file_error(path, "read", error) from error
        except UnicodeDecodeError:
            text = ""
        try:
            return cls._parsed(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, KdcodeError) as error:
            raise CheckpointError(
                f"{path}: not a manifest of this version of `kdcode encode`; name another folder, or give force= to "
                "start over"
            ) from error

    @classmethod
    def _parsed(cls, values: dict[str, Any]) -> Manifest:
        """A manifest from JSON values; work and memory stay in proportion to their text."""
        if values["format"] != FORMAT:
            raise ValueError(values["format"])
        parts = tuple(Part(str(part["name"]), str(part["fingerprint"]), part["rows"]) for part in values["parts"])
        if any(type(part.rows) is not int or part.rows < 0 for part in parts):
            raise ValueError("rows")
        settings = EncodeSettings(**values["settings"])
        # Slices are listed only where the file lists as many: a few bytes may claim any number of rows.
        if len(values["slices"]) != sum(-(-part.rows // settings.rows_per_slice) for part in parts):
            raise ValueError("slices")
        found = cls(str(values["codebook"]), settings, bool(values["has_symbols"]), parts)
        if values["slices"] != found._listed_slices():
            raise ValueError("slices")
        return found

    def _listed_slices(self) -> list[dict[str, Any]]:
        return [
            {
                "file": piece.file_name,
                "part": piece.part,
                "part_name": self.parts[piece.part].name,
                "start": piece.start,
                "stop": piece.stop,
                "first_row": piece.first_row,
            }
            for piece in self.slices
        ]

    def _text(self) -> str:
        values = {
            "format": FORMAT,
            "codebook": self.codebook,
            "settings": asdict(self.settings),
            "has_symbols": self.has_symbols,
            "parts": [asdict(part) for part in self.parts],
            "slices": self._listed_slices(),
        }
        return json.dumps(values, indent=1) + "\n"


def codec_digest(codec: Codec) -> str:
    """The SHA-256 of a codec: of its shape, and of its tensors as they are stored."""
    digest = hashlib.sha256(json.dumps(asdict(codec.spec), sort_keys=True).encode("utf-8"))
    for name, array in sorted(codec.tensors().items()):
        digest.update(name.encode("utf-8") + b"\0")
        digest.update(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).data)
    return digest.hexdigest()
