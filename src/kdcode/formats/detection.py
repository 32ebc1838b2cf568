"""Which format a file has: by its name, and by its first bytes where the name leaves a choice or says nothing."""

from __future__ import annotations

import zipfile
from pathlib import Path

from kdcode.errors import FormatError
from kdcode.formats.blocks import first_bytes
from kdcode.formats.catalogue import FORMATS
from kdcode.formats.csv_columns import DELIMITERS
from kdcode.formats.format import Format
from kdcode.formats.text import SAMPLE_LINES, Header, guess_dimension, trailing_numbers

_HEAD_BYTES = 1 << 16
_ZIP_MAGIC = b"PK\x03\x04"
_MAGIC = {
    b"\x80": "torch",  # files of torch before 1.6 are pickles
    b"\x93NUMPY": "npy",
    b"PAR1": "parquet",
    b"GGUF": "gguf",
}
"""How files of a format begin."""
_OWN = "this is a compressed table already: kdcode.load opens it, and `kdcode expand` writes its vectors"


def detect_to_read(path: Path) -> Format:
    """The format of a file that is there.

    Raises:
        FormatError: neither name nor content tell.
    """
    candidates = _by_suffix(path)
    if len(candidates) == 1:
        return candidates[0]
    head = first_bytes(path, _HEAD_BYTES)
    found = _by_content(path, head)
    if not candidates:
        if not head:
            raise FormatError(f"{path}: the file is empty, expected at least one row")
        if found is None:
            raise _unknown(path, "neither name nor content tell the format")
        return FORMATS[found]
    names = [candidate.name for candidate in candidates]
    if "glove" in names:
        return FORMATS["word2vec-text" if _header(head) else found if found in ("csv", "tsv") else "glove"]
    if found in names:
        return FORMATS[found]
    if _header(head) is not None:
        return FORMATS["word2vec-binary"]
    raise FormatError(
        f"{path}: expected a PyTorch file or word2vec binary, found neither in its first bytes; "
        "name the format with format="
    )


def is_own(path: Path) -> bool:
    """Whether a file that is there is a .kdc file, by its name or its first bytes."""
    return path.name.lower().endswith(".kdc") or _is_own_head(first_bytes(path, _HEAD_BYTES))


def _is_own_head(head: bytes) -> bool:
    return head[8:9] == b"{" and b'"kdcode"' in head


def detect_to_write(path: Path) -> Format:
    """The format that the name of a file asks for.

    Raises:
        FormatError: it asks for none.
    """
    candidates = _by_suffix(path)
    if not candidates:
        raise _unknown(path, "the name does not tell the format")
    return next((candidate for candidate in candidates if candidate.write is not None), candidates[0])


def _by_suffix(path: Path) -> list[Format]:
    name = path.name.lower()
    if name.endswith(".kdc"):
        raise FormatError(f"{path}: {_OWN}")
    return [format for format in FORMATS.values() if name.endswith(format.suffixes)]


def _unknown(path: Path, why: str) -> FormatError:
    known = ", ".join(f"{format.name} ({' '.join(format.suffixes)})" for format in FORMATS.values())
    return FormatError(f"{path}: {why}; name it with format=: {known}")


def _by_content(path: Path, head: bytes) -> str | None:
    """The name of the format that the first bytes of a file look like, or None."""
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= path.stat().st_size:
        if _is_own_head(head):
            raise FormatError(f"{path}: {_OWN}")
        return "safetensors"
    if head.startswith(_ZIP_MAGIC):
        return _in_zip(path)
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    return _text_format(head)


def _in_zip(path: Path) -> str:
    """What a zip file holds: arrays of numpy, or else what torch saves."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "npz" if any(name.endswith(".npy") for name in archive.namelist()) else "torch"
    except Exception:  # damage ends in any of a dozen exceptions
        return "torch"  # which then says what is wrong


def _text_format(head: bytes) -> str | None:
    """The name of the format that text has, or None if it has no numbers where a table would."""
    whole = head if len(head) < _HEAD_BYTES else head[: head.rfind(b"\n") + 1]
    lines = [line for line in whole.split(b"\n")[: SAMPLE_LINES + 1] if line.strip()]
    if header := _header(head):
        rest = head.partition(b"\n")[2]
        second = rest.partition(b"\n")[0]
        is_text = trailing_numbers(second) >= header.dim or (second == rest and b"\0" not in rest)
        return "word2vec-text" if is_text else "word2vec-binary"
    if not lines:
        return None
    dim = guess_dimension(lines)
    by_delimiter = {mark: guess_dimension(lines[1:] or lines, mark.encode()) for mark in DELIMITERS}
    best = max(by_delimiter, key=lambda mark: by_delimiter[mark])
    if by_delimiter[best] >= max(dim, 1):
        return "tsv" if best == "\t" else "csv"
    return "glove" if dim else None


def _header(head: bytes) -> Header | None:
    """The header of word2vec in the first line."""
    line, end, _ = head.partition(b"\n")
    return Header.parse(line) if end else None
