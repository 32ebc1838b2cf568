"""Sizes of coded tables: what they take, part by part, and what they may take."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass

from kdcode.digests import digest_bytes
from kdcode.errors import OptionError

MAX_HEADER_BYTES = 4096
"""What a file's header, with its metadata, may take."""
LEARNED_HEADER_BYTES = 3584
"""What it takes at most where `compress` has made the table."""

_UNITS = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}


@dataclass(frozen=True)
class Sizes:
    """Bytes of a coded table, part by part. The same numbers are promised before learning and found in the file.

    Args:
        codes: packed codes, rows byte-aligned.
        codebook: codewords with their scales.
        composition: everything else that decoding needs: projection or rotation, LSTM weights, levels of row scales.
        symbols: compressed symbols and their index.
    """

    codes: int
    codebook: int
    composition: int
    symbols: int

    @property
    def learned_file(self) -> int:
        """The most that the file of a table takes that `compress` has made: its header and digests are added."""
        covered = self.total + LEARNED_HEADER_BYTES
        return covered + digest_bytes(covered)

    @property
    def embedding(self) -> int:
        """What replaces the N x d floats: codes, codebook and composition."""
        return self.codes + self.codebook + self.composition

    @property
    def total(self) -> int:
        """Everything but the file's header and digests."""
        return self.embedding + self.symbols

    def ratio(self, num_embeddings: int, embedding_dim: int) -> float:
        """How many times smaller than N x d float32 numbers, symbols left out on both sides."""
        return 4 * num_embeddings * embedding_dim / self.embedding

    def file_ratio(self, num_embeddings: int, embedding_dim: int, file_bytes: int) -> float:
        """How many times smaller the file is than float32 rows with the same stored symbols beside them."""
        return (4 * num_embeddings * embedding_dim + self.symbols) / file_bytes

    def as_dict(self) -> dict[str, int]:
        """The parts, their sum without symbols and their sum with them."""
        return {**asdict(self), "embedding": self.embedding, "total": self.total}


def memory_bytes(name: str, size: str | int) -> int:
    """The bytes of a size as people write it, such as 64MB or a number.

    Raises:
        OptionError: it is none; `name` is the option that it was given for.
    """
    number, unit = _number_and_unit(size)
    if number * _UNITS.get(unit, 0) < 1:
        raise OptionError(f"{name} must be a size like 64MB, 500KB or a number of bytes, got {size!r}")
    return int(number * _UNITS[unit])


def _number_and_unit(text: str | int) -> tuple[float, str]:
    """A size such as 20x or 1.5MiB in two parts; 0 where it is none."""
    found = None if isinstance(text, bool) else re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Z]*)\s*", str(text))
    return (float(found[1]), found[2].lower()) if found else (0.0, "")


@dataclass(frozen=True)
class SizeLimit:
    """How much a coded table may take; one of the three is given.

    Args:
        times: what replaces the vectors is to be this many times smaller than float32 rows; symbols left out.
        file_bytes: the file, with symbols and header, is to take no more than this.
        bits: a code, with the scale of its row, is to have no more bits than this.
    """

    times: float | None = None
    file_bytes: int | None = None
    bits: int | None = None

    @classmethod
    def parse(cls, text: str | int) -> SizeLimit:
        """Read a size as people write it: 20x (times smaller), 500KB, 1.5MiB, or bytes as a number.

        Raises:
            OptionError: it is neither, or a small number that could mean either.
        """
        number, unit = _number_and_unit(text)
        if not unit and 1 < number < MAX_HEADER_BYTES:
            raise OptionError(
                f"size must have a unit, got {text}: {number:g}x (times smaller) or {number:g}B (bytes of file)?"
            )
        if unit == "x" and number > 1:
            return cls(times=number)
        if number * _UNITS.get(unit, 0) >= 1:
            return cls(file_bytes=int(number * _UNITS[unit]))
        raise OptionError(f"size must be like 20x, 500KB, 2MiB or a number of bytes, got {text!r}")

    def allows(self, sizes: Sizes, ratio: float, bits: int) -> bool:
        """Whether a coded table is small enough: its sizes, its ratio to float32 rows, the bits of a code."""
        if self.times is not None:
            return ratio >= self.times
        if self.file_bytes is not None:
            return sizes.learned_file <= self.file_bytes
        return self.bits is None or bits <= self.bits

    def most_embedding(self, num_embeddings: int, embedding_dim: int, symbol_bytes: int) -> int | None:
        """The most bytes that may replace N x d floats; None where bits of a code are limited, and not bytes."""
        if self.times is not None:
            return math.floor(4 * num_embeddings * embedding_dim / self.times)
        if self.file_bytes is not None:
            return self.file_bytes - digest_bytes(self.file_bytes) - LEARNED_HEADER_BYTES - symbol_bytes
        return None

    def just_met(self, sizes: Sizes, ratio: float, bits: int) -> SizeLimit:
        """The strictest limit of the same kind that allows a coded table."""
        if self.times is not None:
            return SizeLimit(times=math.floor(10 * ratio) / 10)
        if self.file_bytes is not None:
            return SizeLimit(file_bytes=sizes.learned_file)
        return SizeLimit(bits=bits)

    def __str__(self) -> str:
        if self.times is not None:
            return f"{self.times:g}x"
        return f"{self.bits} bits" if self.file_bytes is None else f"{self.file_bytes:,} B"
