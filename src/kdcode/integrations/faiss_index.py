"""faiss: tables as indexes that search by dot product or by distance; those of coded tables keep the codes.

Product codes become an `IndexPQ`; a rotation goes before it, as in faiss's own OPQ. All other sums become an
`IndexLocalSearchQuantizer`, faiss's index of additive codes, with codewords of d numbers. Nothing is encoded again. A
table without codes becomes an `IndexFlat`.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import FloatArray, described
from kdcode.codec import CodewordCodec, CodewordSpec
from kdcode.codec.spec import LSTM
from kdcode.coded import CodedTable
from kdcode.errors import MissingExtraError, OptionError
from kdcode.integrations.exported_files import exported
from kdcode.mapping import TableMapping

METRICS = ("dot", "l2")
"""What an index can search by."""

_LONGEST = float(np.sqrt(np.finfo(np.float32).max)) / 4
"""The length of vectors whose squared distances float32 can hold, with room for those of queries."""

_ROUNDING = 4e-6
"""How far the products of the rows of a rotation may be from 0 and 1 for it to keep distances, to float32."""

_FEWEST_PAIRS = 8
"""The codewords of two numbers that faiss needs at least: its code for these takes eight at a time."""


def faiss_index(table: TableMapping, metric: str = "dot") -> Any:  # noqa: ANN401 - a class of faiss
    """A faiss index of a table, with its codes as they are where it is coded; ids are row numbers.

    `index.search` gives what a search over all vectors gives, but for rounding in float32 and the order of equally near
    rows. `index.reconstruct(row)` is the vector. `faiss.write_index` writes the index to a file.

    Codewords become float32. Those of product codes keep their size, and so do those of rotated product codes with
    "dot"; other codewords are stored with d numbers each, so that all of them take 4·D·K·d bytes. With "l2", such rows
    take 4 bytes more, for their squared lengths.

    Args:
        table: a CodedTable, or any other table, whose index has all of its vectors.
        metric: "dot" (larger is nearer) or "l2" (faiss gives the squares of distances; smaller is nearer).

    Raises:
        MissingExtraError: faiss is not installed.
        OptionError: faiss has no such metric, or no index for these codes.
        StorageError: the table has codes that are not valid.
    """
    faiss = _faiss()
    codec = _check(table, metric)
    if codec is None or not isinstance(table, CodedTable):
        return _flat_index(faiss, table, metric)
    spec, basis = codec.spec, codec.basis
    if spec.groups == spec.code_length and (basis is None or metric == "dot" or _keeps_distances(basis)):
        return _product_index(faiss, table, codec, metric)
    return _sum_index(faiss, table, codec, metric)


def export_faiss(
    coded: CodedTable,
    path: str | PathLike[str],
    *,
    metric: str = "dot",
    symbols: str | PathLike[str] | None = None,
) -> int:
    """Write the faiss index of a coded table to a file, which appears whole or not at all; `faiss.read_index` reads it.

    Args:
        coded: the table; `kdcode.load` reads a .kdc file.
        path: the file to write, usually *.faiss.
        metric: "dot" or "l2"; see `faiss_index`.
        symbols: also write the symbols to this file, one per line: that of line i has the id i, counted from 0.

    Returns:
        The bytes of the index.

    Raises:
        MissingExtraError, OptionError, StorageError: see `faiss_index`.
        FormatError: a symbol does not fit in a line.
        FileError: a file cannot be written.
    """
    faiss = _faiss()
    _check(coded, metric)
    if not isinstance(coded, CodedTable):
        raise OptionError(f"expected a CodedTable, got {described(coded)}; table.to_faiss() is an index in memory")
    with exported(coded, path, symbols, "index") as target:
        index = faiss_index(coded, metric)
        with target.open("wb") as stream:  # faiss itself would not tell why a file cannot be written
            faiss.write_index(index, faiss.PyCallbackIOWriter(stream.write))
        return target.stat().st_size


def _faiss() -> Any:  # noqa: ANN401 - the module
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("a faiss index", "faiss") from None
    return faiss


def _check(table: TableMapping, metric: str) -> CodewordCodec | None:
    """Refuse what faiss cannot search, before anything of it is read."""
    if not isinstance(table, TableMapping):
        raise OptionError(f"expected a table, got {described(table)}; kdcode.load(path) reads one from a .kdc file")
    table.require_rows()
    if metric == "cosine":
        raise OptionError(
            "metric: faiss has no cosine, it does not divide by lengths; compress vectors of length 1 and choose "
            "metric='dot', or search with kdcode's own neighbors, which have it"
        )
    if metric not in METRICS:
        raise OptionError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    return _checked_codec(table) if isinstance(table, CodedTable) else None


def _checked_codec(coded: CodedTable) -> CodewordCodec:
    codec = coded.codewords
    otherwise = "search with kdcode's own neighbors, or decode all vectors: coded.to_table().to_faiss()"
    if codec is None:
        raise OptionError(
            "faiss adds codewords up, and transform codes have none: compress with codewords=True (--codewords), "
            f"{otherwise}"
        )
    if codec.spec.kind == LSTM:
        raise OptionError(f"faiss adds codewords up and cannot run an LSTM over them; {otherwise}")
    if codec.spec.scale_bits:
        raise OptionError(
            f"faiss has no row scales, and this table has {codec.spec.scale_bits} bits of them (scale_bits); "
            f"{otherwise}; or compress again without them"
        )
    if codec.may_overflow:
        raise OptionError(
            "the codewords of this table are so large that sums of them may leave float32, which is all that faiss "
            "computes in; scale the table down and compress it again"
        )
    return codec


def _keeps_distances(basis: FloatArray) -> bool:
    """Whether an (inner_dim, d) basis is a rotation, to the digits of float32; one that is stored in fewer is not."""
    rows, columns = basis.shape
    return rows == columns and bool(np.abs(basis.astype(np.float64) @ basis.T - np.eye(rows)).max() <= _ROUNDING)


def _flat_index(faiss: Any, table: TableMapping, metric: str) -> Any:  # noqa: ANN401
    index = faiss.IndexFlat(table.embedding_dim, _metric(faiss, metric))
    for _, vectors in table.chunks():
        index.add(np.ascontiguousarray(vectors, dtype=np.float32))
    return index


def _product_index(faiss: Any, coded: CodedTable, codec: CodewordCodec, metric: str) -> Any:  # noqa: ANN401
    """An `IndexPQ`, behind a transform of queries where vectors have a basis or blocks of several widths."""
    spec, bits = codec.spec, codec.spec.widths[0]
    width = 3 if spec.codeword_dim == 2 and 1 << bits < _FEWEST_PAIRS else spec.codeword_dim
    words = np.zeros((spec.code_length, spec.codebook_size, width), dtype=np.float32)
    places = np.full((spec.code_length, width), -1)  # which coordinate of a vector stands where; -1 for none
    for position, block in enumerate(spec.blocks):
        words[position, :, : block.width] = codec.codebook[position, :, : block.width]
        places[position, : block.width] = np.arange(block.columns.start, block.columns.stop)
    _check_lengths(words, metric)
    index = faiss.IndexPQ(places.size, spec.code_length, bits, _metric(faiss, metric))
    faiss.copy_array_to_vector(_padded(words, bits).reshape(-1), index.pq.centroids)
    _add(faiss, index, coded.checked_rows())
    transform = _transform(faiss, spec, codec.basis, places.reshape(-1))
    return index if transform is None else faiss.IndexPreTransform(transform, index)


def _transform(faiss: Any, spec: CodewordSpec, basis: FloatArray | None, places: npt.NDArray[np.int64]) -> Any:  # noqa: ANN401
    """What is done to queries before a search, and undone to vectors that are reconstructed; None for nothing.

    Args:
        faiss: the module.
        spec: the shape of the codec.
        basis: (inner_dim, d), or None.
        places: for each number of the index the coordinate that it is, -1 where it is always zero.
    """
    if basis is None:
        if len(places) == spec.embedding_dim:
            return None
        remap = faiss.RemapDimensionsTransform(spec.embedding_dim, len(places), False)
        faiss.copy_array_to_vector(places.astype(np.int32), remap.map)
        return remap
    matrix = np.zeros((len(places), spec.embedding_dim), dtype=np.float32)
    matrix[places >= 0] = basis
    linear = faiss.LinearTransform(spec.embedding_dim, len(places), False)
    faiss.copy_array_to_vector(matrix.reshape(-1), linear.A)
    linear.is_trained = True
    # With this, faiss undoes the transform by its transpose, which is right for any basis: x becomes xB, q becomes qBᵀ.
    linear.is_orthonormal = True
    return linear


def _sum_index(faiss: Any, coded: CodedTable, codec: CodewordCodec, metric: str) -> Any:  # noqa: ANN401
    """An `IndexLocalSearchQuantizer`, with codewords as they are after the basis, in all d coordinates."""
    spec, bits, kinds = codec.spec, codec.spec.widths[0], faiss.AdditiveQuantizer
    words = _whole_words(codec)
    _check_lengths(words, metric)
    search = kinds.ST_LUT_nonorm if metric == "dot" else kinds.ST_norm_float
    index = faiss.IndexLocalSearchQuantizer(spec.embedding_dim, spec.code_length, bits, _metric(faiss, metric), search)
    faiss.copy_array_to_vector(_padded(words, bits).reshape(-1), index.lsq.codebooks)
    index.lsq.is_trained = True
    _add(faiss, index, coded.checked_rows() if metric == "dot" else _rows_with_lengths(coded))
    return index


def _whole_words(codec: CodewordCodec) -> FloatArray:
    """(D, K, d) codewords whose sums are the vectors: times the basis, and zero outside their block."""
    spec, basis = codec.spec, codec.basis
    words = np.zeros((spec.code_length, spec.codebook_size, spec.embedding_dim), dtype=np.float32)
    for block in spec.blocks:
        for position in range(block.positions.start, block.positions.stop):
            part = codec.codebook[position, :, : block.width]
            if basis is None:
                words[position, :, block.columns] = part
            else:
                words[position] = part.astype(np.float64) @ basis[block.columns]
    return words


def _rows_with_lengths(coded: CodedTable) -> npt.NDArray[np.uint8]:
    """(N, row bytes + 4) packed codes, each followed by the squared length of its vector: the 32 bits of a float32."""
    widths = (*coded.spec.widths, 32)
    lengths = (coded.norms**2).astype(np.float32).view(np.uint32)
    rows = np.empty((len(coded), bitpack.row_bytes(widths)), dtype=np.uint8)
    for start, codes in coded.code_chunks():
        part = slice(start, start + len(codes))
        rows[part] = bitpack.pack(np.column_stack([codes, lengths[part]]), widths)
    return rows


def _padded(words: FloatArray, bits: int) -> FloatArray:
    """(D, 2^bits, e) codewords from (D, K, e): no code names those that are added, copies of the first."""
    numbers = np.arange(1 << bits)
    return words[:, np.where(numbers < words.shape[1], numbers, 0)]


def _add(faiss: Any, index: Any, packed: npt.NDArray[np.uint8]) -> None:  # noqa: ANN401
    """Give an index all (N, row bytes) codes; faiss packs them as `bitpack` does."""
    faiss.copy_array_to_vector(np.ascontiguousarray(packed).reshape(-1), index.codes)
    index.ntotal, index.is_trained = len(packed), True


def _metric(faiss: Any, metric: str) -> int:  # noqa: ANN401
    return int(faiss.METRIC_INNER_PRODUCT if metric == "dot" else faiss.METRIC_L2)


def _check_lengths(words: FloatArray, metric: str) -> None:
    """Refuse (D, K, e) codewords whose sums may be so long that squared distances leave float32."""
    if metric == "l2":
        longest = float(np.sqrt(np.square(words, dtype=np.float64).sum(axis=2)).max(axis=1).sum())
        if longest > _LONGEST:
            raise OptionError(
                f"metric: vectors of this table may be {longest:.2g} long, and squares of distances above "
                f"{_LONGEST:.2g} leave float32, which is all that faiss computes in; choose metric='dot', or scale the "
                "table down and compress it again"
            )
