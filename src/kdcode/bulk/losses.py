"""RowLosses: how far vectors are from those of their codes, added up chunk by chunk and slice by slice."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kdcode.arrays import DoubleArray, FloatArray
from kdcode.evaluation.row_losses import error_ratio

_ROUNDING = 1e-12
"""Share of the energy below which a difference of sums is no variance any more."""


@dataclass
class RowLosses:
    """Sums over rows.

    Args:
        rows: how many.
        squared: Σ‖v − v'‖², where v' is the vector of the code of v.
        energy: Σ‖v‖².
        total: (d,) Σ v.
    """

    rows: int
    squared: float
    energy: float
    total: DoubleArray

    @classmethod
    def none(cls, dim: int) -> Self:
        """Those of no rows."""
        return cls(0, 0.0, 0.0, np.zeros(dim))

    def add(self, vectors: FloatArray, near: FloatArray) -> None:
        """Count (n, d) vectors and those of their codes."""
        wide = vectors.astype(np.float64)  # squares of float32 numbers may leave float32
        lost = wide - near
        self.rows += len(wide)
        self.squared += float(np.einsum("ij,ij->", lost, lost))
        self.energy += float(np.einsum("ij,ij->", wide, wide))
        self.total += wide.sum(axis=0)

    def add_sums(self, other: RowLosses) -> None:
        """Count the rows of others."""
        self.rows += other.rows
        self.squared += other.squared
        self.energy += other.energy
        self.total += other.total

    @property
    def relative_error(self) -> float:
        """Squared error over variance; see `kdcode.evaluation.TableComparison`."""
        variance = self.energy - float(self.total @ self.total) / max(1, self.rows)
        return error_ratio(self.squared, variance if variance > _ROUNDING * self.energy else 0.0, self.energy)

    def measured(self) -> dict[str, float]:
        """The relative error as provenance has it; nothing where all vectors are zero, and those of their codes not."""
        found = self.relative_error
        return {"relative_error": round(found, 6)} if math.isfinite(found) else {}

    def as_json(self) -> dict[str, Any]:
        """All sums as JSON values, to the last bit."""
        total = base64.b64encode(self.total.astype("<f8").tobytes()).decode("ascii")
        return {"rows": self.rows, "squared": self.squared.hex(), "energy": self.energy.hex(), "total": total}

    @classmethod
    def of_json(cls, values: dict[str, Any]) -> Self:
        """What `as_json` gave.

        Raises:
            ValueError, KeyError, TypeError: these are no such values.
        """
        total = np.frombuffer(base64.b64decode(values["total"], validate=True), dtype="<f8").astype(np.float64)
        return cls(int(values["rows"]), float.fromhex(values["squared"]), float.fromhex(values["energy"]), total)
