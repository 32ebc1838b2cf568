"""A codebook as numbers on disk: float32, float16, or int8 with scales."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.budget import NUMBER_BYTES
from kdcode.errors import OptionError
from kdcode.table import FloatArray


@dataclass(frozen=True, eq=False)
class Codebook:
    """Codewords (D, K, e) in the form they are stored in.

    Args:
        stored: (D, K, e) float32, float16 or int8.
        scale: for int8, float32 that multiplies `stored` after broadcasting, shape (D or 1, K or 1, e or 1).
    """

    stored: npt.NDArray[Any]
    scale: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.stored.ndim != 3 or 0 in self.stored.shape:
            raise OptionError(f"a codebook has shape (positions, codewords, size), got {self.stored.shape}")
        if self.stored.dtype.name not in NUMBER_BYTES:
            raise OptionError(f"codewords are {', '.join(NUMBER_BYTES)}, got {self.stored.dtype}")
        if (self.scale is None) == (self.stored.dtype == np.int8):
            raise OptionError("int8 codewords come with scales, other codewords without")

    @classmethod
    def of(cls, values: FloatArray, number_format: str = "float32") -> Codebook:
        """Round (D, K, e) float values to a number format; int8 gets one scale per position."""
        if number_format not in NUMBER_BYTES:
            raise OptionError(f"number format must be one of {', '.join(NUMBER_BYTES)}, got {number_format!r}")
        if number_format != "int8":
            if number_format == "float16" and np.abs(values).max() > np.finfo(np.float16).max:
                raise OptionError("codewords are too large for float16; use --numbers float32 or int8")
            return cls(np.ascontiguousarray(values, dtype=number_format))
        peak = np.abs(values).max(axis=(1, 2), keepdims=True)
        scale = np.where(peak > 0, peak / 127, 1).astype(np.float32)
        return cls(np.rint(values / scale).astype(np.int8), scale)

    @property
    def code_length(self) -> int:
        """D, the positions of a code."""
        return int(self.stored.shape[0])

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
        """The codewords as (D, K, e) float32."""
        values = np.asarray(self.stored, dtype=np.float32)
        return values if self.scale is None else values * self.scale
