"""The table of formats, and which of them a file has. A new format is a new file in this folder and a row here."""

from __future__ import annotations

import zipfile
from functools import partial
from pathlib import Path

from kdcode.errors import FormatError, OptionError
from kdcode.io import csv_file, gguf_file, matrices, numpy_files, parquet, safetensors_file, text, torch_file
from kdcode.io.format import Format, whole
from kdcode.io.lines import first_bytes
from kdcode.io.places import Place
from kdcode.io.text import SAMPLE_LINES, Header, guess_dimension, trailing_numbers

_ANY = ("limit", "max_expansion")
_LINES, _MATRICES = ("on_bad_line", *_ANY), ("tensor", "symbols", *_ANY)
_COLUMNS = ("symbol_column", "vector_column", *_ANY)
_TXT = (".txt", ".txt.gz")
_GLOVE = (whole(text.read_glove), text.write_glove)
_HEADED = (whole(text.read_headed), text.write_headed)
_BINARY = (whole(text.read_binary), text.write_binary)


def _separated(name: str, what: str, delimiter: str) -> Format:
    """A format of fields with a delimiter."""
    described = f"{what}: a symbol and a column per number, with a header or without"
    read, write = whole(partial(csv_file.read, delimiter=delimiter)), partial(csv_file.write, delimiter=delimiter)
    return Format(name, described, (f".{name}", f".{name}.gz"), (*_COLUMNS, "on_bad_line"), read, write, is_text=True)


_ROWS = (
    Format("glove", "GloVe text: a symbol and its numbers per line", _TXT, _LINES, *_GLOVE, is_text=True),
    Format(
        "word2vec-text",
        "word2vec text: a header with rows and dimension, then as GloVe",
        _TXT,
        _LINES,
        *_HEADED,
        is_text=True,
    ),
    Format("word2vec-binary", "word2vec binary, as the GoogleNews vectors", (".bin", ".bin.gz"), _LINES, *_BINARY),
    Format("fasttext", "fastText .vec text", (".vec", ".vec.gz"), _LINES, *_HEADED, is_text=True),
    _separated("csv", "comma-separated values", ","),
    _separated("tsv", "tab-separated values", "\t"),
    Format(
        "npy",
        "NumPy matrix, symbols in a text file beside it",
        (".npy",),
        ("symbols", *_ANY),
        numpy_files.open_npy,
        numpy_files.write_npy,
        in_parts=True,
        symbols_beside=matrices.written_beside,
    ),
    Format(
        "npz",
        "NumPy archive with the arrays vectors and symbols, or one matrix",
        (".npz",),
        _MATRICES,
        whole(numpy_files.read_npz),
    ),
    Format(
        "safetensors",
        "safetensors: one matrix of the file, symbols in a text file beside it",
        (".safetensors",),
        _MATRICES,
        safetensors_file.open_file,
        safetensors_file.write,
        in_parts=True,
        symbols_beside=matrices.written_beside,
    ),
    Format(
        "parquet",
        "Parquet: a column of symbols and a column of lists, or a column per number",
        (".parquet", ".pq"),
        _COLUMNS,
        parquet.open_file,
        parquet.write,
        extra="parquet",
        in_parts=True,
    ),
    Format(
        "torch",
        "PyTorch state dict, one matrix of it",
        (".pt", ".pth", ".bin"),
        _MATRICES,
        whole(torch_file.read),
        extra="torch",
    ),
    Format(
        "gguf",
        "GGUF model of llama.cpp: one matrix, float or quantised, with the tokens of the model",
        (".gguf",),
        _MATRICES,
        whole(gguf_file.read),
        extra="gguf",
    ),
)

FORMATS: dict[str, Format] = {row.name: row for row in _ROWS}
"""Every format by name. Where two share a suffix, `write` takes the first that can be written."""

IN_PARTS = tuple(row.name for row in _ROWS if row.in_parts)
"""The formats whose Readers read any rows without reading the whole file."""

_HEAD_BYTES = 1 << 16
_ZIP_MAGIC = b"PK\x03\x04"
_MAGIC = {
    b"\x80": "torch",  # files of torch before 1.6 are pickles
    b"\x93NUMPY": "npy",
    b"PAR1": "parquet",
    b"GGUF": "gguf",
}
"""The first bytes of formats."""
_OWN = "this is a compressed table already: kdcode.load opens it, and `kdcode expand` writes its vectors"


def detect_to_read(path: Path) -> Format:
    """The format of a file, by its name, or by its first bytes where the name leaves a choice.

    Raises:
        FormatError: neither tells.
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


def named_format(name: str) -> Format:
    """The format that `format=` names.

    Raises:
        OptionError: there is none of this name.
    """
    if name not in FORMATS:
        raise OptionError(f"there is no format {name!r}; the formats are {', '.join(FORMATS)}")
    return FORMATS[name]


def detect_part(place: Place) -> Format:
    """The format of a file that is read in parts, by its name, or else by its first bytes.

    Raises:
        FormatError: its rows cannot be read in parts.
    """
    named = [name for name in IN_PARTS if place.name.lower().endswith(FORMATS[name].suffixes)]
    if not named:
        with place.opened() as stream:
            head = stream.read(16)
        named = (
            ["safetensors"] if head[8:9] == b"{" else [name for magic, name in _MAGIC.items() if head.startswith(magic)]
        )
    if not named or named[0] not in IN_PARTS:
        raise FormatError(
            f"{place.name}: its rows cannot be read in parts; {', '.join(IN_PARTS)} files can: "
            "convert it with kdcode.write(kdcode.read(path), 'table.npy')"
        )
    return FORMATS[named[0]]


def is_own(path: Path) -> bool:
    """Whether an existing file is a .kdc file, by its name or its first bytes."""
    return path.name.lower().endswith(".kdc") or _is_own_head(first_bytes(path, _HEAD_BYTES))


def _is_own_head(head: bytes) -> bool:
    return head[8:9] == b"{" and b'"kdcode"' in head


def detect_to_write(path: Path) -> Format:
    """The format that the name of a file stands for.

    Raises:
        FormatError: it stands for none.
    """
    candidates = _by_suffix(path)
    if not candidates:
        raise _unknown(path, "its name does not tell the format")
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
    """The name of the format of a zip file: "npz" if it holds arrays of numpy, else "torch"."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "npz" if any(name.endswith(".npy") for name in archive.namelist()) else "torch"
    except Exception:  # damage ends in any of a dozen exceptions
        return "torch"  # reading it says what is wrong


def _text_format(head: bytes) -> str | None:
    """The name of the format of a text, or None if it has no numbers where a table has them."""
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
    by_delimiter = {mark: guess_dimension(lines[1:] or lines, mark.encode()) for mark in csv_file.DELIMITERS}
    best = max(by_delimiter, key=lambda mark: by_delimiter[mark])
    if by_delimiter[best] >= max(dim, 1):
        return "tsv" if best == "\t" else "csv"
    return "glove" if dim else None


def _header(head: bytes) -> Header | None:
    """The word2vec header in the first line, or None."""
    line, end, _ = head.partition(b"\n")
    return Header.parse(line) if end else None
