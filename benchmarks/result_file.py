"""How every benchmark and experiment writes its result down: settings, versions, date, time, and flat rows."""

from __future__ import annotations

import datetime
import json
import platform
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kdcode import __version__
from kdcode.files import replacing


def write_result(
    path: Path,
    settings: dict[str, Any],
    rows: list[dict[str, Any]],
    packages: tuple[str, ...],
    **more: Any,  # noqa: ANN401 - whatever else belongs to the result, under its own name
) -> None:
    """Write one JSON file.

    Args:
        path: whose stem names the result.
        settings: everything that the numbers depend on, the seed among it.
        rows: one flat record for each thing measured.
        packages: those whose versions matter.
        **more: other parts of the result; `versions` is added to the versions of the packages.
    """
    versions = {"kdcode": __version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in packages} | more.pop("versions", {})
    result = {
        "name": path.stem,
        "date": datetime.date.today().isoformat(),
        "settings": settings,
        "versions": versions,
        "machine": platform.machine(),
        **more,
        "rows": rows,
    }
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def renewed_rows(
    path: Path, rows: list[dict[str, Any]], place: Callable[[dict[str, Any]], tuple[int, ...]]
) -> list[dict[str, Any]]:
    """The rows of the result in a file, where there is one, with new rows in place of those that they replace.

    Args:
        path: of the result.
        rows: the new ones.
        place: of a row among all; a row replaces one with the same place.
    """
    before = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    return [row for _, row in sorted({place(row): row for row in [*before, *rows]}.items())]


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The record in a work folder's file; made and written there first where it is not, so that a run can go on."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        record = make()
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(record, indent=1), encoding="utf-8")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def rounded(record: dict[str, Any], digits: int = 5) -> dict[str, Any]:
    """A record with its numbers as they are written down."""
    return {key: float(f"{value:.{digits}g}") if isinstance(value, float) else value for key, value in record.items()}


def measured_rows(
    rows: Iterable[tuple[Path, Callable[[], dict[str, Any]]]], minutes: float = float("inf"), only: str = ""
) -> list[dict[str, Any]]:
    """Rows that are kept in a work folder, measured where they are not, and printed.

    Args:
        rows: the file of each row, and what measures it.
        minutes: how long to go on: no row is begun after this time; those that are kept are given all the same.
        only: begin those rows alone whose file has a name that starts like this.
    """
    started, finished = time.perf_counter(), []
    for file, measure in rows:
        is_late = time.perf_counter() - started > 60 * minutes
        if not file.exists() and (is_late or not file.name.startswith(only)):
            continue
        finished.append(rounded(kept(file, measure)))
        print("  ".join(f"{key} {value}" for key, value in finished[-1].items()), flush=True)
    return finished
