"""A codebook as numbers on disk: float32, float16, or int8 with scales."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.budget import MAX_CODEBOOK_SIZE, NUMBER_BYTES
from kdcode.errors import OptionError
from kdcode.table import FloatArray


@dataclass(frozen=True, eq=False)
class Codebook:
    """Codewords (D, K, e) in the form they are stored in.

    Args:
        stored: (D, K, e) float32, float16 or int8; (1, K, e) where positions share their codewords.
        scale: for int8, (D, 1, 1) float32, or (1, 1, 1): what multiplies the integers of each position.
        shared_by: D, where all positions share the same codewords.

    Raises:
        OptionError: a shape or type that cannot be stored, or values that are not finite.
    """

    stored: npt.NDArray[Any]
    scale: FloatArray | None = None
    shared_by: int | None = None

    def __post_init__(self) -> None:
        _check_shape(self.stored)
        if self.shared_by is not None and (self.shared_by < 1 or len(self.stored) != 1):
            raise OptionError(
                f"codebook: shared by {self.shared_by} positions, expected one set of codewords for at least 1, "
                f"got {len(self.stored)}"
            )
        if self.stored.dtype.name not in NUMBER_BYTES:
            raise OptionError(f"codebook: expected {', '.join(NUMBER_BYTES)}, got {self.stored.dtype}")
        if (self.scale is None) == (self.stored.dtype == np.int8):
            raise OptionError("codebook: int8 codewords come with scales, other codewords without")
        if self.scale is None:
            _check_finite(self.stored)
            return
        expected = (len(self.stored), 1, 1)
        if self.scale.shape != expected or self.scale.dtype != np.float32:
            raise OptionError(
                f"codebook_scale: expected float32 of shape {expected}, got {self.scale.dtype} of {self.scale.shape}"
            )
        with np.errstate(over="ignore"):
            _check_finite(self.scale * np.float32(128))  # no codeword can then overflow

    @classmethod
    def of(cls, values: FloatArray, number_format: str = "float32", *, shared_by: int | None = None) -> Codebook:
        """Round (D, K, e) float values, or the (1, K, e) of a shared codebook, to a number format.

        int8 gets one scale for each set of K codewords.
        """
        if number_format not in NUMBER_BYTES:
            raise OptionError(f"number format must be one of {', '.join(NUMBER_BYTES)}, got {number_format!r}")
        _check_shape(values)
        _check_finite(values)
        if number_format != "int8":
            if number_format == "float16" and np.abs(values).max() > np.finfo(np.float16).max:
                raise OptionError("codebook: values are too large for float16; use float32 or int8")
            return cls(np.ascontiguousarray(values, dtype=number_format), None, shared_by)
        scale = (np.abs(values).max(axis=(1, 2), keepdims=True) / 127).astype(np.float32)
        scale[scale == 0] = 1
        # The clip matters where the scale is so small that float32 has few digits left for it.
        return cls(np.rint(np.clip(values / scale, -127, 127)).astype(np.int8), scale, shared_by)

    @property
    def code_length(self) -> int:
        """D, the positions of a code."""
        return self.shared_by or int(self.stored.shape[0])

    @property
    def shared(self) -> bool:
        """Whether several positions have the same codewords."""
        return self.code_length > len(self.stored)

    @property
    def codebook_size(self) -> int:
        """K, the codewords to choose from at each position."""
        return int(self.stored.shape[1])

    @property
    def codeword_dim(self) -> int:
        """e, the numbers in a codeword."""
        return int(self.stored.shape[2])

    @property
    def number_format(self) -> str:
        """float32, float16 or int8."""
        return self.stored.dtype.name

    @property
    def nbytes(self) -> int:
        """Bytes in the file, scales included."""
        return self.stored.nbytes + (0 if self.scale is None else self.scale.nbytes)

    @cached_property
    def values(self) -> FloatArray:
        """The codewords as (D, K, e) float32; shared ones are there once, and seen D times."""
        values = np.asarray(self.stored, dtype=np.float32)
        values = values if self.scale is None else values * self.scale
        return np.broadcast_to(values, (self.code_length, *values.shape[1:])) if self.shared else values


def _check_shape(values: npt.NDArray[Any]) -> None:
    if values.ndim != 3 or 0 in values.shape:
        raise OptionError(f"codebook: expected shape (positions, codewords, size), got {values.shape}")
    if not 2 <= values.shape[1] <= MAX_CODEBOOK_SIZE:
        raise OptionError(f"codebook: expected 2 to {MAX_CODEBOOK_SIZE} codewords per position, got {values.shape[1]}")


def _check_finite(values: npt.NDArray[Any]) -> None:
    if not np.isfinite(values).all():
        raise OptionError("codebook: holds values that are not finite")
