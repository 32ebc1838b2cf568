"""Ways to make a table smaller that people use today, each at every setting that keeps to a number of bytes.

Bytes are all that decoding needs: codes, codebooks, rotations, scales. What all rows share is rounded to int8 or
float16 where that leaves more room for codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from faiss_peers import FAISS_PEERS
from peer_kinds import Fitted, Matrix, Peer, Setting, principal
from scalar_peers import SCALAR_PEERS

from kdcode.comparison.integer_rows import fitting_directions, integer_rows

_SHARES = tuple(np.linspace(1.1, 0.4, 15))
"""Of a block's largest number, what becomes its lowest integer."""


def _rows_settings(bits: int) -> Callable[[int, int, int], Iterator[tuple[Setting, int]]]:
    def settings(rows: int, dim: int, most: int) -> Iterator[tuple[Setting, int]]:
        """All coordinates with a float16 scale per row, or as many principal ones as fit, with their float16 basis."""
        fitting = fitting_directions(rows, dim, bits, most)
        if fitting is not None:
            yield {"bits": bits, "kept": fitting[0]}, fitting[1]

    return settings


def _integer_rows(vectors: Matrix, setting: Setting) -> Fitted:
    rows = integer_rows(vectors, setting["bits"], setting["kept"])
    return Fitted(rows.decode(), None, rows.decode)


def _block_settings(bits: int, block: int | None = None) -> Callable[[int, int, int], Iterator[tuple[Setting, int]]]:
    def settings(rows: int, dim: int, most: int) -> Iterator[tuple[Setting, int]]:
        """All coordinates, and a float16 scale for each block of them; nothing where that does not fit."""
        width = block or dim
        size = rows * (-(-dim * bits // 8) + 2 * -(-dim // width))
        if size <= most:
            yield {"bits": bits, "block": width}, size

    return settings


def _block_rows(vectors: Matrix, setting: Setting) -> Fitted:
    """Integers from -2^(bits-1) up, times a scale: the one of several that has the least squared error in its block.

    The number of the largest size in a block becomes the lowest integer, of which there is one more than at the top;
    smaller scales clip it, and keep the others more accurate. With 4 bits and blocks of 32, this is GGUF's Q4_0 with
    scales that are searched for.
    """
    low, width = -(2 ** (setting["bits"] - 1)), setting["block"]
    short = -vectors.shape[1] % width
    blocks = np.pad(vectors, ((0, 0), (0, short))).reshape(-1, width)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    best, least = np.zeros_like(blocks), np.full(len(blocks), np.inf, dtype=np.float32)
    for share in _SHARES:
        scale = (share * largest / low).astype(np.float16).astype(np.float32)
        scale[scale == 0] = 1
        copy = np.clip(np.rint(blocks / scale), low, -low - 1) * scale
        error = np.square(copy - blocks).sum(axis=1)
        better = error < least
        best[better], least[better] = copy[better], error[better]
    copy = best.reshape(len(vectors), -1)[:, : vectors.shape[1]]
    return Fitted(copy, None, lambda: copy)


def _svd_settings(rows: int, dim: int, most: int) -> Iterator[tuple[Setting, int]]:
    kept = (most // 2 - dim) // (rows + dim)
    if kept >= 1:
        yield {"kept": min(kept, dim)}, 2 * (min(kept, dim) * (rows + dim) + dim)


def _svd(vectors: Matrix, setting: Setting) -> Fitted:
    mean, basis = _principal(vectors, setting["kept"])
    short = ((vectors - mean) @ basis.T).astype(np.float16)

    def decode() -> Matrix:
        return np.asarray(short.astype(np.float32) @ basis + mean, dtype=np.float32)

    return Fitted(decode(), None, decode)


def _principal(vectors: Matrix, kept: int) -> tuple[Matrix, Matrix]:
    """The mean and the strongest directions, as float16 keeps them; all coordinates where all are kept."""
    dim = vectors.shape[1]
    if kept == dim:
        return np.zeros(dim, dtype=np.float32), np.eye(dim, dtype=np.float32)
    return principal(vectors, kept, "float16")


PEERS = (
    *FAISS_PEERS,
    *SCALAR_PEERS,
    Peer("int8 rows", _rows_settings(8), _integer_rows),
    Peer("int4 rows", _rows_settings(4), _integer_rows),
    Peer("SVD, float16", _svd_settings, _svd),
)

ROW_PEERS = (
    Peer("int8 rows", _block_settings(8), _block_rows),
    Peer("int4 rows", _block_settings(4), _block_rows),
    Peer("4-bit blocks of 32", _block_settings(4, 32), _block_rows),
)
"""Rows of small integers, as models are served with today: their bytes follow from the table."""
