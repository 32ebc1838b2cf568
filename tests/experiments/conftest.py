"""How an experiment is tried: as a script, tiny, with its files in a folder of the test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts import printed_by

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="module")
def run_tiny(tmp_path_factory):
    """Runs a script with --tiny; gives back its output folder and what it printed."""

    def run(script: str, *arguments: str, folder: Path | None = None) -> tuple[Path, str]:
        folder = folder or tmp_path_factory.mktemp(script)
        return folder, printed_by(EXPERIMENTS / f"{script}.py", "--tiny", "--output", folder, *arguments)

    return run


@pytest.fixture(scope="session")
def committed():
    """The committed result of a script, by its file's stem."""

    def read(stem: str) -> dict:
        return json.loads((EXPERIMENTS / "results" / f"{stem}.json").read_text(encoding="utf-8"))

    return read
