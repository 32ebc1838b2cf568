"""The table of formats, and which of them a file has. A new format is a new file in this folder and a row here."""

from __future__ import annotations

from pathlib import Path

from kdcode.errors import FormatError
from kdcode.formats import npy, npz, parquet, safetensors_file, text, torch_file, word2vec_binary
from kdcode.formats.blocks import first_bytes
from kdcode.formats.format import Format
from kdcode.formats.text import Header

_LINES, _MATRICES = ("limit", "on_bad_line"), ("tensor", "symbols", "limit")
_COLUMNS = ("symbol_column", "vector_column", "limit")
_TXT = (".txt", ".txt.gz")
_PLAIN = (text.read_without_header, text.write_without_header)
_HEADED = (text.read_with_header, text.write_with_header)
_BINARY = (word2vec_binary.read, word2vec_binary.write)

_ROWS = (
    Format("glove", "GloVe text: a symbol and its numbers per line", _TXT, _LINES, *_PLAIN),
    Format("word2vec-text", "word2vec text: a header with rows and dimension, then as GloVe", _TXT, _LINES, *_HEADED),
    Format("word2vec-binary", "word2vec binary, as the GoogleNews vectors", (".bin", ".bin.gz"), _LINES, *_BINARY),
    Format("fasttext", "fastText .vec text", (".vec", ".vec.gz"), _LINES, *_HEADED),
    Format(
        "npy", "NumPy matrix, symbols in a text file beside it", (".npy",), ("symbols", "limit"), npy.read, npy.write
    ),
    Format("npz", "NumPy archive with the arrays vectors and symbols, or one matrix", (".npz",), _MATRICES, npz.read),
    Format("safetensors", "safetensors, one matrix of the file", (".safetensors",), _MATRICES, safetensors_file.read),
    Format(
        "parquet",
        "Parquet with a column of symbols and a column of lists",
        (".parquet", ".pq"),
        _COLUMNS,
        parquet.read,
        parquet.write,
        extra="parquet",
    ),
    Format(
        "torch",
        "PyTorch state dict, one matrix of it",
        (".pt", ".pth", ".bin"),
        _MATRICES,
        torch_file.read,
        extra="learn",
    ),
)

FORMATS: dict[str, Format] = {row.name: row for row in _ROWS}
"""Every format by name. Where two share a suffix, the first that can be written is what `write` takes."""

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
