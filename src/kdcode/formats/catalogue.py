"""The table of formats. A new format is a new file in this folder and a row here."""

from __future__ import annotations

from functools import partial

from kdcode.formats import (
    csv_file,
    gguf_file,
    matrices,
    npy,
    npz,
    parquet,
    safetensors_file,
    text,
    torch_file,
    word2vec_binary,
)
from kdcode.formats.format import Format

_ANY = ("limit", "max_expansion")
_LINES, _MATRICES = ("on_bad_line", *_ANY), ("tensor", "symbols", *_ANY)
_COLUMNS = ("symbol_column", "vector_column", *_ANY)
_TXT = (".txt", ".txt.gz")
_PLAIN = (text.read_without_header, text.write_without_header)
_HEADED = (text.read_with_header, text.write_with_header)
_BINARY = (word2vec_binary.read, word2vec_binary.write)


def _separated(name: str, what: str, delimiter: str) -> Format:
    """CSV and its like."""
    described = f"{what}: a symbol and a column per number, with a header or without"
    read, write = partial(csv_file.read, delimiter=delimiter), partial(csv_file.write, delimiter=delimiter)
    return Format(name, described, (f".{name}", f".{name}.gz"), (*_COLUMNS, "on_bad_line"), read, write, is_text=True)


_ROWS = (
    Format("glove", "GloVe text: a symbol and its numbers per line", _TXT, _LINES, *_PLAIN, is_text=True),
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
        npy.read,
        npy.write,
        symbols_beside=matrices.written_beside,
    ),
    Format("npz", "NumPy archive with the arrays vectors and symbols, or one matrix", (".npz",), _MATRICES, npz.read),
    Format(
        "safetensors",
        "safetensors: one matrix of the file, symbols in a text file beside it",
        (".safetensors",),
        _MATRICES,
        safetensors_file.read,
        safetensors_file.write,
        symbols_beside=matrices.written_beside,
    ),
    Format(
        "parquet",
        "Parquet: a column of symbols and a column of lists, or a column per number",
        (".parquet", ".pq"),
        _COLUMNS,
        parquet.read,
        parquet.write,
        extra="parquet",
    ),
    Format("torch", "PyTorch state dict, one matrix of it", (".pt", ".pth", ".bin"), _MATRICES, torch_file.read),
    Format(
        "gguf",
        "GGUF model of llama.cpp: one matrix, float or quantised, with the tokens of the model",
        (".gguf",),
        _MATRICES,
        gguf_file.read,
        extra="gguf",
    ),
)

FORMATS: dict[str, Format] = {row.name: row for row in _ROWS}
"""Every format by name. Where two share a suffix, the first that can be written is what `write` takes."""
