"""A .kdc file checked as a whole: against its specification, and against the table that it was made from."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from kdcode.errors import NoRowsError, StorageError, TableError
from kdcode.evaluation.reconstruction import TableComparison, compare_tables
from kdcode.inputs import TableSource
from kdcode.storage import load

_SAME = 1e-3
"""How much two measurements of one error may differ, relatively: other processors add up in another order."""
_RECORDED_TO = 2e-6
"""Errors are recorded to six digits after the point."""


@dataclass(frozen=True)
class Verification:
    """What `verify` found in a valid file.

    Args:
        file_bytes: size of the file.
        overhead_bytes: what header and digests take of it.
        num_embeddings: how many symbols it holds.
        shared_codes: how many of them have the same code as another symbol, and so the same vector.
        recorded_error: the relative error that was measured when the file was made; None where it tells of none.
        comparison: the file beside the original table, whose symbols may differ: see its `match`. None where no
            original was given.
    """

    file_bytes: int
    overhead_bytes: int
    num_embeddings: int
    shared_codes: int
    recorded_error: float | None = None
    comparison: TableComparison | None = None

    @property
    def relative_error(self) -> float | None:
        """Squared error over variance against the original table, or None where none was given."""
        return None if self.comparison is None else self.comparison.relative_error

    @property
    def is_complete(self) -> bool:
        """Whether file and original have the same symbols, in whatever order; True where no original was given."""
        return self.comparison is None or self.comparison.match.is_complete

    @property
    def is_as_recorded(self) -> bool | None:
        """Whether the error against the original is the recorded one; None where the two cannot be compared.

        If it is not, the original is another table than the one that the file was made from.
        """
        if self.relative_error is None or self.recorded_error is None or not self.is_complete:
            return None
        return math.isclose(self.relative_error, self.recorded_error, rel_tol=_SAME, abs_tol=_RECORDED_TO)

    def as_dict(self) -> dict[str, Any]:
        """Everything by name, as JSON values."""
        own = {name: value for name, value in vars(self).items() if name != "comparison"}
        if self.comparison is None:
            return own
        found = {"is_as_recorded": self.is_as_recorded, "match": asdict(self.comparison.match)}
        return {**own, **self.comparison.as_dict(), **found}


def verify(path: str | PathLike[str], original: TableSource | None = None) -> Verification:
    """Check a whole file: its digests, every code, every symbol, and how near its vectors are to the original ones.

    Rows are matched by symbol, as `evaluate` does it. That the file lacks some of the original's symbols, or was made
    from another table, is no error: `is_complete` and `is_as_recorded` of the result say so.

    Args:
        path: a .kdc file.
        original: the table that it was made from; whatever `kdcode.as_table` takes.

    Raises:
        StorageError: the file is invalid or damaged, or cannot be compared with `original`.
        NoRowsError: it is a valid codebook, whose rows are in no file yet.
    """
    coded = load(path, check="full")
    if not len(coded):
        raise NoRowsError(str(path))
    try:
        comparison = None if original is None else compare_tables(original, coded)
    except (StorageError, TableError) as error:
        raise StorageError(f"{path}: {error}") from error
    file_bytes = Path(path).stat().st_size
    recorded = coded.provenance.get("relative_error")
    return Verification(
        file_bytes=file_bytes,
        overhead_bytes=file_bytes - coded.sizes.total,
        num_embeddings=len(coded),
        shared_codes=coded.shared_codes,
        recorded_error=recorded if type(recorded) in (int, float) else None,
        comparison=comparison,
    )
