"""Ways to damage files of other formats: their bytes as they lie, or what is in an archive, a header or a line."""

from __future__ import annotations

import gzip
import json
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable
from io import BytesIO
from random import Random
from typing import Any

import kdc_mutations
from input_samples import SAMPLES, Sample

NUMBERS = (b"-1", b"0", b"1", b"3", b"7", b"255", b"65537", b"2147483648", b"4294967296", b"999999999999999", b"9" * 25)
CELLS = (
    *(b"nan", b"inf", b"-Infinity", b"1e999", b"-1e-999", b"", b" ", b"0x10", b"1_0", b"1.5.2", b"+", b"e5", b"1e40"),
    *(b"\0", b"\r", b"\t", b'"', b'""', b"a\xffb", b"\xc2\x85", "\u2028".encode(), b"\xed\xa0\x80", b"1 2", b"1,2"),
    *(b"w0", b"7" * 5000, b"x" * 70_000, b'"' + b"x" * 140_000, b"[1, 2", b"]", b"\x1b[31m", b"5 5", b"2 99999999999"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, "", "F64", "BF16", "F33", [], {}, [1], [0, 0], [-24, 0], {"a": 1}, "\ud800", 1 << 62),
    *([1 << 40, 1 << 40], [1 << 40, 1 << 40, 0], [3, 20], [0, 240], [240, 480], "I64", "F8_E4M3"),
)
_PLAIN = ("flip", "set bytes", "truncate", "insert", "delete", "repeat", "swap")

Change = Callable[[Random, bytes], bytes]


def _bytes(random: Random, content: bytes) -> bytes:
    """Bytes as they lie."""
    if not content:
        return random.randbytes(8)
    return bytes(kdc_mutations.RAW[random.choice(_PLAIN)](random, bytearray(content)))


def _splice(random: Random, content: bytes) -> bytes:
    """The beginning of one file and the end of another."""
    other = random.choice(SAMPLES).content
    return content[: random.randrange(len(content) + 1)] + other[random.randrange(len(other)) :]


def _integer(random: Random, content: bytes) -> bytes:
    """Some bytes replaced by an integer of 2, 4 or 8 bytes, as lengths and counts are stored."""
    width = random.choice((2, 4, 8))
    number = random.choice((0, 1, 2, 255, 1 << 15, 1 << 30, (1 << 31) - 1, (1 << 32) - 1, 1 << 40, (1 << 64) - 1))
    place = random.randrange(max(1, len(content)))
    stored = (number % (1 << 8 * width)).to_bytes(width, random.choice(("little", "big")))
    return content[:place] + stored + content[place + width :]


def _number(random: Random, content: bytes) -> bytes:
    """A decimal number in the first few thousand bytes replaced by another."""
    found = list(re.finditer(rb"\d+", content[:4000]))
    if not found:
        return _bytes(random, content)
    chosen = random.choice(found[:8] if random.random() < 0.5 else found)
    return content[: chosen.start()] + random.choice(NUMBERS) + content[chosen.end() :]


def _cell(random: Random, content: bytes) -> bytes:
    """A field of a line replaced."""
    fields = re.split(rb"([ ,\t\n])", content)
    place = random.randrange(0, len(fields), 2)
    fields[place] = random.choice(CELLS)
    return b"".join(fields)


def _lines(random: Random, content: bytes) -> bytes:
    """Lines left out, repeated, swapped, joined, or ended in another way."""
    lines = content.split(b"\n")
    first, second = random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(6):
        case 0:
            del lines[first]
        case 1:
            lines.insert(second, lines[first])
        case 2:
            lines[first], lines[second] = lines[second], lines[first]
        case 3:
            lines[first] = b" ".join(lines[first : first + 2])
        case 4:
            lines.insert(first, random.choice((b"", b"\r", b" ", b"\0", *CELLS)))
        case _:
            return b"\r\n".join(lines)
    return b"\n".join(lines)


def _gzip(random: Random, content: bytes) -> bytes:
    """What a gzip file holds damaged, and packed again with the right checksum; or the packing damaged."""
    try:
        inside = gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        return gzip.compress(content, 1)
    match random.randrange(6):
        case 0:
            return content + random.choice((b"\0" * 9, b"trailing garbage", content))
        case 1:
            half = len(inside) // 2
            return gzip.compress(inside[:half]) + gzip.compress(inside[half:])
        case 2:
            return content[:-8] + random.randbytes(8)
        case 3:
            return content[: random.randrange(len(content))]
        case _:
            return gzip.compress(random.choice((_bytes, _number, _cell, _lines))(random, inside), 1)


