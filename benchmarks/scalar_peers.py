"""Methods that round each coordinate after a rotation: entropy-coded, RaBitQ and TurboQuant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from peer_kinds import Fitted, Matrix, Peer, Setting, number_bytes, packed_bytes, principal

BLOCK = 16
"""Rows of entropy codes that are decoded together, with one length of 16 bits."""
ROUNDINGS = (0.5, 0.44, 0.38, 0.32, 0.26)
"""What is added to a size before it is cut to an integer: 0.5 rounds, less makes zeros more frequent."""
ROTATIONS = ("int8", "float16", "none")
LOOK_ROWS = 8192
Coder = tuple[Callable[[Matrix], Any], Callable[[Any], Matrix]]
"""Vectors to codes, and codes to vectors."""
COORDINATE_BYTES = 6
"""The lowest and the highest integer of a coordinate, 2 bytes each, and two reconstruction shifts, 1 byte each."""


def _entropy_settings(rows: int, dim: int, most: int) -> Iterator[tuple[Setting, int]]:
    yield from (({"rotation": rotation, "most": most}, most) for rotation in ROTATIONS)


class _Counted(NamedTuple):
    """Integers of a table, and their bytes.

    Args:
        whole: (N, kept) the integers.
        kept: which directions have any.
        size: bytes in all.
    """

    whole: npt.NDArray[np.int32]
    kept: npt.NDArray[np.intp]
    size: int


class EntropyCoded:
    """The plain entropy-coded scalar quantiser of a table.

    Rows are taken around their mean (float16), turned to principal directions (rotated by int8 with a float16 scale per
    direction, by float16, or not at all), and divided by one step. Integers are cut with a dead zone, and come back as
    the mean of what became them in their coordinate, for sizes of one and for larger ones.

    Bytes, in favour of this method: the length of an ideal adaptive code of each coordinate (Krichevsky and Trofimov's
    estimate over its integers), for which no tables need be kept and no bits are lost to a real coder; 6 bytes a
    coordinate; mean, step and rotation, of which a direction is left out where it costs more than it gains; and for row
    starts a length of 16 bits for every block of 16 rows, whose end is filled to a whole byte. No such code can read a
    single row: a real one would need tables or the rows before, and whole starts.

    Args:
        vectors: (N, d) the table.
        rotation: int8, float16 or none.
    """

    def __init__(self, vectors: Matrix, rotation: str) -> None:
        self.rotation, dim = rotation, vectors.shape[1]
        if rotation == "none":
            self.mean, self.basis = (
                vectors.mean(axis=0).astype(np.float16).astype(np.float32),
                np.eye(dim, dtype=np.float32),
            )
            self.turned = vectors - self.mean
        else:
            self.mean, self.basis = principal(vectors, dim, rotation)
            self.turned = (vectors - self.mean) @ np.linalg.inv(self.basis)

    @property
    def direction_bytes(self) -> int:
        """Of a direction that is kept."""
        of_rotation = 0 if self.rotation == "none" else number_bytes(self.rotation, 1, len(self.mean))
        return of_rotation + COORDINATE_BYTES

    def size(self, bits: float, kept: int) -> int:
        """Bytes of the whole table, for so many bits of integers in all its rows and so many directions."""
        rows, dim = self.turned.shape
        marks = -(-dim // 8) if self.rotation == "none" else 2  # which coordinates are kept, or how many
        starts = 2.5 * -(-rows // BLOCK)
        return int(np.ceil(bits / 8 + starts)) + kept * self.direction_bytes + marks + 2 * dim + 4

    def counted(self, turned: Matrix, step: float, rounding: float) -> _Counted:
        """The integers of rotated rows, and the bytes of the table if all rows are like these."""
        sizes = np.abs(turned) * np.float32(1 / step)
        whole = np.copysign(np.floor(sizes + np.float32(rounding)), turned).astype(np.int32)
        bits = np.array([adaptive_bits(column) for column in whole.T])
        # A bit is worth ln 2 / 6 of a squared step, by the slope of rate against error at a high rate.
        squares = np.square(sizes).sum(axis=0, dtype=np.float64)
        lost = np.square(sizes - np.abs(whole)).sum(axis=0, dtype=np.float64)
        share = len(turned) / len(self.turned)
        kept = np.flatnonzero(squares - lost > np.log(2) / 6 * (bits + 8 * share * self.direction_bytes))
        return _Counted(whole[:, kept], kept, self.size(float(bits[kept].sum()) / share, len(kept)))

    def decoded(self, counted: _Counted, step: float) -> Matrix:
        """(N, d) rows that come back."""
        back = counted.whole.astype(np.float32)
        for column, exact in zip(back.T, self.turned[:, counted.kept].T / np.float32(step), strict=True):
            sizes = np.abs(column)
            for these in (sizes == 1, sizes > 1):
                if these.any():
                    shift = np.mean(sizes[these] - np.abs(exact[these]), dtype=np.float64)
                    column[these] -= np.copysign(
                        np.float32(np.clip(np.rint(256 * shift), -128, 127) / 256), exact[these]
                    )
        return np.asarray((back * np.float32(step)) @ self.basis[counted.kept] + self.mean, dtype=np.float32)

    def smallest_step(self, turned: Matrix, rounding: float, most: int, low: float, high: float) -> float:
        """The step, within a range, whose integers take at most so many bytes; found to a 2,000th part."""
        while high / low > 1.0005:
            middle = float(np.float32(np.sqrt(low * high)))
            low, high = (low, middle) if self.counted(turned, middle, rounding).size <= most else (middle, high)
        return high


def adaptive_bits(integers: npt.NDArray[np.int32]) -> float:
    """Length of Krichevsky and Trofimov's adaptive code of integers between their lowest and highest."""
    from scipy.special import gammaln

    counts = np.bincount(integers - integers.min())
    half = len(counts) / 2
    nats = gammaln(len(integers) + half) - gammaln(half) - (gammaln(counts + 0.5) - gammaln(0.5)).sum()
    return float(nats / np.log(2))


