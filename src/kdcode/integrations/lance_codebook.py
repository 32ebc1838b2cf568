"""Lance: the codebook of a product code, for an IVF_PQ index that quantises vectors as the coded table does."""

from __future__ import annotations

import numpy as np

from kdcode.arrays import FloatArray
from kdcode.coded import CodedTable
from kdcode.errors import OptionError

CODEBOOK_SIZE = 256
"""The codewords of each block of an IVF_PQ index."""


def pq_codebook(coded: CodedTable) -> FloatArray:
    """The codewords of a product code, as `create_index(..., pq_codebook=...)` of Lance takes them.

    Lance encodes its own vectors anew: with this codebook, those of the original table get the codes of the coded one.
    It takes centroids with the codebook, `ivf_centroids`. With metric="dot" they may be any. With metric="l2" they must
    be one row of zeros, numpy.zeros((1, d)), because otherwise differences from centroids would be quantised.

    Args:
        coded: a table of product codes without a rotation, with K of at most 256 and D a divisor of d.

    Returns:
        (D, 256, d / D) float32; where K is less than 256, the others are copies of the first codeword.

    Raises:
        OptionError: Lance has no index for codes of this kind.
    """
    spec, codec = coded.spec, coded.codewords
    fault = None
    if codec is None or codec.spec.basis or codec.spec.scale_bits or codec.spec.groups != spec.code_length:
        scaled = codec is not None and codec.spec.scale_bits > 0
        kind = (
            "rotated " * (codec is not None and spec.is_rotated)
            + spec.composition
            + " codes"
            + " with row scales" * scaled
        )
        fault = f"product codes without a rotation or row scales, got {kind}"
    elif spec.embedding_dim % spec.code_length:
        fault = f"blocks of one width, got {spec.embedding_dim} dimensions in {spec.code_length} blocks"
    elif spec.codebook_size > CODEBOOK_SIZE:
        fault = f"at most {CODEBOOK_SIZE} codewords for each block, got {spec.codebook_size}"
    if codec is None or fault is not None:
        raise OptionError(
            f"a codebook of Lance has {fault}; compress with composition='product', rotation=False, a codebook_size of "
            f"at most {CODEBOOK_SIZE} and a code_length that divides the dimensions"
        )
    numbers = np.arange(CODEBOOK_SIZE)
    return codec.codebook[:, np.where(numbers < spec.codebook_size, numbers, 0)]
