"""Scripts of the project, run as they are from a shell but in this process, which has imported torch already."""

from __future__ import annotations

import runpy
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest


def printed_by(script: Path, *arguments: object) -> str:
    """Run a script with arguments; what it printed."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        patch.syspath_prepend(script.parent)
        runpy.run_path(str(script), run_name="__main__")
    return printed.getvalue()
