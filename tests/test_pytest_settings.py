"""The test command itself: its last lines name what failed, however the tests are run."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BROKEN = """
import os
import pytest

@pytest.fixture
def broken():
    raise ValueError

def test_good():
    pass

@pytest.mark.parametrize("number", range(5))
def test_bad(number):
    assert number != 3, "long\\n" * 100

def test_without_its_fixture(broken):
    pass
"""


def test_the_last_lines_name_what_failed(tmp_path):
    (tmp_path / "test_broken.py").write_text(BROKEN, encoding="utf-8")
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *settings, "-n", "2", "-q", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    _, title, last = run.stdout.rpartition("short test summary info")
    assert title  # where there is a variable CI, whole messages follow the names
    assert "\nFAILED test_broken.py::test_bad[3]" in last
    assert "\nERROR test_broken.py::test_without_its_fixture" in last


def test_examples_of_hypothesis_are_the_same_in_every_run():
    from hypothesis import HealthCheck, settings

    assert settings.default.deadline is None
    assert settings.default.derandomize
    assert HealthCheck.too_slow in settings.default.suppress_health_check
