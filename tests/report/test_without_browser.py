"""Where there is no browser: tests are skipped and the last lines say so; where one is required, they fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.parametrize("required", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_missing_browser_is_told(required, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "KDCODE_REQUIRE_BROWSER"}
    environment |= {"PATH": str(tmp_path)} | ({"KDCODE_REQUIRE_BROWSER": "1"} if required else {})
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(TESTS / "test_in_browser.py"),
        "-k",
        "test_on_paper",
        "-p",
        "no:cacheprovider",
    ]
    run = subprocess.run(command, cwd=TESTS.parent.parent, env=environment, capture_output=True, text=True, check=False)
    if required:
        assert run.returncode == 1
        assert "ERROR tests/report/test_in_browser.py::test_on_paper" in run.stdout
    else:
        assert run.returncode == 0, run.stdout + run.stderr
        assert (
            "SKIPPED 1 tests: no browser: chromium or chromium-browser or google-chrome is not installed" in run.stdout
        )