def _entropy_coded(vectors: Matrix, setting: Setting) -> Fitted:
    """The smallest step that fits, with the rounding that loses least of some rows."""
    coder, most = EntropyCoded(vectors, setting["rotation"]), setting["most"]
    some = np.random.default_rng(0).permutation(len(vectors))[:LOOK_ROWS]
    part, largest = coder.turned[some], float(np.abs(coder.turned).max())
    best: tuple[float, float, float] | None = None
    for rounding in ROUNDINGS:
        step = coder.smallest_step(part, rounding, most, largest / 2000, 2 * largest)
        counted = coder.counted(part, step, rounding)
        left = part.copy()
        left[:, counted.kept] -= counted.whole * np.float32(step)
        error = float(np.square(left).sum())
        if best is None or error < best[0]:
            best = (error, rounding, step)
    assert best is not None  # noqa: S101 - there are several roundings
    _, rounding, near = best
    low, high = near / 1.3, near * 1.3
    while coder.counted(coder.turned, high, rounding).size > most:
        high *= 1.3
    while coder.counted(coder.turned, low, rounding).size <= most:
        low /= 1.3
    step = coder.smallest_step(coder.turned, rounding, most, low, high)
    counted = coder.counted(coder.turned, step, rounding)
    chosen = {"rotation": setting["rotation"], "rounding": rounding, "step": step, "kept": len(counted.kept)}
    return Fitted(coder.decoded(counted, step), None, None, setting=chosen, size=counted.size)


