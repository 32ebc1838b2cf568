"""The table of formats. A new format is a new file in this folder and a row here."""

from __future__ import annotations

from kdcode.formats import (
    fasttext,
    glove,
    npy,
    npz,
    parquet,
    safetensors_file,
    torch_file,
    word2vec_binary,
    word2vec_text,
)
from kdcode.formats.format import Format

_ROWS = (
    Format(
        "glove",
        "GloVe text: a symbol and its numbers per line",
        (".txt", ".txt.gz"),
        read=glove.read,
        options=("limit", "on_bad_line"),
        write=glove.write,
    ),
    Format(
        "word2vec-text",
        "word2vec text: a header with rows and dimension, then as GloVe",
        (".txt", ".txt.gz"),
        read=word2vec_text.read,
        options=("limit", "on_bad_line"),
        write=word2vec_text.write,
    ),
    Format(
        "word2vec-binary",
        "word2vec binary, as the GoogleNews vectors",
        (".bin", ".bin.gz"),
        read=word2vec_binary.read,
        options=("limit", "on_bad_line"),
        write=word2vec_binary.write,
    ),
    Format(
        "fasttext",
        "fastText .vec text",
        (".vec", ".vec.gz"),
        read=fasttext.read,
        options=("limit", "on_bad_line"),
        write=fasttext.write,
    ),
    Format(
        "npy",
        "NumPy matrix, symbols in a text file beside it",
        (".npy",),
        read=npy.read,
        options=("symbols", "limit"),
        write=npy.write,
    ),
    Format(
        "npz",
        "NumPy archive with the arrays vectors and symbols, or one matrix",
        (".npz",),
        read=npz.read,
        options=("tensor", "symbols", "limit"),
    ),
    Format(
        "safetensors",
        "safetensors, one matrix of the file",
        (".safetensors",),
        read=safetensors_file.read,
        options=("tensor", "symbols", "limit"),
    ),
    Format(
        "parquet",
        "Parquet with a column of symbols and a column of lists",
        (".parquet", ".pq"),
        read=parquet.read,
        options=("symbol_column", "vector_column", "limit"),
        write=parquet.write,
        extra="parquet",
    ),
    Format(
        "torch",
        "PyTorch state dict, one matrix of it",
        (".pt", ".pth", ".bin"),
        read=torch_file.read,
        options=("tensor", "symbols", "limit"),
        extra="learn",
    ),
)

FORMATS: dict[str, Format] = {row.name: row for row in _ROWS}
"""Every format by name. Where two share a suffix, the first that can be written is what `write` takes."""
