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


FEEDBACK = {1: 0, 32: 0b10110, 64: 0b100110, 128: 0b1001001, 256: 0b10011001}
FORWARD = {1: 0, 32: 0b1000, 64: 0b10000, 128: 0b100000, 256: 0b1101000}
SIXTEENTHS = [round(2 ** (15 + i / 16)) for i in range(16)]


def transform_table(meta: dict, tensors: dict[str, np.ndarray]) -> tuple[list[list[int]], list[list[float]]]:
    """The codes (values, centroid, class, and sides after a leading one) and vectors of transform codes."""
    assert all(number > 0 for name in ("steps", "search") for number in tensors[name].tolist())
    matrix = rounded_rotation(meta, tensors) if meta["reflections"] else np.eye(meta["embedding_dim"])
    points, codes, vectors = centroids(meta, tensors), [], []
    for own, code, lies in transform_rows(meta, tensors):
        codes.append(code)
        found = np.array(lies) * float(tensors["steps"][own])
        if meta["centroids"]:
            found = found + points[code[meta["embedding_dim"]]]
        vectors.append((tensors["mean"].astype(np.float64) + matrix @ found).tolist())
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
    levels = Levels(meta, tensors)
    blocks = [
        (own, *levels.read(Decoder(content), own, len(content)))
        for own, content in block_bytes(slots[-1] // together + 1, meta, tensors)
    ]
    assert {slot // together for slot in slots} == set(range(len(blocks)))
    found = []
    for slot in slots:
        own, multiples, numbers, sides = blocks[slot // together]
        place = slot % together
        lies = [float(multiple) for multiple in multiples[place]] + [0.0] * (dim - levels.active)
        known = sides[place * levels.active : (place + 1) * levels.active]
        for i, above in enumerate(known):
            lies[i] += (1 if above else -1) * float(tensors["sides"][i]) / 128
        values = [2 * abs(multiple) - (multiple > 0) for multiple in multiples[place]] + [0] * (dim - levels.active)
        assert max(values) < meta["codebook_size"]
        number = [numbers[place]] if meta["centroids"] else []
        found.append((own, [*values, *number, own, int("1" + "".join(map(str, known)), 2)], lies))
    return found


def block_bytes(count: int, meta: dict, tensors: dict[str, np.ndarray]) -> list[tuple[int, bytes]]:
    """The class and the bytes of every block."""
    lengths = meta["lengths"]
    width = max(1, math.ceil(math.log2(len(lengths))))
    classes = [0] * count
    if len(lengths) > 1:
        classes = [own for packed in tensors["row_classes"] for own in bits(packed, [width] * 8)][:count]
    whole, at, found = tensors["codes"].tobytes(), 0, []
    for number, own in enumerate(classes):
        if len(lengths) > 1 and number % 256 == 0:
            assert tensors["row_starts"][number // 256] == at
        found.append((own, whole[at : at + lengths[own]]))
        at += lengths[own]
    assert at == len(whole)
    return found


def rounded_rotation(meta: dict, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """The matrix of the reflections, each of whose rows is rounded to int8 times a scale."""
    dim, numbers = meta["embedding_dim"], iter([n for packed in tensors["reflections"] for n in bits(packed, [4] * 8)])
    matrix = np.eye(dim)
    for j, scale in enumerate(tensors["reflection_scale"]):
        normal = np.zeros(dim)
        normal[j] = 1
        normal[j + 1 :] = [(next(numbers) - 8) * float(scale) for _ in range(dim - 1 - j)]
        matrix = matrix @ (np.eye(dim) - 2 * np.outer(normal, normal) / (normal @ normal))
    scales = (np.abs(matrix).max(axis=1) / 127).astype(np.float32).astype(np.float64)[:, None]
    return np.rint(matrix / scales) * scales


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
    return state >> 1 ^ state % 2 * FEEDBACK[states] ^ odd * FORWARD[states]


class Decoder:
    """The range decoder of one block; `trace` has the range, the code and the place of every symbol and bit."""

    def __init__(self, block: bytes) -> None:
        self.code, self.range, self.renewals, self.block = (
            int.from_bytes((block + bytes(3))[:3], "big"),
            2**24,
            0,
            block,
        )
        self.trace: list[tuple[int, int, int]] = []

    def symbol(self, sizes: list[int], places: int) -> int:
        """The number of a symbol, by the frequencies of all of them, which add up to 2^places."""
        unit = self.range >> places
        place, start, found = self.code // unit, 0, 0
        assert sum(sizes) == 2**places > place
        while place >= start + sizes[found]:
            start += sizes[found]
            found += 1
        self.trace.append((self.range, self.code, found))
        self.code, self.range = self.code - start * unit, sizes[found] * unit
        while self.range < 2**16:
            self.renewals += 1
            at = self.renewals + 2
            self.code = 256 * self.code + (self.block[at] if at < len(self.block) else 0)
            self.range *= 256
        return found

    def bit(self) -> int:
        """A bit."""
        return self.symbol([1, 1], 1)

    def sides(self, length: int, most: int) -> list[int]:
        """What is left of a block of so many bytes: the sides of so many coordinates at most."""
        left = 8 * (length - self.renewals) - 24 + self.range.bit_length() - 1
        assert left >= 0
        known = min(left, most)
        number = min(self.code // (self.range >> known), 2**known - 1)
        self.trace.append((self.range, self.code, number))
        return [number >> known - 1 - i & 1 for i in range(known)]


class Levels:
    """The levels of blocks, by the tables of a codec."""

    def __init__(self, meta: dict, tensors: dict[str, np.ndarray]) -> None:
        self.meta, self.tensors = meta, tensors
        self.groups = list(zip(tensors["group_sizes"].tolist(), tensors["group_contexts"].tolist(), strict=True))
        self.active = sum(size for size, _ in self.groups)
        assert len(self.groups) == meta["level_groups"]
        assert self.active <= meta["embedding_dim"]
        weights, self.marginals = tensors["weights"].tolist(), []
        for magnitude in tensors["magnitudes"].reshape(-1).tolist():
            self.marginals.append(marginal(weights[: magnitude + 2], meta["signs"]))
            weights = weights[magnitude + 2 :]
        assert not weights
        self.tables: dict[tuple[int, int, int], tuple[Table, Table]] = {}

    def read(self, decoder: Decoder, own: int, length: int) -> tuple[list[list[int]], list[int], list[int]]:
        """The multiples of each row of a block, its centroids, and the sides of the first coordinates."""
        state, multiples, numbers = 0, [], []
        for _ in range(self.meta["rows_per_block"]):
            if self.meta["centroids"]:
                numbers.append(decoder.symbol(self.tensors["centroid_frequencies"].tolist(), 15))
            row: list[int] = []
            for size, group_context in self.groups:
                assert size in (1, 2, 4)
                assert len(row) % 4 + size <= 4
                context = min(
                    max(group_context + int(self.tensors["class_contexts"][own]), 0), self.meta["contexts"] - 1
                )
                quantizers, later = [], state
                for _ in range(size):  # parities are felt four coordinates later at the soonest
                    quantizers.append(later % 2)
                    later = next_state(later, 0, self.meta["states"])
                found = self.group(decoder, context, quantizers)
                for multiple, quantizer in zip(found, quantizers, strict=True):
                    magnitude = (abs(multiple) + (quantizer if multiple else 0)) // 2
                    state = next_state(state, magnitude % 2, self.meta["states"])
                row += found
            multiples.append(row)
        return multiples, numbers, decoder.sides(length, min(12, self.active * len(multiples)))

    def group(self, decoder: Decoder, context: int, quantizers: list[int]) -> list[int]:
        """The multiples of a group, whose coordinates have quantizers."""
        order = sorted(range(len(quantizers)), key=lambda i: quantizers[i])
        sorted_ones = [quantizers[i] for i in order]
        main, tail = self.tables_of(context, len(order), sum(quantizers))
        found = main.read(decoder, 12) or tail.read(decoder, 15)
        if not found:
            found = tuple(value(decoder, self.marginals[2 * context + q]) for q in sorted_ones)
        multiples = [0] * len(order)
        for place, own, q in zip(order, found, sorted_ones, strict=True):
            multiples[place] = (1 if own % 2 else -1) * (2 * ((own + 1) // 2) - q) if own else 0
        return multiples

    def tables_of(self, context: int, size: int, ones: int) -> tuple[Table, Table]:
        """The main table and the tail of groups of a size, `ones` of whose coordinates have quantizer 1."""
        if (context, size, ones) not in self.tables:
            sizes = [self.marginals[2 * context + (i >= size - ones)] for i in range(size)]
            tuples = most_probable(sizes, 2 ** max(0, 15 * size - 20))
            main = [one for one in tuples if one[0] >= 7 * 2 ** (15 * size - 12) // 10][:255]
            tail = tuples[len(main) : len(main) + 1023]
            rest = 2 ** (15 * size) - sum(product for product, _ in main)
            self.tables[context, size, ones] = Table(main, 2 ** (15 * size), 12), Table(tail, rest, 15)
        return self.tables[context, size, ones]


class Table:
    """A table of tuples and an escape, of a product of their frequencies each and of a sum with the escape."""

    def __init__(self, tuples: list[tuple[int, tuple[int, ...]]], total: int, places: int) -> None:
        self.values = [values for _, values in tuples]
        products = [product for product, _ in tuples]
        self.sizes = share_out([*products, total - sum(products)], total, 2**places)

    def read(self, decoder: Decoder, places: int) -> tuple[int, ...] | None:
        """A tuple of values, or None for an escape."""
        found = decoder.symbol(self.sizes, places)
        return self.values[found] if found < len(self.values) else None


def marginal(weights: list[int], signs: bool) -> list[int]:
    """The frequencies of values by the weights of magnitudes."""
    count, wide = 2 * len(weights) - 2, [SIXTEENTHS[code % 16] << code // 16 for code in weights]
    each = 2 if signs else 1
    total = wide[0] + each * sum(wide[1:-1]) + wide[-1]
    sizes = [1 + weight * (2**15 - count) // total for weight in wide]
    found = [sizes[0], *(size * may_be for size in sizes[1:-1] for may_be in (1, each - 1)), sizes[-1]]
    found[found.index(max(found))] += 2**15 - sum(found)
    return found


def most_probable(sizes: list[list[int]], least: int) -> list[tuple[int, tuple[int, ...]]]:
    """The products and values of all tuples whose product is not below the least: the largest first."""
    orders = [
        sorted((v for v in range(len(own) - 1) if own[v] and v <= 126), key=lambda v, own=own: -own[v]) for own in sizes
    ]
    found: list[tuple[int, tuple[int, ...]]] = [(1, ())]
    for place, (own, order) in enumerate(zip(sizes, orders, strict=True)):
        most = math.prod(
            max((s[v] for v in o), default=0) for s, o in zip(sizes[place + 1 :], orders[place + 1 :], strict=True)
        )
        found = [
            (product * own[v], (*ranks, rank))
            for product, ranks in found
            for rank, v in enumerate(order)
            if product * own[v] * most >= least
        ]
    found.sort(key=lambda one: (-one[0], one[1]))
    return [
        (product, tuple(order[rank] for order, rank in zip(orders, ranks, strict=True))) for product, ranks in found
    ]


def share_out(counts: list[int], total: int, places: int) -> list[int]:
    """Frequencies of at least 1 that add up to a number of places, near those of the counts."""
    drop = 16 if total >= 2**44 else 0
    whole = max(1, total >> drop)
    found = [max(1, ((count >> drop) * places + whole // 2) // whole) for count in counts]
    while sum(found) != places:
        step = 1 if sum(found) < places else -1
        for i in range(len(found)):
            if sum(found) != places and (step > 0 or found[i] > 1):
                found[i] += step
    return found


def value(decoder: Decoder, sizes: list[int]) -> int:
    """A value by its marginal frequencies, and what an escaped one has beyond the escape."""
    found, ones, number = decoder.symbol(sizes, 15), 0, 1
    if found < len(sizes) - 1:
        return found
    while decoder.bit():
        ones += 1
        assert ones <= 17
    for _ in range(ones):
        number = 2 * number + decoder.bit()
    return found + number - 1


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
