"""Digests of a file's blocks, so that damage is noticed in what is read without reading the rest."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

BLOCK_BYTES = 1 << 16
"""Bytes that share a digest: large enough for digests to take 1/4096 of a file, small enough to check for one row."""
DIGEST_BYTES = 16
"""What is kept of the SHA-256 of a block."""

Digests = npt.NDArray[np.uint8]
"""(blocks, 16)"""


def block_digest(block: bytes | memoryview) -> bytes:
    """The digest of one block."""
    return hashlib.sha256(block).digest()[:DIGEST_BYTES]


def digest_bytes(covered: int) -> int:
    """Bytes of the digests of `covered` bytes."""
    return -(-covered // BLOCK_BYTES) * DIGEST_BYTES


class Digester:
    """Digests of bytes that come piece by piece, as a file is written."""

    def __init__(self) -> None:
        self._finished: list[bytes] = []
        self._hash = hashlib.sha256()
        self._room = BLOCK_BYTES

    def update(self, piece: bytes | memoryview) -> None:
        """Take the bytes that follow those before."""
        rest = memoryview(piece).cast("B")
        while len(rest):
            part, rest = rest[: self._room], rest[self._room :]
            self._hash.update(part)
            self._room -= len(part)
            if not self._room:
                self._finish_block()

    def digests(self) -> Digests:
        """The digests of all bytes; the last block may be shorter than the others. Nothing can follow."""
        if self._room < BLOCK_BYTES:
            self._finish_block()
        return np.frombuffer(b"".join(self._finished), dtype=np.uint8).reshape(-1, DIGEST_BYTES)

    def _finish_block(self) -> None:
        self._finished.append(self._hash.digest()[:DIGEST_BYTES])
        self._hash, self._room = hashlib.sha256(), BLOCK_BYTES
