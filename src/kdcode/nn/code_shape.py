"""The shape of a code that is learned in a task, for a size that was asked for."""

from __future__ import annotations

from kdcode.codec import CodewordSpec
from kdcode.codec.sizes import SizeLimit
from kdcode.errors import OptionError

CODEBOOK_SIZES = (16, 32, 64, 128, 256, 512, 1024)
"""The K that are tried. Small ones first: more positions then share the bits, and a step changes less of a vector."""

SMALLER_CODEBOOK_SIZES = (8, 4, 2)
"""The K of tables with so few rows that the codebook alone would take too much."""


def code_shape(num_embeddings: int, embedding_dim: int, size: str | int) -> CodewordSpec:
    """The product code that a layer of some size has: the smallest K whose longest code fills the size.

    A product code, because its codebook is small whatever D is. Codewords are float32: freezing a layer rounds nothing.

    Args:
        num_embeddings: N.
        embedding_dim: d.
        size: "20x" (times smaller than float32 rows), "500KB" (of the file, without symbols) or a number of bytes.

    Raises:
        OptionError: the size is not one, or nothing is as small.
    """
    limit = SizeLimit.parse(size)
    found = None
    for codebook_size in CODEBOOK_SIZES:
        length = _longest(num_embeddings, embedding_dim, codebook_size, limit)
        if length:
            found = _product(embedding_dim, codebook_size, length)
        if length < embedding_dim:  # a larger K would mean a shorter code
            break
    if found is not None:
        return found
    for codebook_size in SMALLER_CODEBOOK_SIZES:
        length = _longest(num_embeddings, embedding_dim, codebook_size, limit)
        if length:
            return _product(embedding_dim, codebook_size, length)
    least = _product(embedding_dim, SMALLER_CODEBOOK_SIZES[-1], 1)
    raise OptionError(
        f"size: a table of {num_embeddings} x {embedding_dim} cannot be as small as {size}; the least is "
        f"{least.sizes(num_embeddings).embedding:,} bytes, {least.ratio(num_embeddings):.1f}x"
    )


def _longest(num_embeddings: int, embedding_dim: int, codebook_size: int, limit: SizeLimit) -> int:
    """The longest code that is small enough; 0 where none is."""
    low, high = 0, embedding_dim
    while low < high:
        middle = (low + high + 1) // 2
        spec = _product(embedding_dim, codebook_size, middle)
        if limit.allows(spec.sizes(num_embeddings), spec.ratio(num_embeddings), spec.bits):
            low = middle
        else:
            high = middle - 1
    return low


def _product(embedding_dim: int, codebook_size: int, code_length: int) -> CodewordSpec:
    return CodewordSpec.named("product", embedding_dim, codebook_size, code_length, codebook_dtype="float32")
