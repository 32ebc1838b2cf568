"""compare: error and recall against bytes, of several copies of a table, of baselines, and at the limit of theory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kdcode.arrays import DoubleArray
from kdcode.comparison.baselines import BASELINES, Baseline
from kdcode.errors import OptionError
from kdcode.evaluation.matching import Table, stored_bytes
from kdcode.evaluation.rate_distortion import gaussian_limit, principal_variances
from kdcode.evaluation.reconstruction import TableComparison, compare_tables
from kdcode.inputs import TableSource, as_rows
from kdcode.table import VectorTable

FILE = "file"
_LINE_POINTS = 64


@dataclass(frozen=True)
class Contender:
    """One copy of the table.

    Args:
        name: of the file, or what the baseline is.
        method: "file", or the name of the baseline.
        bytes: of codes and codebooks, or of the numbers, symbols left out.
        lost: what is lost.
        limit: the relative error that codes of as many bytes cannot fall below for Gaussian rows with the covariance of
            the table; see `gaussian_limit`.
        setting: what was chosen so that a baseline fits.
    """

    name: str
    method: str
    bytes: int
    lost: TableComparison
    limit: float
    setting: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Everything by name, as JSON values."""
        own = {name: value for name, value in vars(self).items() if name != "lost"}
        return {**own, **self.lost.as_dict(), "match": asdict(self.lost.match)}


@dataclass(frozen=True)
class SizeComparison:
    """What `compare` found.

    Args:
        shape: N and d of the original.
        contenders: the files, then the baselines for each of them, in the order given.
        left_out: baselines that fit into no setting, with the bytes that they were to take.
        variances: (d,) of the original in its principal directions.
    """

    shape: tuple[int, int]
    contenders: tuple[Contender, ...]
    left_out: tuple[tuple[str, int], ...]
    variances: tuple[float, ...]

    @property
    def original_bytes(self) -> int:
        """Bytes of the original as float32."""
        return 4 * self.shape[0] * self.shape[1]

    def limit_line(self) -> tuple[DoubleArray, DoubleArray]:
        """The limit of theory as a line: sizes around those of the contenders, in bytes, and the errors there."""
        sizes = [one.bytes for one in self.contenders]
        line = np.geomspace(min(sizes) / 1.5, max(sizes) * 1.5, _LINE_POINTS)
        return line, np.array([gaussian_limit(self.variances, 8 * size / self.shape[0]) for size in line])

    def as_dict(self) -> dict[str, Any]:
        """Everything by name, as JSON values."""
        return {
            "rows": self.shape[0],
            "embedding_dim": self.shape[1],
            "original_bytes": self.original_bytes,
            "contenders": [
                {**one.as_dict(), "ratio": self.original_bytes / one.bytes, "rows": one.lost.match.rows}
                for one in self.contenders
            ],
            "left_out": [{"method": name, "bytes": size} for name, size in self.left_out],
        }


def compare(
    original: TableSource,
    copies: Mapping[str, TableSource],
    baselines: Sequence[str] = (),
    *,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> SizeComparison:
    """Measure several copies of a table, and other methods at the same bytes.

        found = kdcode.compare("glove.txt", {"20x": "a.kdc", "40x": "b.kdc"}, ["int8", "pq"])
        [(one.name, one.bytes, one.lost.relative_error) for one in found.contenders]

    Args:
        original: the table; whatever `kdcode.as_table` takes.
        copies: copies by name: .kdc files, files in any format, tables.
        baselines: names in `BASELINES`, made here with the setting that loses least within the bytes of each copy:
            int8 and int4 are rows of integers with a scale each, of as many principal directions as fit; pq is product
            quantization by k-means.
        on_progress: called with how many copies are measured, how many there are, and what comes next.

    Raises:
        OptionError: a baseline that is not there, or no copies.
        TableError: tables that cannot be compared.
    """
    check_baselines(baselines)
    if not copies:
        raise OptionError("copies: expected at least one table to compare with the original, got none")
    table, named = as_rows(original), {name: as_rows(copy) for name, copy in copies.items()}
    variances = principal_variances(table)
    asked = _asked(named, baselines)
    found: list[Contender] = []
    left_out: list[tuple[str, int]] = []
    for done, (name, method, size) in enumerate(asked):
        if on_progress is not None:
            on_progress(done, len(asked), name if method == FILE else f"making {name} in {size:,} B")
        made = Baseline(named[name], size, "") if method == FILE else _baseline(method, table, size)
        if made is None:
            left_out.append((name, size))
            continue
        limit = gaussian_limit(variances, 8 * made.bytes / len(table))
        lost = compare_tables(table, made.table)
        found.append(Contender(name, method, made.bytes, lost, limit, made.setting))
    if on_progress is not None:
        on_progress(len(asked), len(asked), "")
    return SizeComparison((len(table), table.embedding_dim), tuple(found), tuple(left_out), tuple(variances.tolist()))


def check_baselines(names: Sequence[str]) -> None:
    """Refuse baselines that are not there, or cannot be made here.

    Raises:
        OptionError: the first of them is named.
    """
    for name in names:
        if name not in BASELINES:
            raise OptionError(f"baselines must be among {', '.join(BASELINES)}, got {name!r}")


def _asked(copies: Mapping[str, Table], baselines: Sequence[str]) -> list[tuple[str, str, int]]:
    """Name, method and bytes of all that is measured: the copies, and the baselines at the bytes of each."""
    sizes = {name: stored_bytes(copy) for name, copy in copies.items()}
    made = [(method, method, size) for size in dict.fromkeys(sizes.values()) for method in baselines]
    return [*((name, FILE, size) for name, size in sizes.items()), *made]


def _baseline(method: str, table: Table, most: int) -> Baseline | None:
    return BASELINES[method](table if isinstance(table, VectorTable) else table.to_table(), most)