def _rotated_settings(rows: int, dim: int, most: int, *, bits: tuple[int, ...]) -> Iterator[tuple[Setting, int]]:
    """For each number of bits all coordinates, or as many principal ones as fit, with their basis.

    A random rotation follows from its seed and takes nothing, and the scale of a row 2 bytes.
    """
    for each in bits:
        whole = packed_bytes(rows, dim, each) + 2 * rows + 2 * dim
        if whole <= most:
            yield {"bits": each, "kept": dim, "basis": None}, whole
            continue
        for basis in ("float16", "int8"):
            for kept in range(dim - 1, 0, -1):
                size = packed_bytes(rows, kept, each) + 2 * rows + 2 * dim + number_bytes(basis, kept, dim)
                if size <= most:
                    yield {"bits": each, "kept": kept, "basis": basis}, size
                    break


def _rotated(vectors: Matrix, setting: Setting, directions: Callable[[int, int], Coder]) -> Fitted:
    """Rows around their mean, turned at random, coded by their direction alone, and scaled by the best float16."""
    kept, dim = setting["kept"], vectors.shape[1]
    if setting["basis"] is None:
        mean, basis = vectors.mean(axis=0).astype(np.float16).astype(np.float32), np.eye(dim, dtype=np.float32)
    else:
        mean, basis = principal(vectors, kept, setting["basis"])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(kept, kept)))[0].astype(np.float32)
    turned_basis = turn @ basis
    encode_directions, decode_directions = directions(kept, setting["bits"])

    def encode(new: Matrix) -> tuple[Any, npt.NDArray[np.float16]]:
        turned = np.ascontiguousarray((new - mean) @ turned_basis.T)
        codes = encode_directions(turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-12))
        back = decode_directions(codes)
        scales = np.einsum("ij,ij->i", turned, back) / np.maximum(np.square(back).sum(axis=1), 1e-12)
        return codes, scales.astype(np.float16)

    def decode(coded: tuple[Any, npt.NDArray[np.float16]]) -> Matrix:
        back = decode_directions(coded[0]) * coded[1].astype(np.float32)[:, None]
        return np.asarray(back @ turned_basis + mean, dtype=np.float32)

    codes = encode(vectors)
    return Fitted(decode(codes), encode, lambda: decode(codes), lambda new: decode(encode(new)))


def _rabitq_directions(dim: int, bits: int) -> Coder:
    """RaBitQ's integers of unit vectors; faiss decodes the first bit alone, so all bits are read from its codes."""
    import faiss

    quantizer = faiss.RaBitQuantizer(dim, faiss.METRIC_L2, bits)
    more, first = bits - 1, -(-dim // 8)
    begin = first + 12  # three float32 lie between, for distances, which decoding does not need

    def decode(codes: Any) -> Matrix:  # noqa: ANN401 - faiss's codes
        signs = np.unpackbits(codes[:, :first], axis=1, bitorder="little")[:, :dim]
        whole = signs.astype(np.float32) * 2**more
        if more:
            packed = codes[:, begin : begin + -(-dim * more // 8)]
            lower = np.unpackbits(packed, axis=1, bitorder="little")[:, : dim * more].reshape(-1, dim, more)
            whole += lower @ (2 ** np.arange(more)).astype(np.float32)
        return whole - np.float32(2**more - 0.5)

    return quantizer.compute_codes, decode


def _turboquant_directions(dim: int, bits: int) -> Coder:
    """TurboQuant's integers of unit vectors for the least squared error, as faiss has them."""
    import faiss

    quantizer = faiss.ScalarQuantizer(dim, getattr(faiss.ScalarQuantizer, f"QT_{bits}bit_tqmse"))
    quantizer.train(np.eye(dim, dtype=np.float32))
    return quantizer.compute_codes, quantizer.decode


SCALAR_PEERS = (
    Peer("entropy-coded scalar", _entropy_settings, _entropy_coded),
    Peer(
        "RaBitQ", partial(_rotated_settings, bits=tuple(range(1, 8))), partial(_rotated, directions=_rabitq_directions)
    ),
    Peer(
        "TurboQuant",
        partial(_rotated_settings, bits=(1, 2, 3, 4, 8)),
        partial(_rotated, directions=_turboquant_directions),
    ),
)
