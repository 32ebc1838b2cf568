"""Symbols of any bits, lawful or not, written from docs/format.md without the core."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kdcode.symbols import StoredSymbols

STRINGS = bytes([3, 0, 0xF1, *b"a" * 15, 0x02, 0x12, 0xFF]) + bytes([1, 0, 1, 255])
"""Strings: 0 is fifteen a, 10 a byte that follows, 11 is FF. Shared bytes: 0 is none, 1 a number of 16 bits."""

Symbols = list[tuple[int, bytes]]
"""How many bytes a symbol shares with the one before (with the head, of which there is no number), and the others."""


def block_of(symbols: Symbols) -> bytes:
    """The codes of a block."""
    bits = []
    for place, (shared, text) in enumerate(symbols):
        bits += ["" if place == 0 else f"1{shared:016b}" if shared else "0"]
        rest = text
        while rest:
            many = rest.startswith(b"a" * 15)
            bits += ["0" if many else f"10{rest[0]:08b}"]
            rest = rest[15 if many else 1 :]
        bits += ["11"]
    stream = "".join(bits)
    stream += "0" * (-len(stream) % 8)
    return bytes(int(stream[place : place + 8], 2) for place in range(0, len(stream), 8))


def packed(rows: list[list[int]], width: int) -> np.ndarray[Any, Any]:
    """Rows of values of so many bits."""
    size = math.ceil(len(rows[0]) * width / 8)
    numbers = [sum(value << width * place for place, value in enumerate(row)) for row in rows]
    return np.array([list(number.to_bytes(size, "little")) for number in numbers], dtype=np.uint8)


def starts_of(lengths: list[tuple[int, int]]) -> np.ndarray[Any, Any]:
    """Where heads and blocks begin, from their lengths."""
    heads, blocks = (np.cumsum([0, *each]).tolist() for each in zip(*lengths, strict=True))
    places = [[head, heads[-1] + block] for head, block in zip(heads, blocks, strict=True)]
    return packed(places, math.ceil(math.log2(places[-1][1] + 1)))


def stored(
    blocks: list[tuple[bytes, Symbols | bytes]], count: int, order: list[int] | None = None, **how: Any
) -> StoredSymbols:
    """Stored symbols of heads with their blocks, as symbols or as bytes; ranks have their own rows unless told."""
    coded = [(head, block if isinstance(block, bytes) else block_of(block)) for head, block in blocks]
    rows = list(range(count)) if order is None else order
    rows += [0] * (-len(rows) % 8)
    eights = [rows[start : start + 8] for start in range(0, len(rows), 8)]
    content = b"".join(head for head, _ in coded) + b"".join(block for _, block in coded)
    arrays = {
        "strings": np.frombuffer(how.pop("strings", STRINGS), dtype=np.uint8),
        "blocks": np.frombuffer(content, dtype=np.uint8),
        "starts": starts_of([(len(head), len(block)) for head, block in coded]),
        "order": packed(eights, max(1, (count - 1).bit_length())),
    }
    return StoredSymbols(count, {**arrays, **how.pop("arrays", {})}, **how)
