"""faiss's quantizers, with codebooks and rotations that are really rounded to what they are counted as.

One learning serves all formats: the codebooks are rounded, put back into the quantizer, and all rows are coded again
with them. K-means sees all rows, where faiss by itself draws 256 for each codeword: that costs time alone. RQ and LSQ
code whole vectors, or each of several equal parts of them, as ProductResidualQuantizer and ProductLocalSearchQuantizer
of faiss do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from peer_kinds import FORMATS, Fitted, Matrix, Peer, Setting, number_bytes, packed_bytes, rounded

MOST_POSITIONS = 127
MOST_OF_PART = 12
"""Positions of RQ and LSQ in all, where vectors are not split, and in each of several parts."""
MOST_SECONDS = 600
"""Settings of RQ and LSQ that would take longer to learn on one core are left out."""
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


def additive_bytes(rows: int, dim: int, positions: int, bits: int, kept_as: str, *, splits: int = 1) -> int:
    """Bytes of a sum of whole vectors, one for each position; or of such a sum for each of `splits` parts of them."""
    return packed_bytes(rows, positions, bits) + codebook_bytes(kept_as, positions, 2**bits, dim // splits)


def product_bytes(rows: int, dim: int, positions: int, bits: int, kept_as: str) -> int:
    """Bytes of a code whose positions have each its own part of the vector."""
    return packed_bytes(rows, positions, bits) + codebook_bytes(kept_as, positions, 2**bits, dim // positions)


def rotated_bytes(rows: int, dim: int, positions: int, bits: int, kept_as: str) -> int:
    """As a product code, and a rotation in the same format, with a scale per row."""
    of_rotation = number_bytes("int8" if kept_as == BY_CODEWORD else kept_as, dim, dim)
    return product_bytes(rows, dim, positions, bits, kept_as) + of_rotation


def _longest(lengths: Iterable[int], most: int, size: Callable[[int, str], int]) -> tuple[int, dict[str, int]] | None:
    """The longest code that fits with int8, and its bytes in the formats to try; None where none fits.

    These formats are the most accurate that fits, or of int8 both ways to scale: rounding costs much less than a
    position is worth (LOG.md).
    """
    positions = max((m for m in lengths if size(m, "int8") <= most), default=0)
    if not positions:
        return None
    sizes = {kept_as: size(positions, kept_as) for kept_as in (*FORMATS, BY_CODEWORD)}
    fitting = [kept_as for kept_as in sizes if sizes[kept_as] <= most]
    tried = fitting if fitting[0] == "int8" else fitting[:1]
    return positions, {kept_as: sizes[kept_as] for kept_as in tried}


def _codebook_sizes(rows: int) -> list[int]:
    """Bits of a position to try: there are at least two rows for each codeword."""
    return [bits for bits in BITS if 2**bits <= rows // 2]


def _divisors(dim: int) -> list[int]:
    return [one for one in range(1, dim + 1) if dim % one == 0]


def _product_settings(rows: int, dim: int, most: int, *, size: Callable[..., int]) -> Iterator[tuple[Setting, int]]:
    """For each codebook size the longest code that fits; its positions divide d."""
    for bits in _codebook_sizes(rows):

        def bytes_of(positions: int, kept_as: str, bits: int = bits) -> int:
            return size(rows, dim, positions, bits, kept_as)

        found = _longest(_divisors(dim), most, bytes_of)
        if found:
            positions, formats = found
            yield {"positions": positions, "bits": bits, "formats": formats}, max(formats.values())


def _additive_settings(
    rows: int, dim: int, most: int, *, seconds: Callable[[int, int, Setting], float]
) -> Iterator[tuple[Setting, int]]:
    """For each codebook size and number of parts the longest code that fits, unless it takes too long to learn.

    Parts are equally wide and have equally many positions. Codes that would have more positions than are tried are
    left out, not cut, since they would not use their bytes.
    """
    for bits in _codebook_sizes(rows):
        for splits in _divisors(dim):

            def bytes_of(positions: int, kept_as: str, bits: int = bits, splits: int = splits) -> int:
                return additive_bytes(rows, dim, positions, bits, kept_as, splits=splits)

            found = _longest(range(splits, splits * (MOST_POSITIONS + 2), splits), most, bytes_of)
            least, longest = (1, MOST_POSITIONS) if splits == 1 else (2, MOST_OF_PART)
            if found is None or not least <= found[0] // splits <= longest:
                continue
            positions, formats = found
            setting = {"positions": positions, "bits": bits, "splits": splits, "formats": formats}
            if seconds(rows, dim, setting) <= MOST_SECONDS:
                yield setting, max(formats.values())


def _rq_seconds(rows: int, dim: int, setting: Setting, *, is_plain: bool) -> float:
    """About how long RQ learns on one core, from learnings that were timed (LOG.md)."""
    width, codewords = dim // setting.get("splits", 1), 2 ** setting["bits"]
    each = 2.5e-7 * width + 6e-8 * codewords if is_plain else 4e-7 * width + 6.5e-7 * codewords
    return float(rows * setting["positions"] * each)


def _lsq_seconds(rows: int, dim: int, setting: Setting) -> float:
    """About how long LSQ learns on one core: it searches codes and solves for codewords; d hardly matters (LOG.md)."""
    own, codewords = setting["positions"] // setting["splits"], 2 ** setting["bits"]
    searching = 2.3e-7 * rows * setting["positions"] * own * (codewords + 12)
    return float(searching + 1.7e-9 * setting["splits"] * (own * codewords) ** 3)


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
    shape = {name: value for name, value in setting.items() if name != "formats"}
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


def _additive(vectors: Matrix, setting: Setting, make: Callable[[int, int, int], Any]) -> Fitted:
    """A quantizer, `make(d, positions, bits)`, for each of the parts that vectors are split into."""
    import faiss

    splits = setting.get("splits", 1)
    own = setting["positions"] // splits
    quantizers, exact = [], []
    for part in _parts(vectors, splits):
        quantizer = make(part.shape[1], own, setting["bits"])
        quantizer.train(part)
        quantizers.append(quantizer)
        exact.append(faiss.vector_to_array(quantizer.codebooks).reshape(own, -1, part.shape[1]))

    def encode(new: Matrix) -> list[Any]:
        return [one.compute_codes(part) for one, part in zip(quantizers, _parts(new, splits), strict=True)]

    def decode(codes: list[Any]) -> Matrix:
        decoded = [one.decode(part) for one, part in zip(quantizers, codes, strict=True)]
        return np.concatenate(decoded, axis=1)

    def coder(kept_as: str) -> Coder:
        for quantizer, codebooks in zip(quantizers, exact, strict=True):
            set_codebooks(quantizer.codebooks, codebooks, kept_as)
        return encode, decode

    return _kept_best(vectors, setting, coder)


def _parts(vectors: Matrix, splits: int) -> Iterator[Matrix]:
    """Equally many coordinates in each, one part after the other."""
    return (np.ascontiguousarray(part) for part in np.split(vectors, splits, axis=1))


def _rq(vectors: Matrix, setting: Setting, *, rounds: int | None = None, beam: int | None = None) -> Fitted:
    """As faiss learns by itself, or with plain k-means where that would take too long (LOG.md).

    A look is plain k-means in few `rounds`, and may search with a narrower `beam`. Tables of products of codewords are
    left out, which take much memory and which no search here reads.
    """
    import faiss

    is_plain = bool(rounds) or _rq_seconds(len(vectors), vectors.shape[1], setting, is_plain=False) > MOST_SECONDS

    def make(dim: int, positions: int, bits: int) -> Any:  # noqa: ANN401 - faiss's
        quantizer = faiss.ResidualQuantizer(dim, positions, bits)
        if is_plain:
            quantizer.train_type = faiss.ResidualQuantizer.Train_default
        quantizer.train_type |= faiss.ResidualQuantizer.Skip_codebook_tables
        quantizer.max_beam_size = beam or quantizer.max_beam_size
        _see_all(quantizer.cp, len(vectors), rounds)
        return quantizer

    return _additive(vectors, setting, make)


def _lsq(vectors: Matrix, setting: Setting, *, is_quick: bool = False) -> Fitted:
    """As faiss learns by itself; quick is less of everything."""
    import faiss

    def make(dim: int, positions: int, bits: int) -> Any:  # noqa: ANN401 - faiss's
        quantizer = faiss.LocalSearchQuantizer(dim, positions, bits)
        if is_quick:
            quantizer.train_iters, quantizer.train_ils_iters, quantizer.encode_ils_iters = 5, 1, 2
        return quantizer

    return _additive(vectors, setting, make)


FAISS_PEERS = (
    Peer("faiss PQ", partial(_product_settings, size=product_bytes), _pq, look=partial(_pq, rounds=5), learned=2),
    Peer("faiss OPQ", partial(_product_settings, size=rotated_bytes), _opq, look=partial(_pq, rounds=5)),
    Peer(
        "faiss RQ",
        partial(_additive_settings, seconds=partial(_rq_seconds, is_plain=True)),
        _rq,
        look=partial(_rq, rounds=5, beam=1),
        second_look=partial(_rq, rounds=5),
    ),
    Peer("faiss LSQ", partial(_additive_settings, seconds=_lsq_seconds), _lsq, look=partial(_lsq, is_quick=True)),
)
