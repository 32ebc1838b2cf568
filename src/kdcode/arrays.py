"""The array types that signatures speak of, vectors that callers give, and how many rows are handled at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.errors import OptionError

FloatArray = npt.NDArray[np.float32]
DoubleArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.integer[Any]]

CHUNK_ROWS = 8192
"""How many rows are converted, checked, decoded or written at a time, where they are not very wide."""

_CACHED_NUMBERS = 1 << 18
_WIDE_ROWS = 64
_MOST_NUMBERS = 1 << 22


def rows_at_once(width: int) -> int:
    """How many rows to handle at a time where each takes `width` numbers.

    As many as stay in the cache; of wide rows 64, which are worth a call of numpy, while they take no more than 16 MiB.
    """
    wide = min(_WIDE_ROWS, _MOST_NUMBERS // width)
    return max(1, wide, min(CHUNK_ROWS, _CACHED_NUMBERS // width))


def as_array(value: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - whatever numpy or torch has
    """The array of numbers, lists or a tensor of any float type, on any device, with a gradient or not."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
        if value.is_floating_point() and value.element_size() < np.dtype(np.float32).itemsize:
            value = value.float()  # numpy has no bfloat16
    return np.asarray(value)


def described(value: object) -> str:
    """What was given, briefly: its type, and its shape or the value itself."""
    shape = getattr(value, "shape", None)
    if shape is not None and shape != ():
        return f"{getattr(value, 'dtype', type(value).__name__)} of shape {tuple(shape)}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '…'}"


def checked_vectors(vectors: npt.ArrayLike, embedding_dim: int) -> FloatArray:
    """(d,) or (n, d) finite float32 vectors, or a refusal."""
    try:
        with np.errstate(over="ignore"):  # what overflows float32 becomes inf and is refused
            array = np.asarray(as_array(vectors), dtype=np.float32)
    except (TypeError, ValueError):
        raise OptionError(f"expected vectors of {embedding_dim} numbers, got {vectors!r:.200}") from None
    if array.ndim not in (1, 2) or array.shape[-1] != embedding_dim:
        raise OptionError(
            f"expected vectors of shape ({embedding_dim},) or (rows, {embedding_dim}), got shape {array.shape}"
        )
    finite = np.isfinite(np.atleast_2d(array)).all(axis=1)
    if not finite.all():
        row = int(finite.argmin())
        which = "the vector" if array.ndim == 1 else f"row {row} of the vectors"
        others = f", as have {int((~finite).sum()) - 1} more rows" if (~finite).sum() > 1 else ""
        raise OptionError(f"{which} has a value that is not a finite float32{others}; remove the row or repair it")
    return array
