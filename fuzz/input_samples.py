"""Good files in every format that kdcode reads, several of each kind, for `inputs.py` to damage."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import gguf
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file

import kdcode
from kdcode.io import FORMATS
from kdcode.table import VectorTable

ROWS, DIM = 12, 5
SYMBOLS = [f"w{row}" for row in range(ROWS - 3)] + ["é", "日本", "x-1"]
MATRIX = np.random.default_rng(0).standard_normal((ROWS, DIM)).astype(np.float32)

Array: TypeAlias = np.ndarray[Any, Any]

_HALF = torch.from_numpy(MATRIX).to(torch.bfloat16)
_LISTS = pa.array(MATRIX.tolist(), pa.list_(pa.float32()))


@dataclass(frozen=True)
class Sample:
    """A good file.

    Attributes:
        format: the name of its format.
        suffix: how its name ends.
        content: its bytes.
        symbols: those of its rows; None where it holds none.
        matrix: (N, d) its numbers as float32.
        options: what reading it needs.
    """

    format: str
    suffix: str
    content: bytes
    symbols: tuple[str, ...] | None
    matrix: Array
    options: tuple[tuple[str, Any], ...] = ()


def _written(name: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """A file of a format that kdcode writes, and the same gzipped where that is read too."""
    for suffix in FORMATS[name].suffixes:
        path = folder / f"{name}{suffix}"
        kdcode.write(VectorTable(SYMBOLS, MATRIX), path, format=name)
        yield suffix, path.read_bytes()


def _saved(folder: Path, save: Callable[..., Any], *values: Any, **options: Any) -> bytes:  # noqa: ANN401
    """What `save(*values, path, **options)` writes."""
    path = folder / "file"
    save(*values, path, **options)
    found = path if path.exists() else path.with_suffix(".npz")
    content = found.read_bytes()
    found.unlink()
    return content


def _numpy_samples(folder: Path) -> Iterator[Sample]:
    named = tuple(SYMBOLS)
    joined = np.frombuffer("\n".join(SYMBOLS).encode(), dtype=np.uint8)
    for symbols in (np.array(SYMBOLS), np.array([symbol.encode() for symbol in SYMBOLS]), joined):
        for save in (np.savez, np.savez_compressed):
            content = _saved(folder, save, vectors=MATRIX, symbols=symbols, ids=np.arange(3))
            yield Sample("npz", ".npz", content, named, MATRIX)
    yield Sample("npz", ".npz", _saved(folder, np.savez, a=np.asfortranarray(MATRIX)), None, MATRIX)
    for matrix in (np.asfortranarray(MATRIX), MATRIX.astype(np.float64), MATRIX.astype(">f4")):
        with (folder / "a.npy").open("wb") as stream:
            np.save(stream, matrix)
        yield Sample("npy", ".npy", (folder / "a.npy").read_bytes(), None, MATRIX)


def _torch_samples(folder: Path) -> Iterator[Sample]:
    tensor = torch.from_numpy(MATRIX)
    half = _HALF.float().numpy()
    state = {"embed.weight": tensor, "bias": torch.ones(3), "ids": torch.arange(4)}
    for zipped in (True, False):
        for value, matrix in ((tensor, MATRIX), (state, MATRIX), ({"a": {"b": _HALF}, "step": 3}, half)):
            content = _saved(folder, torch.save, value, _use_new_zipfile_serialization=zipped)
            yield Sample("torch", ".pt", content, None, matrix)
    turned = torch.nn.Parameter(tensor.T.contiguous().T)
    yield Sample("torch", ".bin", _saved(folder, torch.save, {"w": turned}), None, MATRIX)


def _safetensors_samples(folder: Path) -> Iterator[Sample]:
    tensor = torch.from_numpy(MATRIX)
    several = {"a": torch.ones(3), "w": _HALF, "ids": torch.ones(2, 2, dtype=torch.int64)}
    content = _saved(folder, save_file, several, metadata={"format": "pt", "note": "é"})
    yield Sample("safetensors", ".safetensors", content, None, _HALF.float().numpy())
    two = {"wte.weight": tensor, "other": torch.ones(4, 4)}
    content = _saved(folder, save_file, two)
    yield Sample("safetensors", ".safetensors", content, None, MATRIX, (("tensor", "wte.weight"),))


def _parquet_samples(folder: Path) -> Iterator[Sample]:
    names = pa.array(SYMBOLS)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(MATRIX.reshape(-1)), DIM)
    wide = [pa.array(MATRIX[:, column]) for column in range(DIM)]
    numbered = tuple(map(str, range(ROWS)))
    tables: list[tuple[dict[str, Any], tuple[str, ...] | None, dict[str, Any]]] = [
        ({"s": names, "v": _LISTS}, tuple(SYMBOLS), {}),
        ({"s": names.dictionary_encode(), "v": fixed}, tuple(SYMBOLS), {"compression": "zstd"}),
        ({"s": names.cast(pa.binary()), "v": _LISTS}, tuple(SYMBOLS), {"compression": "none", "row_group_size": 5}),
        ({"s": names, **{f"x{i}": column for i, column in enumerate(wide)}}, tuple(SYMBOLS), {"use_dictionary": False}),
        ({"v": _LISTS}, None, {"compression": "gzip", "data_page_version": "2.0"}),
    ]
    for columns, symbols, options in tables:
        content = _saved(folder, pq.write_table, pa.table(columns), **options)
        yield Sample("parquet", ".parquet", content, symbols, MATRIX)
    ids = pa.table({"id": pa.array(range(ROWS)), "v": _LISTS})
    content = _saved(folder, pq.write_table, ids)
    yield Sample("parquet", ".pq", content, numbered, MATRIX, (("symbol_column", "id"),))


def gguf_bytes(folder: Path, tensors: Mapping[str, tuple[Array, str]], tokens: Sequence[str | bytes] | None) -> bytes:
    """What the gguf package writes for (N, d) matrices, each stored as a type like Q8_0, and the tokens of a model."""
    path = folder / "file.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    if tokens is not None:
        writer.add_token_list(tokens)
        writer.add_token_scores([0.5] * len(tokens))
    for name, (matrix, kind) in tensors.items():
        stored = gguf.quants.quantize(matrix, gguf.GGMLQuantizationType[kind])
        writer.add_tensor(name, stored, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    content = path.read_bytes()
    path.unlink()
    return content


def _gguf_samples(folder: Path) -> Iterator[Sample]:
    named, norm = tuple(SYMBOLS), (np.ones((1, DIM), dtype=np.float32), "F32")
    for kind, matrix in (("F32", MATRIX), ("F16", MATRIX.astype(np.float16)), ("BF16", _HALF.float().numpy())):
        content = gguf_bytes(folder, {"token_embd.weight": (matrix, kind), "norm.weight": norm}, SYMBOLS)
        yield Sample("gguf", ".gguf", content, named, matrix.astype(np.float32))
    wide = np.random.default_rng(1).standard_normal((ROWS, 64)).astype(np.float32)
    for kind in ("Q8_0", "Q4_0", "Q4_1"):
        stored = gguf.quants.quantize(wide, gguf.GGMLQuantizationType[kind])
        matrix = gguf.quants.dequantize(stored, gguf.GGMLQuantizationType[kind])
        content = gguf_bytes(folder, {"w": (wide, kind)}, None)
        yield Sample("gguf", ".gguf", content, None, matrix, (("tensor", "w"),))


def _text_samples() -> Iterator[Sample]:
    rows = [",".join([symbol, *map(str, row)]) for symbol, row in zip(SYMBOLS, MATRIX, strict=True)]
    yield Sample("csv", ".csv", "\n".join(rows).encode(), tuple(SYMBOLS), MATRIX)
    lists = [f'"{symbol}","{row.tolist()}"' for symbol, row in zip(SYMBOLS, MATRIX, strict=True)]
    text = "\r\n".join(["word,vector", *lists]).encode()
    yield Sample("csv", ".csv", b"\xef\xbb\xbf" + text, tuple(SYMBOLS), MATRIX)
    yield Sample("csv", ".csv.gz", gzip.compress(text), tuple(SYMBOLS), MATRIX)
    spaced = [f"two words {' '.join(map(str, MATRIX[0]))}", f". . . {' '.join(map(str, MATRIX[1]))} "]
    yield Sample("glove", ".txt", "\n".join(spaced).encode(), ("two words", ". . ."), MATRIX[:2])
    header = f"{ROWS} {DIM}\n".encode()
    content = header + b"".join(
        symbol.encode() + b" " + row.tobytes() for symbol, row in zip(SYMBOLS, MATRIX, strict=True)
    )
    yield Sample("word2vec-binary", ".bin", content, tuple(SYMBOLS), MATRIX)


def _all() -> Iterator[Sample]:
    with TemporaryDirectory(prefix="kdcode-fuzz-") as name:
        folder = Path(name)
        for format in FORMATS.values():
            if format.write is not None:
                beside = "symbols" in format.options
                for suffix, content in _written(format.name, folder):
                    yield Sample(format.name, suffix, content, None if beside else tuple(SYMBOLS), MATRIX)
        yield from _numpy_samples(folder)
        yield from _torch_samples(folder)
        yield from _safetensors_samples(folder)
        yield from _parquet_samples(folder)
        yield from _gguf_samples(folder)
        yield from _text_samples()


SAMPLES = tuple(_all())
"""Every sample; each format of the catalogue has one or more."""
