"""A reader of .kdc files written from docs/format.md alone, one number at a time: it knows nothing of kdcode."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from kdc_bytes import Parts

DTYPES = {"U8": "u1", "I8": "i1", "U16": "<u2", "U64": "<u8", "F16": "<f2", "F32": "<f4"}


def read(path: Path) -> tuple[list[str], list[list[int]], list[list[float]]]:
    """The symbols, codes and vectors of a file."""
    check_digests(path.read_bytes())
    parts = Parts.of(path)
    tensors = {
        name: np.frombuffer(content, dtype=DTYPES[dtype]).reshape(shape)
        for name, (dtype, shape, content) in parts.tensors.items()
    }
    meta = parts.metadata
    if meta["kind"] == "transform":
        codes, vectors = transform_table(meta, tensors)
        return symbols(tensors, len(codes)), codes, vectors
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


PARITY_CHECKS = {1: (0, 0), 4: (0b101, 0b010), 8: (0b1011, 0b0100), 16: (0b10011, 0b00100), 32: (0b100101, 0b001000)}


def transform_table(meta: dict, tensors: dict[str, np.ndarray]) -> tuple[list[list[int]], list[list[float]]]:
    """The codes (values, centroid, class, and sides after a leading one) and vectors of transform codes."""
    assert all(number > 0 for name in ("steps", "search") for number in tensors[name].tolist())
    rotation = reflections(meta, tensors) if meta["reflections"] else []
    points, codes, vectors = centroids(meta, tensors), [], []
    for own, code, lies in transform_rows(meta, tensors):
        codes.append(code)
        step, mean = float(tensors["steps"][own]), tensors["mean"].astype(np.float64).tolist()
        vector = [x * step for x in lies]
        if meta["centroids"]:
            vector = [x + y for x, y in zip(vector, points[code[meta["embedding_dim"]]], strict=True)]
        for normal in reversed(rotation):
            along = 2 * sum(x * y for x, y in zip(vector, normal, strict=True)) / sum(x * x for x in normal)
            vector = [x - along * y for x, y in zip(vector, normal, strict=True)]
        vectors.append([x + y for x, y in zip(vector, mean, strict=True)])
    return codes, vectors


def transform_rows(meta: dict, tensors: dict[str, np.ndarray]) -> list[tuple[int, list[int], list[float]]]:
    """The class, the code and the coordinates of every row, from its slot in a block of rows."""
    count, together, dim = meta["num_embeddings"], meta["rows_per_block"], meta["embedding_dim"]
    if not count:
        assert not {"codes", "row_classes", "row_starts", "row_breaks"} & set(tensors)
        return []
    breaks = tensors["row_breaks"].tolist() if together > 1 else [[0, 0]]
    slots, ahead = [], dict(breaks)
    for row in range(count):
        slots.append(ahead.get(row, slots[-1] + 1 if slots else -1))
    assert breaks[0][0] == 0
    assert all(before < after for before, after in itertools.pairwise(slots))
    blocks = [
        (own, *transform_block(content, own, meta, tensors))
        for own, content in block_bytes(slots[-1] // together + 1, meta, tensors)
    ]
    assert {slot // together for slot in slots} == set(range(len(blocks)))
    found = []
    for slot in slots:
        own, values, numbers, states, known, lies = blocks[slot // together]
        some = slice(slot % together * dim, (slot % together + 1) * dim)
        number = [numbers[slot % together]] if meta["centroids"] else []
        state = [states[some][0]] if together > 1 else []
        sides = int("1" + "".join(map(str, known[some])), 2)
        found.append((own, [*values[some], *number, *state, own, sides], lies[some]))
    return found


def block_bytes(count: int, meta: dict, tensors: dict[str, np.ndarray]) -> list[tuple[int, bytes]]:
    """The class and the bytes of every block."""
    lengths = meta["lengths"]
    if len(lengths) == 1:
        assert tensors["codes"].shape == (count, lengths[0])
        return [(0, row.tobytes()) for row in tensors["codes"]]
    width = max(1, math.ceil(math.log2(len(lengths))))
    classes = [own for packed in tensors["row_classes"] for own in bits(packed, [width] * 8)][:count]
    whole, at, found = tensors["codes"].tobytes(), 0, []
    for number, own in enumerate(classes):
        if number % 256 == 0:
            assert tensors["row_starts"][number // 256] == at
        found.append((own, whole[at : at + lengths[own]]))
        at += lengths[own]
    assert at == len(whole)
    return found


def reflections(meta: dict, tensors: dict[str, np.ndarray]) -> list[list[float]]:
    """The vectors that are reflected at."""
    dim, width = meta["embedding_dim"], meta["reflection_bits"]
    numbers = iter([number for packed in tensors["reflections"] for number in bits(packed, [width] * 8)])
    return [
        [0.0] * j + [1.0] + [(next(numbers) - 2 ** (width - 1)) * float(scale) for _ in range(dim - 1 - j)]
        for j, scale in enumerate(tensors["reflection_scale"])
    ]


def centroids(meta: dict, tensors: dict[str, np.ndarray]) -> list[list[float]]:
    """The points that rows are measured from."""
    if not meta["centroids"]:
        assert not {"centroids", "centroid_scales", "centroid_frequencies"} & set(tensors)
        return []
    dim, width, scales = meta["embedding_dim"], meta["centroid_bits"], tensors["centroid_scales"].tolist()
    assert tensors["centroids"].shape == (meta["centroids"], math.ceil(dim * width / 8))
    assert min(scales) >= 0
    return [
        [(number - 2 ** (width - 1)) * scale for number, scale in zip(bits(packed, [width] * dim), scales, strict=True)]
        for packed in tensors["centroids"]
    ]


def next_state(state: int, odd: int, states: int) -> int:
    """The state after a level."""
    feedback, forward = PARITY_CHECKS[states]
    found = state >> 1
    for bit in range(states.bit_length() - 1):
        changed = (state & 1) * (feedback >> bit + 1 & 1) ^ odd * (forward >> bit + 1 & 1)
        found ^= changed << bit
    return found


class Decoder:
    """The arithmetic decoder of one row; `trace` has the range, the code and what was read, for each value and bit."""

    def __init__(self, row: bytes) -> None:
        self.code, self.range, self.renewals, self.row = int.from_bytes((row + bytes(4))[:4], "big"), 2**32, 0, row
        self.trace: list[tuple[int, int, int]] = []

    def value(self, sizes: list[int]) -> int:
        """A value, by the frequencies of all of them."""
        unit = self.range // 2**15
        place, start, found = self.code // unit, 0, 0
        assert place < 2**15
        while place >= start + sizes[found]:
            start += sizes[found]
            found += 1
        self.trace.append((self.range, self.code, found))
        self._narrow(start * unit, sizes[found] * unit)
        return found

    def bit(self) -> int:
        """A bit."""
        half = self.range // 2
        found = int(self.code >= half)
        self.trace.append((self.range, self.code, found))
        self._narrow(half * found, half)
        return found

    def _narrow(self, low: int, span: int) -> None:
        self.code, self.range = self.code - low, span
        assert self.code < self.range
        while self.range < 2**24:
            self.renewals += 1
            place = self.renewals + 3
            self.code = 256 * self.code + (self.row[place] if place < len(self.row) else 0)
            self.range *= 256


def transform_block(
    content: bytes, own: int, meta: dict, tensors: dict[str, np.ndarray], decoder: Decoder | None = None
) -> tuple[list[int], list[int], list[int], list[int], list[float]]:
    """The values of a block, its centroids, the states before values, known sides, and the coordinates in steps."""
    decoder = decoder or Decoder(content)
    dim, states, values, numbers, lies, contexts = meta["embedding_dim"], [0], [], [], [], []
    levels = dim * meta["rows_per_block"]
    magnitudes = tensors["magnitudes"].reshape(-1).tolist()
    for i in range(levels):
        if meta["centroids"] and i % dim == 0:
            own_sizes = tensors["centroid_frequencies"].tolist()
            assert min(own_sizes) >= 1
            assert sum(own_sizes) == 2**15
            numbers.append(decoder.value(own_sizes))
        state = states[-1]
        moved = int(tensors["coordinate_contexts"][i % dim]) + int(tensors["class_contexts"][own])
        context, quantizer = min(max(moved, 0), meta["contexts"] - 1), state % 2
        table = 2 * context + quantizer
        first = sum(magnitudes[:table]) + 2 * table
        own_sizes = tensors["frequencies"][first : first + magnitudes[table] + 2].tolist()
        assert min(own_sizes) >= 1
        signs = (1, 1 if meta["signs"] else 0)
        sizes = [own_sizes[0], *(size * may_be for size in own_sizes[1:-1] for may_be in signs), own_sizes[-1]]
        assert sum(sizes) == 2**15
        value = decoder.value(sizes)
        if value == len(sizes) - 1:
            value += excess(decoder)
        assert value < meta["codebook_size"]
        size = (value + 1) // 2
        moved_by = float(tensors["shifts"].reshape(-1)[table]) / 512
        lies.append((1 if value % 2 else -1) * (2 * size - quantizer - moved_by) if value else 0.0)
        values.append(value)
        contexts.append(context)
        states.append(next_state(state, size % 2, meta["states"]))
    left = 8 * (meta["lengths"][own] - decoder.renewals) - 32 + decoder.range.bit_length() - 1
    assert left >= 0
    known = [decoder.bit() for _ in range(min(left, 16, levels))]
    for i, above in enumerate(known):
        lies[i] += (1 if above else -1) * float(tensors["sides"][contexts[i]]) / 128
    return values, numbers, states, known, lies


def excess(decoder: Decoder) -> int:
    """What an escaped value has beyond the escape."""
    ones = 0
    while decoder.bit():
        ones += 1
        assert ones <= 17
    number = 1
    for _ in range(ones):
        number = 2 * number + decoder.bit()
    return number - 1


def symbols(tensors: dict[str, np.ndarray], count: int) -> list[str]:
    """The symbols in row order."""
    if "symbols.blocks" not in tensors:
        return [str(row) for row in range(count)]
    strings, shared = symbol_codes(tensors["symbols.strings"].tobytes())
    content = tensors["symbols.blocks"].tobytes()
    width = math.ceil(math.log2(len(content) + 1))
    heads, starts = zip(*(bits(row, [width] * 2) for row in tensors["symbols.starts"]), strict=True)
    assert heads[0] == 0
    assert heads[-1] == starts[0]
    assert starts[-1] == len(content)
    ranked: list[bytes] = []
    for block in range(math.ceil(count / 32)):
        head = content[heads[block] : heads[block + 1]]
        assert not ranked or head > ranked[-1]
        stream = "".join(f"{byte:08b}" for byte in content[starts[block] : starts[block + 1]])
        for place in range(min(32, count - 32 * block)):
            symbol = head
            if place:
                number, stream = next_code(shared, stream)
                if number == 255:
                    number, stream = int(stream[:16], 2), stream[16:]
                assert number <= len(ranked[-1])
                symbol = ranked[-1][:number]
            while not symbol.endswith(b"\xff"):
                string, stream = next_code(strings, stream)
                if not string:
                    string, stream = bytes([int(stream[:8], 2)]), stream[8:]
                symbol += string
            symbol = symbol[:-1]
            if place:
                assert symbol > ranked[-1]
                assert symbol[: number + 1] != ranked[-1][: number + 1]  # it shares no more bytes
            ranked.append(symbol)
        assert len(stream) < 8
        assert not stream.strip("0")
    order = [
        row for packed in tensors["symbols.order"] for row in bits(packed, [max(1, math.ceil(math.log2(count)))] * 8)
    ]
    named = [""] * count
    for rank, row in enumerate(order[:count]):
        named[row] = ranked[rank].decode()
    return named


def symbol_codes(stored: bytes) -> tuple[dict[str, bytes], dict[str, int]]:
    """What the codes of strings and of numbers of shared bytes stand for, each code as text of 0 and 1."""
    number, place = int.from_bytes(stored[:2], "little"), 2
    strings = []
    for _ in range(number):
        length = stored[place] // 16
        strings.append((stored[place] % 16, stored[place + 1 : place + 1 + length]))
        place += 1 + length
    assert all(0xFF not in string[:-1] for _, string in strings)
    return codes_of(strings), codes_of(list(zip(stored[place::2], stored[place + 1 :: 2], strict=True)))


def codes_of(entries: list[tuple[int, Any]]) -> dict[str, Any]:
    """The entry of each code, from the lengths of codes in the order they are given out."""
    codes, code, before = {}, -1, entries[0][0]
    for length, entry in entries:
        code = (code + 1) << (length - before)
        before = length
        assert 1 <= length <= 12
        assert code < 2**length
        codes[f"{code:0{length}b}"] = entry
    return codes


def next_code(codes: dict[str, Any], stream: str) -> tuple[Any, str]:
    """What the next code stands for, and what follows it."""
    length = next(length for length in range(1, 13) if stream[:length] in codes)
    return codes[stream[:length]], stream[length:]
