"""What the provenance of a file says of its quality, and what is left of it for other rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MEASURED = (
    *("relative_error", "mean_cosine", "low_cosine", "least_cosine", "norm_error", "weighted_error", "recall_at_10"),
    "shared_codes",
)
"""What was measured on the rows of a table when it was made."""

CURVE = "curve"
"""How the loss fell while codes were learned: {"steps": 64, "losses": [0.5, …]}, where n losses are evenly spaced."""


def without_measures(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """How codes were learned, without what was measured on the rows that they were learned from."""
    return {name: value for name, value in provenance.items() if name not in MEASURED}
