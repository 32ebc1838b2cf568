"""How an experiment is tried: as a process of its own, tiny, with its files in a folder of the test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module")
def run_tiny(tmp_path_factory):
    """Runs a script with --tiny; gives back its output folder and what it printed."""

    def run(script: str, *arguments: str, folder: Path | None = None) -> tuple[Path, str]:
        folder = folder or tmp_path_factory.mktemp(script)
        command = [sys.executable, str(EXPERIMENTS / f"{script}.py"), "--tiny", "--output", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return folder, done.stdout

    return run


@pytest.fixture(scope="session")
def committed():
    """The committed result of a script, by its file's stem."""

    def read(stem: str) -> dict:
        return json.loads((EXPERIMENTS / "results" / f"{stem}.json").read_text(encoding="utf-8"))

    return read
