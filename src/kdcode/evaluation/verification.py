"""A .kdc file checked as a whole: against its specification, and against the table that it was made from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from kdcode.errors import StorageError, TableError
from kdcode.evaluation.reconstruction import TableComparison, evaluate
from kdcode.inputs import TableSource
from kdcode.storage import load
from kdcode.symbols import StoredSymbols


@dataclass(frozen=True)
class Verification:
    """What `verify` found in a valid file.

    Args:
        file_bytes: size of the file.
        overhead_bytes: what header and metadata take of it.
        num_embeddings: how many symbols it holds.
        shared_codes: how many of them have the same code as another symbol, and so the same vector.
        comparison: the file beside the original table, whose symbols may differ: see its `match`. None where no
            original was given.
    """

    file_bytes: int
    overhead_bytes: int
    num_embeddings: int
    shared_codes: int
    comparison: TableComparison | None = None

    @property
    def relative_error(self) -> float | None:
        """Squared error over variance against the original table, or None where none was given."""
        return None if self.comparison is None else self.comparison.relative_error

    @property
    def is_complete(self) -> bool:
        """Whether file and original have the same symbols, in whatever order; True where no original was given."""
        return self.comparison is None or self.comparison.match.is_complete

    def as_dict(self) -> dict[str, Any]:
        """Everything by name, as JSON values."""
        own = {name: value for name, value in vars(self).items() if name != "comparison"}
        if self.comparison is None:
            return own
        return {**own, **self.comparison.as_dict(), "match": asdict(self.comparison.match)}


def verify(path: str | PathLike[str], original: TableSource | None = None) -> Verification:
    """Check a whole file: every code, every symbol, and how near its vectors are to those of the original table.

    Rows are matched by symbol, as `evaluate` does it. That the file lacks some of the original's symbols is no error:
    `is_complete` and `comparison.match` of the result say so.

    Args:
        path: a .kdc file.
        original: the table that it was made from; whatever `kdcode.as_table` takes.

    Raises:
        StorageError: the file is invalid, or cannot be compared with `original`.
    """
    coded = load(path)
    try:
        for _ in coded.code_chunks():
            pass  # unpacking checks the range of every code
        if isinstance(coded.symbols, StoredSymbols):
            coded.symbols.verify()
        comparison = None if original is None else evaluate(original, coded)
    except (StorageError, TableError) as error:
        raise StorageError(f"{path}: {error}") from error
    file_bytes = Path(path).stat().st_size
    return Verification(file_bytes, file_bytes - coded.sizes.total, len(coded), coded.shared_codes, comparison)
