"""Codes of transform codecs: a row of integers for each row of a table, and the numbers that the core has instead.

A code has d multiples of the step as 0, 1, 2, 3, 4 for 0, 1, -1, 2, -2, the number of the centroid where there are
centroids, the class of the block, and the sides of coordinates: a one, and a bit for each. The core has (n, d) signed
multiples, and (n, 4) centroids, classes, numbers of sides and sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode import bitpack
from kdcode.arrays import IntArray
from kdcode.codec.transform.spec import TransformSpec
from kdcode.errors import OptionError, StorageError


def signed(values: IntArray) -> npt.NDArray[np.int64]:
    """Multiples of code values: 0, 1, 2, 3, 4 stand for 0, 1, -1, 2, -2."""
    whole = np.asarray(values, dtype=np.int64)
    return np.where(whole & 1, (whole + 1) >> 1, -(whole >> 1))


def code_dtype(spec: TransformSpec) -> npt.DTypeLike:
    """The type that codes are unpacked to."""
    return bitpack.value_dtype(max(spec.widths))


def codes_of(
    spec: TransformSpec, multiples: npt.NDArray[np.int32], others: npt.NDArray[np.uint32]
) -> npt.NDArray[np.unsignedinteger[Any]]:
    """(n, columns) codes of the numbers that the core has.

    Raises:
        StorageError: a multiple that is not below K.
    """
    dim = spec.embedding_dim
    codes = np.empty((len(multiples), len(spec.widths)), dtype=code_dtype(spec))
    values = 2 * np.abs(multiples.astype(np.int64)) - (multiples > 0)
    if int(values.max(initial=0)) >= spec.codebook_size:
        raise StorageError(f"codes: found a code value that is not below K={spec.codebook_size}")
    codes[:, :dim] = values
    if spec.centroids:
        codes[:, dim] = others[:, 0]
    codes[:, -2] = others[:, 1]
    codes[:, -1] = (1 << others[:, 2].astype(np.int64)) | others[:, 3]
    return codes


def multiples_of(spec: TransformSpec, codes: IntArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
    """The numbers that the core has for (n, columns) codes; undoes `codes_of`."""
    whole, dim = np.asarray(codes, dtype=np.int64), spec.embedding_dim
    multiples = signed(whole[:, :dim]).astype(np.int32)
    others = np.zeros((len(whole), 4), dtype=np.uint32)
    if spec.centroids:
        others[:, 0] = whole[:, dim]
    others[:, 1] = whole[:, -2]
    count = np.frexp(whole[:, -1].astype(np.float64))[1] - 1
    others[:, 2], others[:, 3] = count, whole[:, -1] - (1 << count)
    return multiples, others


def check_codes(spec: TransformSpec, codes: IntArray) -> None:
    """Refuse what is no (n, columns) array of codes in range."""
    ends = spec.column_ends
    if codes.ndim != 2 or codes.shape[1] != len(ends) or codes.dtype.kind not in "iu":
        raise OptionError(f"codes: expected integers of shape (rows, {len(ends)}), got {codes.dtype} {codes.shape}")
    if not len(codes):
        return
    low, high = codes.min(axis=0), codes.max(axis=0)
    least = np.zeros(len(ends), dtype=np.int64)
    least[-1] = 1
    wrong = np.flatnonzero((low < least) | (high >= np.array(ends)))
    if len(wrong):
        at = wrong[0]
        raise OptionError(f"codes: expected values in [{least[at]}, {ends[at]}), got {low[at]} to {high[at]}")
    values = codes[:, : spec.embedding_dim]
    if not spec.signs and ((values > 0) & (values % 2 == 0)).any():
        raise OptionError("codes: found a negative level, in a codec that has none (signs=False)")
