"""Ways to damage a .kdc file: its bytes as they lie, or its parts, with digests made for what came of them."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from math import prod
from random import Random
from typing import Any

import numpy as np
from kdc_bytes import DTYPE_BYTES, Parts
from kdc_samples import Sample, any_sample

from kdcode import bitpack
from kdcode._core import SymbolBuilder, pack_starts
from kdcode.errors import StorageError
from kdcode.symbols import StoredSymbols, start_bits, symbols_text

COUNTS = (-1, 0, 1, 2, 3, 7, 8, 255, 256, 65_536, 65_537, 2**31, 2**32, 2**40, 2**63, 2**64, 10**30)
FLOATS = (0.0, -0.0, 1e-45, 1e-38, 1.0, -1.0, 65_504.0, 1e19, 3.4e38, -3.4e38, float("inf"), float("nan"))
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1e400,
    "",
    "1",
    "float32",
    "lstm",
    "block-sum",
    "transform",
    [],
    {},
    [1],
    {"a": 1},
    "\ud800",
)


# Bytes as they lie


def _flip(random: Random, content: bytearray) -> bytearray:
    for _ in range(random.randint(1, 8)):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    return content


def _set_bytes(random: Random, content: bytearray) -> bytearray:
    start = random.randrange(len(content))
    for place in range(start, min(len(content), start + random.choice((1, 2, 8, 64)))):
        content[place] = random.choice((0, 255, random.randrange(256)))
    return content


def _truncate(random: Random, content: bytearray) -> bytearray:
    return content[: random.randrange(len(content))]


def _insert(random: Random, content: bytearray) -> bytearray:
    place = random.choice((0, len(content), random.randrange(len(content))))
    return content[:place] + random.randbytes(random.choice((1, 8, 16, 100))) + content[place:]


def _delete(random: Random, content: bytearray) -> bytearray:
    start = random.randrange(len(content))
    return content[:start] + content[start + random.choice((1, 8, 16, 100)) :]


def _repeat(random: Random, content: bytearray) -> bytearray:
    start = random.randrange(len(content))
    end = start + random.choice((1, 8, 16, 100))
    return content[:end] + content[start:end] + content[end:]


def _swap(random: Random, content: bytearray) -> bytearray:
    width = random.choice((1, 8, 16, 64))
    first, second = (random.randrange(max(1, len(content) - width)) for _ in range(2))
    here, there = content[first : first + width], content[second : second + width]
    content[first : first + width], content[second : second + width] = there, here
    return content


def _splice(random: Random, content: bytearray) -> bytearray:
    other = any_sample(random).content
    cut = random.randrange(min(len(content), len(other)))
    return content[:cut] + other[cut:]


def _edit_length(random: Random, content: bytearray) -> bytearray:
    length = int.from_bytes(content[:8], "little")
    new = random.choice((0, 1, length - 1, length + 1, length * 2, len(content), 2**31, 2**63, 2**64 - 1))
    content[:8] = (new % 2**64).to_bytes(8, "little")
    return content


def _edit_header_number(random: Random, content: bytearray) -> bytearray:
    end = 8 + int.from_bytes(content[:8], "little")
    header = bytes(content[8:end])
    numbers = list(re.finditer(rb"\d+", header))
    if not numbers:
        return content
    number = random.choice(numbers)
    new = str(random.choice((*COUNTS, int(number[0]) + random.choice((-1, 1))))).encode()
    header = header[: number.start()] + new + header[number.end() :]
    if random.random() < 0.5:  # a header that fits its length again
        return content[:8] + header.rstrip(b" ").ljust(end - 8) + content[end:]
    return bytearray(len(header).to_bytes(8, "little")) + header + content[end:]


def _edit_header_text(random: Random, content: bytearray) -> bytearray:
    end = 8 + int.from_bytes(content[:8], "little")
    header = bytes(content[8:end])
    old, new = random.choice(
        (
            (b'"codes"', b'"codez"'),
            (b"__metadata__", b"__metadatA__"),
            (b"F32", b"F64"),
            (b"U8", b"I8"),
            (b"}", b"]"),
            (b":", b","),
            (b'\\"', b'"'),
            (b"[", b"[[[[[["),
            (b"digests", b"codes"),
            (b"}", b'},"codes":{}'),
            (b" ", b"\xff"),
            (b"data_offsets", b"data_offset"),
        )
    )
    header = header.replace(old, new, 1)
    return bytearray(len(header).to_bytes(8, "little")) + header + content[end:]


RAW: dict[str, Callable[[Random, bytearray], bytearray]] = {
    "flip": _flip,
    "set bytes": _set_bytes,
    "truncate": _truncate,
    "insert": _insert,
    "delete": _delete,
    "repeat": _repeat,
    "swap": _swap,
    "splice": _splice,
    "length": _edit_length,
    "header number": _edit_header_number,
    "header text": _edit_header_text,
}


def damaged_bytes(random: Random, good: Sample) -> tuple[str, bytes]:
    """The bytes of a file with one or two changes, and their names."""
    names = random.choices(list(RAW), k=random.choice((1, 1, 2)))
    content = bytearray(good.content)
    for name in names:
        if 0 < int.from_bytes(content[:8], "little") < len(content) - 8:  # a header that can be changed again
            content = RAW[name](random, content)
    return "+".join(names), bytes(content)


# Parts, with digests made anew


def _metadata_value(random: Random, parts: Parts) -> None:
    field = random.choice(list(parts.metadata))
    old = parts.metadata[field]
    if isinstance(old, list) and old and random.random() < 0.7:
        place = random.randrange(len(old))
        old[place] = random.choice((*COUNTS, old[place] + 1, old[place] - 1))
    elif isinstance(old, int) and random.random() < 0.7:
        parts.metadata[field] = random.choice((*COUNTS, old + 1, old - 1, old * 2, float(old)))
    else:
        parts.metadata[field] = random.choice(VALUES)


def _metadata_key(random: Random, parts: Parts) -> None:
    if random.random() < 0.5:
        del parts.metadata[random.choice(list(parts.metadata))]
    else:
        parts.metadata[random.choice(("more", "", "codes", "\u202e"))] = random.choice(VALUES)


def _provenance(random: Random, parts: Parts) -> None:
    deep: Any = random.choice(VALUES)
    for _ in range(random.choice((1, 5, 31, 33, 200))):
        deep = [deep] if random.random() < 0.5 else {"a": deep}
    long = "x" * random.choice((10, 1000, 3000, 5000))
    parts.metadata["provenance"] = random.choice(
        ({"a": deep}, deep, {long: 1}, {"a": long}, {"relative_error": 10**400})
    )


def _metadata_text(random: Random, parts: Parts) -> None:
    text = json.dumps(parts.metadata)
    place = random.randrange(len(text))
    changes = (
        text[:place],
        text + " ",
        text + "x",
        text[:-1] + ',"format":1}',
        f"[{text}]",
        text[:place] + text[place + 1 :],
    )
    parts.metadata = random.choice(changes)


def _shape(random: Random, parts: Parts) -> None:
    tensor = parts.tensors[random.choice(list(parts.tensors))]
    shape = list(tensor[1])
    axis = random.randrange(len(shape))
    change = random.choice(("one", "swap", "flat", "more", "resize"))
    if change == "one":
        shape[axis] = random.choice((*COUNTS, shape[axis] + 1, shape[axis] - 1))
    elif change == "swap":
        random.shuffle(shape)
    elif change == "flat":
        shape = [prod(shape)]
    elif change == "more":
        shape.insert(axis, 1)
    else:  # and its bytes too
        shape[axis] = max(0, shape[axis] + random.choice((-1, 1)))
        wanted = min(prod(shape) * DTYPE_BYTES[tensor[0]], 2 * len(tensor[2]))
        tensor[2] = (tensor[2] + bytes(wanted))[:wanted]
    tensor[1] = shape


def _dtype(random: Random, parts: Parts) -> None:
    tensor = parts.tensors[random.choice(list(parts.tensors))]
    old, tensor[0] = tensor[0], random.choice(("U8", "I8", "U16", "U64", "F16", "F32", "F64", "BF16", "BOOL", "", "u8"))
    if random.random() < 0.5 and tensor[0] in DTYPE_BYTES:  # a shape that fits again
        tensor[1] = [*tensor[1][:-1], max(1, tensor[1][-1] * DTYPE_BYTES[old] // DTYPE_BYTES[tensor[0]])]


def _tensor_set(random: Random, parts: Parts) -> None:
    name = random.choice(list(parts.tensors))
    change = random.choice(("remove", "rename", "add", "order"))
    if change == "remove":
        del parts.tensors[name]
    elif change == "rename":
        parts.tensors[random.choice(("basis", "codes", "bias", "more", "", "symbols.order"))] = parts.tensors.pop(name)
    elif change == "add":
        parts.tensors[random.choice(("basis", "scale_levels", "more"))] = list(parts.tensors[name])
    else:
        names = list(parts.tensors)
        random.shuffle(names)
        parts.tensors = {each: parts.tensors[each] for each in names}


def _offsets(random: Random, parts: Parts) -> None:
    """Wrong places of tensors; the digests cover the header that says so."""
    entries = parts.header()
    one, other = (random.choice([name for name in entries if name != "__metadata__"]) for _ in range(2))
    start, end = entries[one]["data_offsets"]
    places = random.choice(
        (
            entries[other]["data_offsets"],
            [start + 1, end + 1],
            [start - 1, end],
            [end, start],
            [start, end, end],
            [start, 2**63],
            [-1, end],
            [start, float(end)],
            None,
        )
    )
    parts.extra_header[one] = {**entries[one], "data_offsets": places}


def _codes(random: Random, parts: Parts) -> None:
    """Any bits for codes: some are lawful, and give other vectors."""
    content = bytearray(parts.tensors["codes"][2])
    for _ in range(random.choice((1, 3, len(content)))):
        content[random.randrange(len(content))] = random.randrange(256)
    parts.tensors["codes"][2] = bytes(content)


def _numbers(random: Random, parts: Parts) -> None:
    """Other numbers in the weights: ordinary ones, and those at the ends of their type."""
    names = [name for name, tensor in parts.tensors.items() if tensor[0] in ("F32", "F16", "I8")]
    tensor = parts.tensors[random.choice(names)]
    content = bytearray(tensor[2])
    for _ in range(random.choice((1, 2, 5))):
        value = random.choice(FLOATS) if random.random() < 0.3 else random.uniform(-2, 2)
        width = DTYPE_BYTES[tensor[0]]
        place = width * random.randrange(len(content) // width)
        try:
            new = struct.pack({4: "<f", 2: "<e", 1: "<b"}[width], value if width > 1 else random.randrange(-128, 128))
        except OverflowError:
            continue
        content[place : place + width] = new
    tensor[2] = bytes(content)


def _levels(random: Random, parts: Parts) -> None:
    """Levels of row scales, sorted or not, and as large as can be."""
    if "scale_levels" in parts.tensors:
        count = len(parts.tensors["scale_levels"][2]) // 4
        values = [random.choice((0.0, 1.0, 1e30, 3e38, random.random())) for _ in range(count)]
        parts.tensors["scale_levels"][2] = struct.pack(
            f"<{count}f", *(sorted(values) if random.random() < 0.7 else values)
        )


def _integers(random: Random, parts: Parts) -> None:
    """Other whole numbers in what transform codes have: classes and starts of rows, contexts, tables, centroids."""
    names = [name for name in parts.tensors if name in INTEGERS]
    tensor = parts.tensors[random.choice(names)]
    kind = {"U8": "B", "I8": "b", "U16": "H", "U64": "Q"}[tensor[0]]
    count = len(tensor[2]) // DTYPE_BYTES[tensor[0]]
    numbers = list(struct.unpack(f"<{count}{kind}", tensor[2]))
    for _ in range(random.choice((1, 2, 5))):
        place = random.randrange(count)
        change = random.choice(("near", "any", "swap", "move"))
        other = random.randrange(count)
        if change == "near":
            numbers[place] += random.choice((-1, 1))
        elif change == "any":
            numbers[place] = random.choice((0, 1, 127, 255, 32_767, 65_535, 2**63, 2**64 - 1, random.randrange(256)))
        elif change == "swap":
            numbers[place], numbers[other] = numbers[other], numbers[place]
        else:  # from one to another, so that sums stay what they are
            numbers[place] += 2
            numbers[other] -= 2
    tensor[2] = struct.pack(f"<{count}{kind}", *numbers)  # numbers that its type cannot hold leave it as it was


INTEGERS = (
    *("row_classes", "row_starts", "row_breaks", "group_sizes", "group_contexts", "class_contexts", "magnitudes"),
    *("weights", "sides", "reflections", "centroids", "centroid_frequencies"),
)


def _symbol_text(random: Random, parts: Parts) -> None:
    """Other symbols, or broken ones, in their stored form: in other rows, unsorted, repeated, too many or too few."""
    if "symbols.blocks" not in parts.tensors:
        return
    arrays = {}
    for name in ("strings", "blocks", "starts", "order"):
        _, shape, content = parts.tensors[f"symbols.{name}"]
        arrays[name] = np.frombuffer(content, dtype=np.uint8).reshape(shape)
    stored = StoredSymbols(parts.metadata["num_embeddings"], arrays)
    texts = [symbol for symbol, _ in stored.ranked()]
    place = random.randrange(len(texts))
    change = random.choice(("other", "unsorted", "repeated", "fewer", "more", "not UTF-8", "long"))
    if change == "other":
        texts[place] += random.choice((b"", b"a", "é".encode()))
    elif change == "unsorted":
        random.shuffle(texts)
    elif change == "repeated":
        texts[place] = texts[place - 1]
    elif change == "fewer":
        del texts[place]
    elif change == "more":
        texts.insert(place, b"more")
    elif change == "not UTF-8":
        texts[place] = b"\xc3"
    elif change == "long":
        texts[-1] = texts[-1] + b"z" * random.choice((1000, 65_535, 65_536, 1 << 20))
    builder = SymbolBuilder(len(texts))
    text = symbols_text(texts)
    builder.survey(text)  # whatever is wrong
    strings = builder.learn()
    builder.write(text)
    builder.finish()
    heads, blocks, starts = builder.take()
    bits = start_bits(len(heads + blocks))
    packed = pack_starts(starts, len(heads), bits)
    row = bitpack.row_bytes([bits, bits])
    parts.tensors["symbols.strings"] = ["U8", [len(strings)], strings]
    parts.tensors["symbols.blocks"] = ["U8", [len(heads + blocks)], heads + blocks]
    parts.tensors["symbols.starts"] = ["U8", [len(packed) // row, row], packed]


def _symbol_bytes(random: Random, parts: Parts) -> None:
    """Any bytes in one of the symbol tensors."""
    names = [name for name in parts.tensors if name.startswith("symbols.")]
    if names:
        tensor = parts.tensors[random.choice(names)]
        content = bytearray(tensor[2])
        for _ in range(random.choice((1, 2, 8))):
            content[random.randrange(len(content))] = random.choice((0, 255, random.randrange(256)))
        tensor[2] = bytes(content)


LAWFUL: dict[str, Callable[[Random, Parts], None]] = {
    "metadata value": _metadata_value,
    "metadata key": _metadata_key,
    "provenance": _provenance,
    "shape": _shape,
    "dtype": _dtype,
    "tensor set": _tensor_set,
    "offsets": _offsets,
    "codes": _codes,
    "numbers": _numbers,
    "levels": _levels,
    "integers": _integers,
    "symbol text": _symbol_text,
    "symbol bytes": _symbol_bytes,
    "metadata text": _metadata_text,
}


def changed_parts(random: Random, parts: Parts) -> str:
    """Change one or two parts of a file in place, and say which."""
    names = random.choices(list(LAWFUL), k=random.choice((1, 1, 2)))
    for name in sorted(names, key=list(LAWFUL).index):  # the text of the metadata is changed last
        if parts.tensors and "codes" in parts.tensors and isinstance(parts.metadata, dict) and parts.metadata:
            # The first of two changes may leave no place for the second.
            with suppress(struct.error, ValueError, StorageError, LookupError, TypeError):
                LAWFUL[name](random, parts)
    return "+".join(names)
