"""How every benchmark writes its result down: settings, versions, date, and records as flat rows."""

from __future__ import annotations

import datetime
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kdcode import __version__


def write_result(
    path: Path, settings: dict[str, Any], records: list[dict[str, Any]], packages: tuple[str, ...], **more: str
) -> None:
    """Write one JSON file; `packages` are those whose versions matter, `more` are versions of other things."""
    result = {
        "benchmark": path.stem,
        "date": datetime.date.today().isoformat(),
        "settings": settings,
        "versions": {
            "kdcode": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
            **more,
        },
        "machine": platform.machine(),
        "records": records,
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
