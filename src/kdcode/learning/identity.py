"""The identity of a run: its settings and its vectors, the same for any number of ranks that have these."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from kdcode._version import __version__
from kdcode.learning.row_share import BLOCK_ROWS, RowShare
from kdcode.table import VectorTable

_DIGEST_END = 1 << 256


class TableContent(NamedTuple):
    """What a table holds, in few bytes: N, d, whether rows have weights, and a digest of all rows.

    The digest is the sum of those of blocks of 64 rows, each with its place, so that it can be added up in any order.
    """

    rows: int
    dim: int
    has_weights: bool
    digest: str

    @classmethod
    def of(cls, table: VectorTable, share: RowShare | None = None) -> TableContent:
        """The content of a table, or of one whose rows are on several ranks, each of which gives its own."""
        share = share or RowShare.whole(len(table))
        total = sum(share.ranks.collect(_sum_of_digests(table, share.first))) % _DIGEST_END
        return cls(share.total, table.embedding_dim, table.weights is not None, f"{total:064x}")


class KnownTable(ABC):
    """A table that says itself what its rows hold, wherever they are."""

    @property
    @abstractmethod
    def content(self) -> TableContent:
        """The content of all its rows."""


def run_identity(table: VectorTable | KnownTable, *settings: object) -> str:
    """A fingerprint of a run, 32 hexadecimal digits: its settings, as JSON values, and its vectors."""
    content = table.content if isinstance(table, KnownTable) else TableContent.of(table)
    return hashlib.sha256(json.dumps([__version__, *settings, *content]).encode()).hexdigest()[:32]


def _sum_of_digests(table: VectorTable, first: int) -> int:
    """The digests of the blocks of 64 rows of a table, whose first row has the number `first`, as one number."""
    total, start = 0, 0
    for _, vectors in table.chunks(BLOCK_ROWS * 128):
        for begin in range(0, len(vectors), BLOCK_ROWS):
            row = start + begin
            digest = hashlib.sha256((first + row).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(vectors[begin : begin + BLOCK_ROWS]).tobytes())
            if table.weights is not None:
                digest.update(table.weights[row : row + BLOCK_ROWS].tobytes())
            total += int.from_bytes(digest.digest(), "little")
        start += len(vectors)
    return total % _DIGEST_END
