"""Ways to make a table smaller that people use today, each at every setting that keeps to a number of bytes.

Bytes are all that decoding needs: codes, codebooks, rotations, scales, as the method itself keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kdcode.comparison.integer_rows import fitting_directions, integer_rows

Matrix = npt.NDArray[np.float32]
Setting = dict[str, Any]

_MOST_POSITIONS = 128
_SHARES = tuple(np.linspace(1.1, 0.4, 15))
"""Of a block's largest number, what becomes its lowest integer."""


class Fitted(NamedTuple):
    """A method that has seen the table.

    Args:
        copy: (N, d) the table as it comes back.
        encode: vectors to codes, or None for methods that have none.
        decode: the same codes, all N of them, to vectors.
        recode: vectors that need not be in the table to what comes back of them, or None.
    """

    copy: Matrix
    encode: Callable[[Matrix], Any] | None
    decode: Callable[[], Matrix]
    recode: Callable[[Matrix], Matrix] | None = None


@dataclass(frozen=True)
class Peer:
    """A method.

    Args:
        name: as the result calls it.
        settings: those that keep to a number of bytes, of a table of N x d, with their bytes.
        fit: learns with a setting.
        look: a quick method that ranks the settings of a slow one, so that only the first is learned in full; None
            where all settings are learned, and the best is taken.
    """

    name: str
    settings: Callable[[int, int, int], Iterator[tuple[Setting, int]]] = field(repr=False)
    fit: Callable[[Matrix, Setting], Fitted] = field(repr=False)
    look: Callable[[Matrix, Setting], Fitted] | None = field(repr=False, default=None)


def _code_bytes(rows: int, positions: int, bits: int) -> int:
    return rows * -(-positions * bits // 8)


def _additive_settings(rows: int, dim: int, most: int) -> Iterator[tuple[Setting, int]]:
    """For each codebook size the longest code that fits, with codebooks of float32 as faiss has them."""
    for bits in range(3, 11):
        size = [_code_bytes(rows, m, bits) + 4 * m * dim * 2**bits for m in range(1, _MOST_POSITIONS)]
        fitting = [m for m in range(1, _MOST_POSITIONS) if size[m - 1] <= most]
        if fitting:
            yield {"positions": fitting[-1], "bits": bits}, size[fitting[-1] - 1]


def _product_settings(rows: int, dim: int, most: int, rotated: bool = False) -> Iterator[tuple[Setting, int]]:
    """For each codebook size the longest code that fits; faiss wants positions that divide d."""
    for bits in range(3, 13):
        sizes = {
            m: _code_bytes(rows, m, bits) + 4 * dim * 2**bits + 4 * dim * dim * rotated
            for m in range(1, dim + 1)
            if dim % m == 0 and 2**bits <= rows // 2
        }
        fitting = [m for m, size in sizes.items() if size <= most]
        if fitting:
            yield {"positions": fitting[-1], "bits": bits}, sizes[fitting[-1]]


def _opq_settings(rows: int, dim: int, most: int) -> Iterator[tuple[Setting, int]]:
    return _product_settings(rows, dim, most, rotated=True)


def _quantized(quantizer: Any, vectors: Matrix) -> Fitted:  # noqa: ANN401 - one of faiss's quantizers
    quantizer.train(vectors)
    codes = quantizer.compute_codes(vectors)
    return Fitted(
        copy=quantizer.decode(codes),
        encode=quantizer.compute_codes,
        decode=lambda: quantizer.decode(codes),
        recode=lambda new: quantizer.decode(quantizer.compute_codes(new)),
    )


def _pq(vectors: Matrix, setting: Setting) -> Fitted:
    import faiss

    return _quantized(faiss.ProductQuantizer(vectors.shape[1], setting["positions"], setting["bits"]), vectors)


def _opq(vectors: Matrix, setting: Setting) -> Fitted:
    import faiss

    rotation = faiss.OPQMatrix(vectors.shape[1], setting["positions"])
    rotation.pq = quantizer = faiss.ProductQuantizer(vectors.shape[1], setting["positions"], setting["bits"])
    rotation.train(vectors)
    rotated = rotation.apply(vectors)
    quantizer.train(rotated)
    codes = quantizer.compute_codes(rotated)

    def decode() -> Matrix:
        return np.asarray(rotation.reverse_transform(quantizer.decode(codes)))

    return Fitted(decode(), lambda new: quantizer.compute_codes(rotation.apply(new)), decode)


def _rq(vectors: Matrix, setting: Setting) -> Fitted:
    import faiss

    quantizer = faiss.ResidualQuantizer(vectors.shape[1], setting["positions"], setting["bits"])
    quantizer.max_beam_size = setting.get("beam", 5)
    return _quantized(quantizer, vectors)


def _lsq(vectors: Matrix, setting: Setting) -> Fitted:
    import faiss

    return _quantized(faiss.LocalSearchQuantizer(vectors.shape[1], setting["positions"], setting["bits"]), vectors)


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
    """The mean and the (kept, d) strongest directions, as float16 keeps them; all coordinates where all are kept."""
    dim = vectors.shape[1]
    if kept == dim:
        return np.zeros(dim, dtype=np.float32), np.eye(dim, dtype=np.float32)
    mean = vectors.mean(axis=0).astype(np.float16).astype(np.float32)
    centred = vectors - mean
    directions = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :kept].T
    return mean, directions.astype(np.float16).astype(np.float32)


def _rq_without_beam(vectors: Matrix, setting: Setting) -> Fitted:
    return _rq(vectors, {**setting, "beam": 1})


PEERS = (
    Peer("faiss PQ", _product_settings, _pq),
    Peer("faiss OPQ", _opq_settings, _opq, look=_pq),
    Peer("faiss RQ", _additive_settings, _rq, look=_rq_without_beam),
    Peer("faiss LSQ", _additive_settings, _lsq, look=_rq_without_beam),
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
