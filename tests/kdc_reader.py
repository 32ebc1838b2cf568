"""A reader of .kdc files written from docs/format.md alone, one number at a time: it knows nothing of kdcode."""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from pathlib import Path

import numpy as np
from kdc_bytes import Parts

DTYPES = {"U8": "u1", "I8": "i1", "U64": "<u8", "F16": "<f2", "F32": "<f4"}


def read(path: Path) -> tuple[list[str], list[list[int]], list[list[float]]]:
    """The symbols, codes and vectors of a file."""
    check_digests(path.read_bytes())
    parts = Parts.of(path)
    tensors = {
        name: np.frombuffer(content, dtype=DTYPES[dtype]).reshape(shape)
        for name, (dtype, shape, content) in parts.tensors.items()
    }
    meta = parts.metadata
    size, length = meta["codebook_size"], meta["code_length"]
    levels = tensors.get("scale_levels", np.ones(1, dtype=np.float32))
    widths = [max(1, math.ceil(math.log2(size)))] * length
    if "scale_levels" in tensors:
        widths.append(int(math.log2(len(levels))))
    assert ("codes" in tensors) == (meta["num_embeddings"] > 0)  # a codebook has neither codes nor symbols
    assert meta["num_embeddings"] or "symbols.blocks" not in tensors
    codes = [bits(row, widths) for row in tensors.get("codes", ())]
    compose = lstm if meta["kind"] == "lstm" else block_sum
    vectors = []
    for code in codes:
        words = [scaled(tensors, "codebook", position)[code[position]] for position in range(length)]
        coordinates = compose(words, meta, tensors)
        if "basis" in tensors:
            rows = [scaled(tensors, "basis", row) for row in range(meta["inner_dim"])]
            coordinates = [
                sum(x * row[column] for x, row in zip(coordinates, rows, strict=True))
                for column in range(meta["embedding_dim"])
            ]
        vectors.append([x * float(levels[code[-1] if "scale_levels" in tensors else 0]) for x in coordinates])
    return symbols(tensors, len(codes)), codes, vectors


def check_digests(raw: bytes) -> None:
    """Every block of 65,536 bytes before the digests has the digest of its number."""
    length = int.from_bytes(raw[:8], "little")
    start, end = json.loads(raw[8 : 8 + length])["digests"]["data_offsets"]
    covered, digests = raw[: 8 + length + start], raw[8 + length + start : 8 + length + end]
    assert 8 + length + end == len(raw)
    for number in range(math.ceil(len(covered) / 65536)):
        block = covered[65536 * number : 65536 * (number + 1)]
        assert hashlib.sha256(block).digest()[:16] == digests[16 * number : 16 * (number + 1)]


def bits(row: np.ndarray, widths: list[int]) -> list[int]:
    """The values of a packed row."""
    number, values = int.from_bytes(row.tobytes(), "little"), []
    for width in widths:
        values.append(number % 2**width)
        number //= 2**width
    return values


def scaled(tensors: dict[str, np.ndarray], name: str, index: int) -> list:
    """One leading index of a tensor, times its scale, as Python floats."""
    scale = float(tensors[f"{name}_scale"].reshape(-1)[index]) if f"{name}_scale" in tensors else 1.0
    return (tensors[name][index].astype(np.float64) * scale).tolist()


def block_sum(words: list[list[float]], meta: dict, _: dict[str, np.ndarray]) -> list[float]:
    """Blocks of coordinates, each the sum of its positions' codewords."""
    groups, coordinates, first = meta["groups"], [], 0
    for block in range(groups):
        positions, width = (
            math.ceil(count / groups) if block < count % groups else count // groups
            for count in (meta["code_length"], meta["inner_dim"])
        )
        chosen = words[first : first + positions]
        coordinates += [sum(word[column] for word in chosen) for column in range(width)]
        first += positions
    return coordinates


def lstm(words: list[list[float]], meta: dict, tensors: dict[str, np.ndarray]) -> list[float]:
    """The sum of the hidden states of an LSTM over the codewords."""
    units = range(meta["inner_dim"])
    weight, bias = (tensors[name].astype(np.float64).tolist() for name in ("recurrent", "bias"))
    h, m, total = ([0.0 for _ in units] for _ in range(3))

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    for word in words:
        f, i, o, c = (
            [word[z] + sum(weight[gate][z][y] * h[y] for y in units) + bias[gate][z] for z in units]
            for gate in range(4)
        )
        m = [sigmoid(f[z]) * m[z] + sigmoid(i[z]) * math.tanh(c[z]) for z in units]
        h = [sigmoid(o[z]) * math.tanh(m[z]) for z in units]
        total = [total[z] + h[z] for z in units]
    return total


def symbols(tensors: dict[str, np.ndarray], count: int) -> list[str]:
    """The symbols in row order."""
    if "symbols.blocks" not in tensors:
        return [str(row) for row in range(count)]
    starts = [0, *tensors["symbols.ends"].tolist()]
    raw = tensors["symbols.blocks"].tobytes()
    texts = [zlib.decompress(raw[starts[block] : starts[block + 1]], wbits=-15) for block in range(len(starts) - 1)]
    ranked = [symbol.decode() for text in texts for symbol in text[:-1].split(b"\xff")]
    width = max(1, math.ceil(math.log2(count)))
    order = [row for packed in tensors["symbols.order"] for row in bits(packed, [width] * 8)][:count]
    named = [""] * count
    for rank, row in enumerate(order):
        named[row] = ranked[rank]
    return named
