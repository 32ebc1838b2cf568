"""faiss's quantizers, with codebooks and rotations that are really rounded to what they are counted as.

One learning serves all formats: the codebooks are rounded, put back into the quantizer, and all rows are coded again
with them. K-means sees all rows, where faiss by itself draws 256 for each codeword: that costs time alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from peer_kinds import FORMATS, Fitted, Matrix, Peer, Setting, number_bytes, packed_bytes, rounded

MOST_POSITIONS = 128
BY_CODEWORD = "int8, a scale per codeword"
"""In place of one scale for all codewords of a position."""
BITS = range(3, 11)
"""Of a position: codebooks of 8 to 1,024 codewords; larger ones take more bytes than they save in these tables."""

Coder = tuple[Callable[[Matrix], Any], Callable[[Any], Matrix]]
"""Vectors to codes, and codes to vectors."""


def codebook_bytes(kept_as: str, positions: int, codewords: int, width: int) -> int:
    """Bytes of the codebooks of all positions; `width` is how many numbers a codeword has."""
    if kept_as == BY_CODEWORD:
        return number_bytes("int8", positions * codewords, width)
    return number_bytes(kept_as, positions, codewords * width)


def additive_bytes(rows: int, dim: int, positions: int, bits: int, kept_as: str) -> int:
    """Bytes of a sum of whole vectors, one for each position."""
    return packed_bytes(rows, positions, bits) + codebook_bytes(kept_as, positions, 2**bits, dim)


def product_bytes(rows: int, dim: int, positions: int, bits: int, kept_as: str) -> int:
    """Bytes of a code whose positions have each its own part of the vector."""
    return packed_bytes(rows, positions, bits) + codebook_bytes(kept_as, positions, 2**bits, dim // positions)


def rotated_bytes(rows: int, dim: int, positions: int, bits: int, kept_as: str) -> int:
    """As a product code, and a rotation in the same format, with a scale per row."""
    of_rotation = number_bytes("int8" if kept_as == BY_CODEWORD else kept_as, dim, dim)
    return product_bytes(rows, dim, positions, bits, kept_as) + of_rotation


def _settings(
    rows: int, dim: int, most: int, *, size: Callable[..., int], divides: bool
) -> Iterator[tuple[Setting, int]]:
    """For each codebook size the longest code that fits with int8, and the formats in which this one fits.

    These are the most accurate, or of int8 both ways to scale: rounding costs much less than a position is worth
    (LOG.md). A product code has positions that divide d.
    """
    lengths = [m for m in range(1, dim + 1 if divides else MOST_POSITIONS) if not divides or dim % m == 0]
    for bits in BITS:
        if 2**bits > rows // 2:
            return
        positions = max((m for m in lengths if size(rows, dim, m, bits, "int8") <= most), default=0)
        if positions:
            sizes = {kept_as: size(rows, dim, positions, bits, kept_as) for kept_as in (*FORMATS, BY_CODEWORD)}
            fitting = [kept_as for kept_as in sizes if sizes[kept_as] <= most]
            tried = fitting if fitting[0] == "int8" else fitting[:1]
            kept = {kept_as: sizes[kept_as] for kept_as in tried}
            yield {"positions": positions, "bits": bits, "formats": kept}, max(kept.values())


def set_rounded(numbers: Any, exact: Matrix, kept_as: str) -> None:  # noqa: ANN401 - a vector of faiss
    """Put (groups, width) numbers into a vector of faiss, rounded."""
    import faiss

    faiss.copy_array_to_vector(rounded(exact, kept_as).ravel(), numbers)


def set_codebooks(numbers: Any, exact: Matrix, kept_as: str) -> None:  # noqa: ANN401 - a vector of faiss
    """Put (positions, K, width) codewords into a vector of faiss, rounded."""
    groups = exact.reshape(-1, exact.shape[2]) if kept_as == BY_CODEWORD else exact.reshape(len(exact), -1)
    set_rounded(numbers, groups, "int8" if kept_as == BY_CODEWORD else kept_as)


def _kept_best(vectors: Matrix, setting: Setting, coder: Callable[[str], Coder]) -> Fitted:
    """What is learned, in the format that loses least; `coder` rounds to a format and gives the way to code with it."""
    sizes = setting.get("formats", {"float32": None})
    best, least = "", np.inf
    for kept_as in sizes:
        encode, decode = coder(kept_as)
        codes = encode(vectors)
        error = float(np.square(decode(codes) - vectors).sum())
        if error < least:
            best, least, found = kept_as, error, codes
    encode, decode = coder(best)
    shape = {name: setting[name] for name in ("positions", "bits")}
    return Fitted(
        copy=decode(found),
        encode=encode,
        decode=lambda: decode(found),
        recode=lambda new: decode(encode(new)),
        setting={**shape, "format": best},
        size=sizes[best],
    )


def _see_all(clustering: Any, rows: int, rounds: int | None) -> None:  # noqa: ANN401 - faiss's parameters
    """Let k-means see all rows, in as many rounds as faiss has by itself or fewer."""
    clustering.max_points_per_centroid, clustering.min_points_per_centroid = rows, 1
    clustering.niter = rounds or clustering.niter


def _product_quantizer(vectors: Matrix, setting: Setting, rounds: int | None = None) -> Any:  # noqa: ANN401 - faiss's
    import faiss

    quantizer = faiss.ProductQuantizer(vectors.shape[1], setting["positions"], setting["bits"])
    _see_all(quantizer.cp, len(vectors), rounds)
    quantizer.train(vectors)
    return quantizer


def _pq(vectors: Matrix, setting: Setting, rounds: int | None = None) -> Fitted:
    import faiss

    quantizer = _product_quantizer(vectors, setting, rounds)
    exact = faiss.vector_to_array(quantizer.centroids).reshape(quantizer.M, quantizer.ksub, quantizer.dsub)

    def coder(kept_as: str) -> Coder:
        set_codebooks(quantizer.centroids, exact, kept_as)
        return quantizer.compute_codes, quantizer.decode

    return _kept_best(vectors, setting, coder)


def _opq(vectors: Matrix, setting: Setting) -> Fitted:
    import faiss

    dim = vectors.shape[1]
    rotation = faiss.OPQMatrix(dim, setting["positions"])
    rotation.pq = faiss.ProductQuantizer(dim, setting["positions"], setting["bits"])
    rotation.train(vectors)
    quantizer = _product_quantizer(rotation.apply(vectors), setting)
    exact = faiss.vector_to_array(quantizer.centroids).reshape(quantizer.M, quantizer.ksub, quantizer.dsub)
    turned = faiss.vector_to_array(rotation.A).reshape(dim, dim)

    def coder(kept_as: str) -> Coder:
        set_codebooks(quantizer.centroids, exact, kept_as)
        set_rounded(rotation.A, turned, "int8" if kept_as == BY_CODEWORD else kept_as)
        return (
            lambda new: quantizer.compute_codes(rotation.apply(new)),
            lambda codes: np.asarray(rotation.reverse_transform(quantizer.decode(codes))),
        )

    return _kept_best(vectors, setting, coder)


def _additive(vectors: Matrix, setting: Setting, quantizer: Any) -> Fitted:  # noqa: ANN401 - faiss's
    import faiss

    quantizer.train(vectors)
    exact = faiss.vector_to_array(quantizer.codebooks).reshape(setting["positions"], -1, vectors.shape[1])

    def coder(kept_as: str) -> Coder:
        set_codebooks(quantizer.codebooks, exact, kept_as)
        if isinstance(quantizer, faiss.ResidualQuantizer):
            quantizer.compute_codebook_tables()
        return quantizer.compute_codes, quantizer.decode

    return _kept_best(vectors, setting, coder)


def _quick_rq(vectors: Matrix, setting: Setting) -> Fitted:
    """Plain k-means in few rounds, and the nearest codeword in each position."""
    import faiss

    quantizer = faiss.ResidualQuantizer(vectors.shape[1], setting["positions"], setting["bits"])
    quantizer.max_beam_size, quantizer.train_type = 1, faiss.ResidualQuantizer.Train_default
    _see_all(quantizer.cp, len(vectors), 5)
    return _additive(vectors, setting, quantizer)


def _rq(vectors: Matrix, setting: Setting) -> Fitted:
    import faiss

    quantizer = faiss.ResidualQuantizer(vectors.shape[1], setting["positions"], setting["bits"])
    _see_all(quantizer.cp, len(vectors), None)
    return _additive(vectors, setting, quantizer)


def _lsq(vectors: Matrix, setting: Setting) -> Fitted:
    import faiss

    quantizer = faiss.LocalSearchQuantizer(vectors.shape[1], setting["positions"], setting["bits"])
    return _additive(vectors, setting, quantizer)


_product_settings = partial(_settings, size=product_bytes, divides=True)
_rotated_settings = partial(_settings, size=rotated_bytes, divides=True)
_additive_settings = partial(_settings, size=additive_bytes, divides=False)
_quick_pq = partial(_pq, rounds=5)

FAISS_PEERS = (
    Peer("faiss PQ", _product_settings, _pq, look=_quick_pq, learned=2),
    Peer("faiss OPQ", _rotated_settings, _opq, look=_quick_pq),
    Peer("faiss RQ", _additive_settings, _rq, look=_quick_rq),
    Peer("faiss LSQ", _additive_settings, _lsq, look=_quick_rq),
)
