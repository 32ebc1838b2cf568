"""Which format a file has: by its name, and by its first bytes where names do not tell."""

from __future__ import annotations

from pathlib import Path

from kdcode.errors import FormatError
from kdcode.formats.blocks import first_bytes
from kdcode.formats.catalogue import FORMATS
from kdcode.formats.format import Format
from kdcode.formats.text_rows import Header

_HEAD_BYTES = 64
_ZIP_MAGIC = b"PK"
_PICKLE_MAGIC = b"\x80"  # files of torch before 1.6 are pickles


def detect_to_read(path: Path) -> Format:
    """The format of a file that is there."""
    candidates = _by_suffix(path)
    if len(candidates) == 1:
        return candidates[0]
    head = first_bytes(path, _HEAD_BYTES)
    names = {candidate.name for candidate in candidates}
    has_header = b"\n" in head and Header.parse(head.partition(b"\n")[0]) is not None
    if names == {"glove", "word2vec-text"}:
        return FORMATS["word2vec-text" if has_header else "glove"]
    if head.startswith((_ZIP_MAGIC, _PICKLE_MAGIC)):
        return FORMATS["torch"]
    if has_header:
        return FORMATS["word2vec-binary"]
    raise FormatError(
        f"{path}: expected a PyTorch file or word2vec binary, found neither in its first bytes; "
        "name the format with format="
    )


def detect_to_write(path: Path) -> Format:
    """The format that the name of a file asks for."""
    candidates = _by_suffix(path)
    return next((candidate for candidate in candidates if candidate.write is not None), candidates[0])


def _by_suffix(path: Path) -> list[Format]:
    name = path.name.lower()
    found = [format for format in FORMATS.values() if name.endswith(format.suffixes)]
    if found:
        return found
    if name.endswith(".kdc"):
        raise FormatError(f"{path}: a .kdc file is opened with kdcode.load and written with kdcode.save")
    known = ", ".join(f"{format.name} ({' '.join(format.suffixes)})" for format in FORMATS.values())
    raise FormatError(f"{path}: the name does not tell the format; name it with format=: {known}")
