"""How a coded table uses its codes: which codewords at which positions, and how many bits they are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kdcode.coded import CodedTable


@dataclass(frozen=True, eq=False)
class CodeUse:
    """Statistics of the codes of N symbols, of D positions with K codewords each.

    Args:
        counts: (D, K) how many symbols use each codeword at each position.
        shared_codes: how many symbols have the same code as another.
    """

    counts: npt.NDArray[np.int64]
    shared_codes: int

    @property
    def unused(self) -> npt.NDArray[np.int64]:
        """(D,) how many codewords of each position no symbol uses."""
        return np.asarray((self.counts == 0).sum(axis=1))

    @property
    def entropies(self) -> npt.NDArray[np.float64]:
        """(D,) bits that each position is worth: log₂ K where all its codewords are used equally often."""
        return entropies_of(self.counts)

    @property
    def entropy(self) -> float:
        """Bits of a code if its positions are coded one by one: what entropy coding could make of `bits`."""
        return float(self.entropies.sum())

    @property
    def bits(self) -> float:
        """D·log₂ K: what a code would be worth if all codes were used equally often."""
        return float(self.counts.shape[0] * np.log2(self.counts.shape[1]))

    def as_dict(self) -> dict[str, Any]:
        """The numbers by name, as JSON values; counts of codewords left out."""
        return {
            "code_length": self.counts.shape[0],
            "codebook_size": self.counts.shape[1],
            "unused_codewords": int(self.unused.sum()),
            "unused_by_position": self.unused.tolist(),
            "shared_codes": self.shared_codes,
            "bits": self.bits,
            "entropy": self.entropy,
            "entropy_by_position": self.entropies.tolist(),
        }


def entropies_of(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(D,) entropies in bits of (D, K) counts, row by row."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray(-(shares * logs).sum(axis=1))


def code_use(coded: CodedTable) -> CodeUse | None:
    """Count the use of codewords, in one pass over the codes; None for a codec without codebooks.

    Raises:
        NoRowsError: this is a codebook.
    """
    coded.require_rows()
    if coded.codewords is None:
        return None
    length, size = coded.code_length, coded.codebook_size
    counts, places = np.zeros(length * size, dtype=np.int64), np.arange(length) * size
    for _, codes in coded.code_chunks():
        counts += np.bincount((codes[:, :length] + places).reshape(-1), minlength=length * size)
    return CodeUse(counts.reshape(length, size), coded.shared_codes)
