"""How every benchmark and experiment writes its result down: settings, versions, date, time, and flat rows."""

from __future__ import annotations

import datetime
import json
import platform
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
