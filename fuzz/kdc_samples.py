"""Good .kdc files of every kind, which fuzzers damage."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sample_tables import KINDS, coded_table, words

import kdcode

ROWS = (0, 1, 5, 17, 130, 300)
"""A file of 0 rows is a codebook; a block of symbols holds 128."""
MANY_ROWS = 40_000
"""So that a file takes several digest blocks of 65,536 bytes."""
KINDS_OF_MANY = [
    *[("linear", "float32"), ("scaled-rotated", "int8"), ("lstm", "float16")],
    *[(kind, "float16") for kind in ("transform", "transform-blocks", "transform-centroids-blocks")],
]
ODD_SYMBOLS = ("", "ç", "\U0001f600", "new\nline", "a" * 300, "\x1b[31m", "a b", "0")


MADE: dict[bytes, Sample] = {}
"""The good files so far, by their bytes: what is put together from parts of two may be one of them."""


class Sample(NamedTuple):
    """A good file: its bytes and what it holds.

    Attributes:
        name: of the kind of table, with its number of rows.
        content: the bytes of the file.
        symbols: of its rows, in order.
        vectors: (rows, d) float32.
        weights: all numbers of the codec, one after another: all that a codebook has.
    """

    name: str
    content: bytes
    symbols: tuple[str, ...]
    vectors: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float32]

    @property
    def regions(self) -> dict[str, range]:
        """The bytes of the length of the header, of the header, and of every tensor."""
        start = 8 + int.from_bytes(self.content[:8], "little")
        header = json.loads(self.content[8:start])
        tensors = {
            name: range(start + entry["data_offsets"][0], start + entry["data_offsets"][1])
            for name, entry in header.items()
            if name != "__metadata__"
        }
        return {"length": range(8), "header": range(8, start), **tensors}


def any_sample(random: Random, *, large: bool = False) -> Sample:
    """One of the good files, small or of several digest blocks."""
    kind, dtype = random.choice(KINDS_OF_MANY if large else KINDS)
    return sample(kind, dtype, MANY_ROWS if large else random.choice(ROWS), named=random.random() < 0.7)


@functools.cache
def sample(kind: str, dtype: str, rows: int, *, named: bool) -> Sample:
    """A good file of a kind of table, with symbols or without."""
    symbols = [*ODD_SYMBOLS, *words(rows)][:rows] if named else None
    coded = coded_table(kind, dtype, rows=rows or 1, size=6, symbols=symbols or None, provenance={"learner": "none"})
    coded = coded if rows else coded.codebook()
    with TemporaryDirectory(prefix="kdcode-fuzz-") as folder:
        path = Path(folder, "t.kdc")
        kdcode.save(coded, path)
        content = path.read_bytes()
    vectors = coded.decode(np.arange(rows))
    MADE[content] = Sample(f"{kind} {dtype}, {rows} rows", content, tuple(coded.symbols), vectors, weights_of(coded))
    return MADE[content]


def weights_of(coded: kdcode.CodedTable) -> npt.NDArray[np.float32]:
    """All numbers of a codec, one after another."""
    return np.concatenate([array.reshape(-1).astype(np.float32) for _, array in sorted(coded.codec.tensors().items())])