def _zip(random: Random, content: bytes) -> bytes:
    """An entry of an archive damaged, renamed, left out or doubled, in an archive that is otherwise right."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            entries = [(name, archive.read(name)) for name in archive.namelist()]
    except Exception:
        entries = []
    if not entries:
        return _bytes(random, content)
    place = random.randrange(len(entries))
    name, data = entries[place]
    match random.randrange(8):
        case 0:
            del entries[place]
        case 1:
            entries.append((name, random.choice(entries)[1]))
        case 2:
            entries[place] = (
                random.choice(("vectors.npy", "symbols.npy", "a.npy", "x/data.pkl", "", "../a.npy")),
                data,
            )
        case 3:
            other = random.randrange(len(entries))
            entries[place], entries[other] = (name, entries[other][1]), (entries[other][0], data)
        case _:
            entries[place] = (name, random.choice((_bytes, _bytes, _integer, _number))(random, data))
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    method = random.choices(methods, (6, 3, 1, 1))[0]
    made = BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", method) as archive:
        warnings.simplefilter("ignore")  # about names that appear twice
        for name, data in entries:
            archive.writestr(name or "nameless", data)
    return made.getvalue()


def _json_header(random: Random, content: bytes) -> bytes:
    """The header of a safetensors file with a field changed, added, left out or doubled, and of the right length."""
    end = 8 + int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8:end])
        name = random.choice([*header, "__metadata__"])
        target = header.get(name) if random.random() < 0.8 else header
        if not isinstance(target, dict):
            target = header
        match random.randrange(5):
            case 0:
                target.pop(random.choice([*target, "dtype"]), None)
            case 1:
                target[random.choice(("", "more", "w", "__metadata__", "\u202e"))] = random.choice(
                    (*VALUES, *target.values())
                )
            case _:
                target[random.choice([*target, "shape"])] = random.choice(VALUES)
        text = json.dumps(header, ensure_ascii=random.random() < 0.5).encode("utf-8", "replace")
    except (ValueError, TypeError, AttributeError):
        return _bytes(random, content)
    if random.random() < 0.3:
        text = random.choice((_bytes, _number, _doubled))(random, text)
    return len(text).to_bytes(8, "little") + text + content[end:]


def _doubled(random: Random, text: bytes) -> bytes:
    """An entry of a JSON object written twice."""
    found = list(re.finditer(rb'"[^"]*": (\{[^{}]*\}|"[^"]*"|\[[^\]]*\])', text))
    if not found:
        return text
    chosen = random.choice(found)
    return text[: chosen.start()] + chosen[0] + b", " + text[chosen.start() :]


def _footer(random: Random, content: bytes) -> bytes:
    """The metadata at the end of a Parquet file, or a page header, damaged; the rest stays."""
    length = int.from_bytes(content[-8:-4], "little")
    start = len(content) - 8 - length
    if content[-4:] != b"PAR1" or not 0 < start < len(content):
        return _bytes(random, content)
    change = random.choice((_bytes, _integer))
    if random.random() < 0.5:
        footer = change(random, content[start:-8])
        return content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    return change(random, content[:start])[:start].ljust(start, b"\0") + content[start:]


def _npy_header(random: Random, content: bytes) -> bytes:
    """The header of an array with another type, order or shape."""
    pairs = (
        *(
            (b"<f4", kind)
            for kind in (b"<f8", b">f4", b"|O", b"<U4", b"<c8", b"|S0", b"<f16", b"<i2", b"<M8", b"[('a','<f4')]")
        ),
        (b"False", b"True"),
        (b"(12, 5)", b"(5, 12)"),
        (b"(12, 5)", b"(-12, -5)"),
        (b"(12, 5)", b"(60,)"),
        (b"(12, 5)", b"(2305843009213693952, 8)"),
        (b"(12, 5)", b"(12L, 5L)"),
        (b"descr", b"shape"),
        (b"{", b"{" * 90),
        (b"'shape'", b"-" * 50),
    )
    old, new = random.choice([pair for pair in pairs if pair[0] in content] or [(b"N", b"n")])
    return content.replace(old, new, 1)


def _gguf_header(random: Random, content: bytes) -> bytes:
    """The header of a GGUF file with a count, a length, a type or a key changed; the tensors stay where they are."""
    end = min(len(content), content.find(b"token_embd.weight") + 80)
    if random.random() < 0.4:
        old = random.choice((b"tokenizer.ggml.tokens", b"token_embd.weight", b"norm.weight", b"w0", b"w1", b"llama"))
        new = random.choice((b"general.alignment", b"w1", b"\xff\xfe", b"", b"norm.weight"))
        return content.replace(old, new[: len(old)].ljust(len(old), b"\0"), 1)
    return _integer(random, content[:end])[:end].ljust(end, b"\0") + content[end:]


ANY: tuple[Change, ...] = (_bytes, _bytes, _splice, _integer, _number, _gzip)
_TEXT: tuple[Change, ...] = (_cell, _cell, _lines, _number)
BY_FORMAT: dict[str, tuple[Change, ...]] = {
    "word2vec-binary": (_number, _integer),
    "npy": (_npy_header, _number),
    "npz": (_zip, _zip, _npy_header),
    "torch": (_zip, _zip, _integer),
    "safetensors": (_json_header, _json_header, _number),
    "parquet": (_footer, _footer, _footer),
    "gguf": (_gguf_header, _gguf_header, _integer),
}
"""The changes that know a format; those that have no row here are text."""


def damaged(random: Random, sample: Sample) -> tuple[str, bytes]:
    """The bytes of a sample with one to three changes, and the names of these."""
    content, names = sample.content, []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        own = BY_FORMAT.get(sample.format, _TEXT)
        change = random.choice(own if random.random() < 0.6 else ANY)
        packed = sample.suffix.endswith(".gz") and change not in ANY
        content = (_gzip if packed else change)(random, content)
        names.append(change.__name__.strip("_"))
    return "+".join(names), content
